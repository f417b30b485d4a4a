// The end of a run that has ended: it is erased with everything below it. Nothing brings it back, so a person says in a word that it is meant.
import { type FormEvent, useState } from "react";
import { useLocation } from "wouter";
import { isMeant, MeantWord } from "../acts/meant-word.js";
import { useMay } from "../browser/access.js";
import { useAct } from "../browser/act.js";
import { ApiError, part, send } from "../browser/client.js";
import type { Run } from "../browser/resources.js";
import { Dialog } from "../parts/dialog.js";
import { Refused } from "../parts/notes.js";
import { hasEnded } from "../story/counts.js";

/** A child goes with its root. */
export function Erase({ run }: { run: Run }) {
  const [isOpen, setOpen] = useState(false);
  const may = useMay();
  if (!hasEnded(run) || run.parent_run_id !== undefined || !may("eraseSaga")) return null;
  return (
    <>
      <button type="button" className="danger" onClick={() => setOpen(true)}>
        Erase …
      </button>
      {isOpen && <EraseDialog run={run} onClose={() => setOpen(false)} />}
    </>
  );
}

function EraseDialog({ run, onClose }: { run: Run; onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const [, navigate] = useLocation();
  const erase = useAct(() => send("DELETE", `/sagas/${part(run.id)}`).catch(unlessGone), {
    changes: ["sagas"],
    onDone: () => navigate("/runs"),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (isMeant(typed)) erase.mutate(undefined);
  };
  return (
    <Dialog title="Erase the run?" onClose={onClose}>
      <p>
        What is lost for good: the run {run.business_key ?? run.id}, its branches, items and sub-sagas, their inputs,
        variables and outputs, signals, tasks, undo lists and audit logs. It cannot be run again. What remains is a note
        of who erased it and when, and that its idempotency key was used.
      </p>
      <form onSubmit={submit}>
        <MeantWord typed={typed} onChange={setTyped} />
        {erase.error && <Refused error={erase.error} />}
        <div className="row">
          <button type="submit" className="danger" disabled={!isMeant(typed) || erase.isPending}>
            {erase.isPending ? "Erasing …" : "Erase for good"}
          </button>
          <button type="button" onClick={onClose}>
            Close
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** Of a repeat after an answer that was lost. */
function unlessGone(error: Error): void {
  if (!(error instanceof ApiError) || error.status !== 404) throw error;
}
