// An act in a dialog: what it will do, what it asks for, and what the service answered. The command keeps its idempotency key while it is
// tried, so that it takes effect once.
import { type FormEvent, useState } from "react";
import { useLocation } from "wouter";
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
  /** Of a fork, the new run. */
  readonly run_id?: string;
  readonly changed?: boolean;
  readonly already_terminal?: boolean;
}

/** Signals of this name come from submits of tasks. The API refuses them. */
const RESERVED = "user_task.";

/** What is known already: the signal that is awaited, and nothing else, so that nothing is sent by accident. */
function initialTexts({ name }: Act, { awaited_signal: awaited = RESERVED, current_step: step }: Run): Texts {
  if (name === "fork") return step === undefined ? {} : { step };
  return name === "signal" && !awaited.startsWith(RESERVED) ? { signal_name: awaited } : {};
}

interface Props {
  readonly run: Run;
  readonly act: Act;
  readonly onClose: () => void;
}

export const ActDialog = (props: Props) =>
  props.act.name === "rerun" ? <RerunDialog {...props} /> : <SentDialog {...props} />;

function SentDialog({ run, act, onClose }: Props) {
  const [texts, setTexts] = useState<Texts>(() => initialTexts(act, run));
  const [, navigate] = useLocation();
  const sending = useSending(run, act, (answer) => {
    if (answer.changed !== false) onClose();
    if (act.name === "fork") navigate(`/runs/${answer.run_id}`);
  });
  const all = fieldsOf(act, "run");
  const fields = act.name === "migrate" ? all.filter(({ name }) => name !== "version") : all;
  const { values, faults } = valuesOf(all, texts);
  const asked = JSON.stringify(values);
  const [impossible, setImpossible] = useState<string>();
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
        {act.name === "migrate" && (
          <MigrationCheck
            key={asked}
            run={run}
            values={values}
            onAnswer={(allowed) => setImpossible(allowed ? undefined : asked)}
          />
        )}
        {sending.error && <Refused error={sending.error} />}
        {sending.data?.changed === false && <p role="status">Nothing changed: the run is so already.</p>}
        <Buttons act={act} isSending={sending.isPending} isPossible={asked !== impossible} onClose={onClose} />
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

interface ButtonsProps {
  readonly act: Act;
  readonly isSending: boolean;
  /** False: the service has said that it would refuse these values. */
  readonly isPossible: boolean;
  readonly onClose: () => void;
}

function Buttons({ act, isSending, isPossible, onClose }: ButtonsProps) {
  return (
    <div className="row">
      <button type="submit" className={act.isDangerous ? "danger" : "primary"} disabled={isSending || !isPossible}>
        {isSending ? "Sending …" : act.title}
      </button>
      <button type="button" onClick={onClose}>
        Close
      </button>
    </div>
  );
}
