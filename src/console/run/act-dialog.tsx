// An act in a dialog: what it will do, what it asks for, and what the service answered. The command keeps its idempotency key while it is
// tried, so that it takes effect once.
import { type FormEvent, useState } from "react";
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
import { RerunDialog } from "./rerun-dialog.js";
import { VersionChoice } from "./version-choice.js";

interface Acted {
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

export const ActDialog = (props: Props) =>
  props.act.name === "rerun" ? <RerunDialog {...props} /> : <SentDialog {...props} />;

function SentDialog({ run, act, onClose }: Props) {
  const [texts, setTexts] = useState<Texts>(() => initialTexts(act, run));
  const sending = useSending(run, act, (answer) => {
    if (answer.changed !== false) onClose();
  });
  const all = fieldsOf(act, "run");
  const fields = act.name === "migrate" ? all.filter(({ name }) => name !== "version") : all;
  const { values, faults } = valuesOf(all, texts);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (Object.keys(faults).length === 0) sending.mutate(values);
  };
  return (
    <Dialog title={act.title} onClose={onClose}>
      <p>{act.words}</p>
      <form onSubmit={submit}>
        {act.name === "migrate" && (
          <VersionChoice
            workflowId={run.workflow_id}
            value={texts.version ?? ""}
            onChange={(version) => setTexts({ ...texts, version })}
            none="choose one"
            except={run.version}
          />
        )}
        <ActFields {...{ fields, texts, faults }} onChange={setTexts} />
        {act.name === "migrate" && <MigrationCheck run={run} values={values} />}
        {sending.error && <Refused error={sending.error} />}
        {sending.data?.changed === false && <p role="status">Nothing changed: the run is so already.</p>}
        <Buttons act={act} isSending={sending.isPending} onClose={onClose} />
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

function Buttons({ act, isSending, onClose }: { act: Act; isSending: boolean; onClose: () => void }) {
  return (
    <div className="row">
      <button type="submit" className={act.isDangerous ? "danger" : "primary"} disabled={isSending}>
        {isSending ? "Sending …" : act.title}
      </button>
      <button type="button" onClick={onClose}>
        Close
      </button>
    </div>
  );
}
