// An act in a dialog: what it will do, what it asks for, and what the service answered. The command keeps its idempotency key while it is
// tried, so that it takes effect once.
import { type FormEvent, useState } from "react";
import { Link } from "wouter";
import { type Act, fieldsOf } from "../acts/acts.js";
import { ActFields } from "../acts/fields.js";
import { bodyOf, pathOf, type Texts, type Values, valuesOf } from "../acts/values.js";
import { useAct } from "../browser/act.js";
import { part, post } from "../browser/client.js";
import type { Run } from "../browser/resources.js";
import { Dialog } from "../parts/dialog.js";
import { Refused } from "../parts/notes.js";
import { RUN_KEY } from "./data.js";
import { MigrationCheck } from "./migration-check.js";

interface Acted {
  readonly run_id?: string;
  readonly changed?: boolean;
  readonly already_terminal?: boolean;
}

/** What is known already: the signal that is awaited, and nothing else, so that nothing is sent by accident. */
const initialTexts = ({ name }: Act, { awaited_signal }: Run): Texts =>
  name === "signal" && awaited_signal !== undefined ? { signal_name: awaited_signal } : {};

interface Props {
  readonly run: Run;
  readonly act: Act;
  readonly onClose: () => void;
}

export function ActDialog({ run, act, onClose }: Props) {
  const [texts, setTexts] = useState<Texts>(() => initialTexts(act, run));
  const sending = useSending(run, act, (answer) => {
    if (act.name !== "rerun" && answer.changed !== false) onClose();
  });
  const fields = fieldsOf(act, "run");
  const { values, faults } = valuesOf(fields, texts);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (Object.keys(faults).length === 0) sending.mutate(values);
  };
  return (
    <Dialog title={act.title} onClose={onClose}>
      <p>{act.words}</p>
      <form onSubmit={submit}>
        <ActFields {...{ fields, texts, faults }} onChange={setTexts} />
        {act.name === "migrate" && <MigrationCheck run={run} values={values} />}
        {sending.error && <Refused error={sending.error} />}
        {sending.data && <Answered answer={sending.data} act={act} />}
        <Buttons
          act={act}
          isSending={sending.isPending}
          isDone={sending.data?.run_id !== undefined}
          onClose={onClose}
        />
      </form>
    </Dialog>
  );
}

function useSending(run: Run, act: Act, onDone: (answer: Acted) => void) {
  return useAct<Values, Acted>(
    (values, idempotencyKey) =>
      post<Acted>(`/sagas/${part(run.id)}/${pathOf(act.name, values)}`, bodyOf(act.name, values), { idempotencyKey }),
    { changes: [RUN_KEY], onDone },
  );
}

function Answered({ answer, act }: { answer: Acted; act: Act }) {
  if (act.name === "rerun" && answer.run_id !== undefined)
    return (
      <p role="status">
        The new run: <Link href={`/runs/${answer.run_id}`}>{answer.run_id}</Link>
      </p>
    );
  return answer.changed === false ? <p role="status">Nothing changed: the run is so already.</p> : null;
}

function Buttons(props: { act: Act; isSending: boolean; isDone: boolean; onClose: () => void }) {
  const { act, isSending, isDone, onClose } = props;
  return (
    <div className="row">
      {!isDone && (
        <button type="submit" className={act.isDangerous ? "danger" : "primary"} disabled={isSending}>
          {isSending ? "Sending …" : act.title}
        </button>
      )}
      <button type="button" onClick={onClose}>
        Close
      </button>
    </div>
  );
}
