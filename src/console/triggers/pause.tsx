// Why a trigger is disabled: the question before, and the sentence while it is. When it fires again is on its page.
import { type FormEvent, useState } from "react";
import { useAct } from "../browser/act.js";
import { part, send } from "../browser/client.js";
import type { Trigger } from "../browser/resources.js";
import { Dialog } from "../parts/dialog.js";
import { Refused } from "../parts/notes.js";
import { When } from "../parts/values.js";
import { Buttons } from "./form.js";

const MAX_REASON = 2_000;

export function Disable({ trigger: { id }, onClose }: { trigger: Trigger; onClose: () => void }) {
  const [reason, setReason] = useState("");
  const disable = useAct(
    (reason: string) =>
      send<Trigger>("PATCH", `/triggers/${part(id)}`, { body: { enabled: false, ...(reason !== "" && { reason }) } }),
    { changes: ["triggers"], onDone: onClose },
  );
  const submit = (event: FormEvent) => {
    event.preventDefault();
    disable.mutate(reason.trim());
  };
  return (
    <Dialog title="Disable the trigger" onClose={onClose}>
      <form onSubmit={submit} className="trigger-form">
        <p>It fires no more until it is enabled again. What passes meanwhile is not made up for by itself.</p>
        <label>
          Reason (optional)
          <textarea rows={3} maxLength={MAX_REASON} value={reason} onChange={({ target }) => setReason(target.value)} />
        </label>
        {disable.error && <Refused error={disable.error} />}
        <Buttons onClose={onClose}>
          <button type="submit" className="primary" disabled={disable.isPending}>
            Disable
          </button>
        </Buttons>
      </form>
    </Dialog>
  );
}

/** Who disabled it, when and why. */
export function Paused({ trigger: { paused } }: { trigger: Trigger }) {
  if (!paused) return null;
  const { since, by, reason } = paused;
  return (
    <p>
      Disabled since <When at={since} />
      {by !== undefined && ` by ${by}`}
      {reason === undefined ? "." : <>: {reason}</>}
    </p>
  );
}
