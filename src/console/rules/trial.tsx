// A rule tried out: inputs in, and what the service made of them in words. Nothing is stored by it.
import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { part, post } from "../browser/client.js";
import type { Rule } from "../browser/resources.js";
import { JsonField } from "../parts/json-field.js";
import { parseObject } from "../parts/json-text.js";
import { Refused } from "../parts/notes.js";
import { counted } from "../parts/plural.js";
import { Json } from "../parts/values.js";
import { type Evaluated, namesIn, sentence } from "./table.js";

interface Props {
  readonly rule: Rule;
  readonly evaluated: Evaluated | undefined;
  readonly onEvaluated: (evaluated: Evaluated | undefined) => void;
}

export function Trial({ rule, evaluated, onEvaluated }: Props) {
  const trial = useMutation({
    mutationFn: (inputs: unknown) => evaluate(rule, inputs),
    onMutate: () => onEvaluated(undefined),
    onSuccess: onEvaluated,
  });
  return (
    <section aria-labelledby="trial" className="card trial">
      <h2 id="trial">Try it out</h2>
      {rule.published ? (
        <Inputs rule={rule} isBusy={trial.isPending} onTry={trial.mutate} />
      ) : (
        <p className="quiet">Version {rule.version} is not published. The service evaluates published versions only.</p>
      )}
      {trial.error && <Refused error={trial.error} />}
      <div role="status">{evaluated && <Result rule={rule} evaluated={evaluated} />}</div>
    </section>
  );
}

const evaluate = ({ rule_id: id, version, tenant_id }: Rule, inputs: unknown) =>
  post<Evaluated>(`/rules/${part(id)}/evaluate`, { inputs, version, tenant_id });

function Inputs({ rule, isBusy, onTry }: { rule: Rule; isBusy: boolean; onTry: (inputs: unknown) => void }) {
  const [text, setText] = useState("{}");
  const [fault, setFault] = useState<string>();
  const names = namesIn(rule.spec);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const { value, fault } = parseObject(text);
    setFault(fault);
    if (fault === undefined) onTry(value);
  };
  const hint = names.length > 0 ? `The conditions name ${names.slice(0, 20).join(", ")}.` : undefined;
  return (
    <form onSubmit={submit}>
      <JsonField label="Inputs (JSON)" {...{ text, fault, hint }} onChange={setText} />
      <button type="submit" className="primary" disabled={isBusy}>
        Try
      </button>
    </form>
  );
}

function Result({ rule, evaluated }: { rule: Rule; evaluated: Evaluated }) {
  const { output, audit } = evaluated;
  return (
    <>
      <p>
        <strong>{sentence(rule.spec, evaluated)}</strong>
      </p>
      <Json value={output} label="Output" />
      <p className="quiet">
        {audit.rows.length} of {counted(rule.spec.rows.length, "row")} tried in {audit.duration_ms} ms
      </p>
    </>
  );
}
