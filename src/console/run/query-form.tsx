// A question about the run as it is now, in CEL: the value of an expression over its variables.
import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useId, useState } from "react";
import { part, post } from "../browser/client.js";
import { Refused } from "../parts/notes.js";
import { Json } from "../parts/values.js";

interface Valued {
  readonly state: string;
  readonly last_seq: number;
  readonly value: unknown;
}

export function QueryForm({ runId }: { runId: string }) {
  const [expression, setExpression] = useState("");
  const [field, hint] = [useId(), useId()];
  const asked = useMutation({
    mutationFn: (source: string) => post<Valued>(`/sagas/${part(runId)}/query`, { expression: source }),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    asked.mutate(expression);
  };
  return (
    <>
      <form onSubmit={submit}>
        <label htmlFor={field}>Expression (CEL)</label>
        <input
          id={field}
          className="value"
          value={expression}
          aria-describedby={hint}
          autoComplete="off"
          spellCheck={false}
          onChange={({ target }) => setExpression(target.value)}
        />
        <p id={hint} className="quiet">
          It sees inputs, vars, run, features, now, and output once the run has succeeded. Nothing is changed.
        </p>
        <button type="submit" disabled={asked.isPending || expression.trim() === ""}>
          Evaluate
        </button>
      </form>
      {asked.error && <Refused error={asked.error} />}
      <div role="status">
        {asked.data && (
          <>
            <p className="quiet">
              After event {asked.data.last_seq}; the run is {asked.data.state}.
            </p>
            <Json value={asked.data.value} label="Value of the expression" />
          </>
        )}
      </div>
    </>
  );
}
