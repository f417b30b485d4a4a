// An act in a dialog: what it will do, what it asks for, and what the service answered. The command keeps its idempotency key while it is
// tried, so that it takes effect once.
import { type FormEvent, useState } from "react";
import { Link } from "wouter";
import { useAct } from "../browser/act.js";
import { part, post } from "../browser/client.js";
import type { Run } from "../browser/resources.js";
import { Dialog } from "../parts/dialog.js";
import { Refused } from "../parts/notes.js";
import { ActField, initialTexts, type Texts, valuesOf } from "./act-fields.js";
import { type ActForm, bodyOf, pathOf, type Values } from "./act-forms.js";
import { RUN_KEY } from "./data.js";
import { MigrationCheck } from "./migration-check.js";

interface Acted {
  readonly run_id?: string;
  readonly changed?: boolean;
  readonly already_terminal?: boolean;
}

interface Props {
  readonly run: Run;
  readonly form: ActForm;
  readonly onClose: () => void;
}

export function ActDialog({ run, form, onClose }: Props) {
  const [texts, setTexts] = useState<Texts>(() => initialTexts(form, run));
  const act = useSending(run, form, (answer) => {
    if (form.name !== "rerun" && answer.changed !== false) onClose();
  });
  const { values, faults } = valuesOf(form, texts);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (Object.keys(faults).length === 0) act.mutate(values);
  };
  return (
    <Dialog title={form.title} onClose={onClose}>
      <p>{form.words}</p>
      <form onSubmit={submit}>
        {form.fields.map((field) => (
          <ActField key={field.name} field={field} texts={texts} fault={faults[field.name]} onChange={setTexts} />
        ))}
        {form.name === "migrate" && <MigrationCheck run={run} values={values} />}
        {act.error && <Refused error={act.error} />}
        {act.data && <Answered answer={act.data} form={form} />}
        <Buttons form={form} isSending={act.isPending} isDone={act.data?.run_id !== undefined} onClose={onClose} />
      </form>
    </Dialog>
  );
}

function useSending(run: Run, form: ActForm, onDone: (answer: Acted) => void) {
  return useAct<Values, Acted>(
    (values, idempotencyKey) =>
      post<Acted>(`/sagas/${part(run.id)}/${pathOf(form.name, values)}`, bodyOf(form.name, values), { idempotencyKey }),
    { changes: [RUN_KEY], onDone },
  );
}

function Answered({ answer, form }: { answer: Acted; form: ActForm }) {
  if (form.name === "rerun" && answer.run_id !== undefined)
    return (
      <p role="status">
        The new run: <Link href={`/runs/${answer.run_id}`}>{answer.run_id}</Link>
      </p>
    );
  return answer.changed === false ? <p role="status">Nothing changed: the run is so already.</p> : null;
}

function Buttons(props: { form: ActForm; isSending: boolean; isDone: boolean; onClose: () => void }) {
  const { form, isSending, isDone, onClose } = props;
  return (
    <div className="row">
      {!isDone && (
        <button type="submit" className={form.isDangerous ? "danger" : "primary"} disabled={isSending}>
          {isSending ? "Sending …" : form.title}
        </button>
      )}
      <button type="button" onClick={onClose}>
        Close
      </button>
    </div>
  );
}
