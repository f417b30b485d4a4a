// The acts on a trigger: enable, disable, fire now, change, delete. Each is one request, and what it changed is read again.
import { type FormEvent, useState } from "react";
import { useLocation } from "wouter";
import { useMay, useMayMakeTrigger } from "../browser/access.js";
import { useAct } from "../browser/act.js";
import { part, post, send } from "../browser/client.js";
import type { Trigger } from "../browser/resources.js";
import { Dialog } from "../parts/dialog.js";
import { JsonField } from "../parts/json-field.js";
import { parseObject } from "../parts/json-text.js";
import { Refused } from "../parts/notes.js";
import { Backfill } from "./backfill.js";
import { Buttons, ChangeTrigger } from "./form.js";
import { Disable } from "./pause.js";
import { useWorkflowName } from "./workflow-link.js";

type Open = "backfill" | "change" | "delete" | "disable" | "fire";

export function Acts({ trigger }: { trigger: Trigger }) {
  const [open, setOpen] = useState<Open>();
  const close = () => setOpen(undefined);
  const isCron = trigger.trigger_type === "cron";
  const may = useMay();
  const mayChange = useMayMakeTrigger(trigger.trigger_type) && may("changeTrigger");
  return (
    <>
      <div className="row">
        {may("fireTrigger") && isCron && <FireNow trigger={trigger} />}
        {may("fireTrigger") && !isCron && <Opens what="fire" name="Fire now …" onOpen={setOpen} />}
        {may("backfillTrigger") && isCron && <Opens what="backfill" name="Backfill …" onOpen={setOpen} />}
        {mayChange && trigger.enabled && <Opens what="disable" name="Disable …" onOpen={setOpen} />}
        {mayChange && !trigger.enabled && <Enable trigger={trigger} />}
        {mayChange && <Opens what="change" name="Change …" onOpen={setOpen} />}
        {may("deleteTrigger") && <Opens what="delete" name="Delete …" onOpen={setOpen} />}
      </div>
      {open === "backfill" && <Backfill trigger={trigger} onClose={close} />}
      {open === "disable" && <Disable trigger={trigger} onClose={close} />}
      {open === "change" && <ChangeTrigger trigger={trigger} onClose={close} />}
      {open === "delete" && <Delete trigger={trigger} onClose={close} />}
      {open === "fire" && <FireWithPayload trigger={trigger} onClose={close} />}
    </>
  );
}

const Opens = ({ what, name, onOpen }: { what: Open; name: string; onOpen: (what: Open) => void }) => (
  <button type="button" className={what === "delete" ? "danger" : undefined} onClick={() => onOpen(what)}>
    {name}
  </button>
);

function Enable({ trigger: { id } }: { trigger: Trigger }) {
  const enable = useAct((enabled: boolean) => send<Trigger>("PATCH", `/triggers/${part(id)}`, { body: { enabled } }), {
    changes: ["triggers"],
  });
  return (
    <>
      <button type="button" disabled={enable.isPending} onClick={() => enable.mutate(true)}>
        Enable
      </button>
      {enable.error && <Refused error={enable.error} />}
    </>
  );
}

interface Fired {
  readonly fire_id: string;
  readonly run_id?: string;
}

const useFire = (id: string, onDone?: () => void) =>
  useAct((body: object, idempotencyKey) => post<Fired>(`/triggers/${part(id)}/fire`, body, { idempotencyKey }), {
    changes: ["triggers"],
    ...(onDone && { onDone }),
  });

function FireNow({ trigger: { id } }: { trigger: Trigger }) {
  const fire = useFire(id);
  return (
    <>
      <button type="button" className="primary" disabled={fire.isPending} onClick={() => fire.mutate({})}>
        Fire now
      </button>
      {fire.error && <Refused error={fire.error} />}
    </>
  );
}

function FireWithPayload({ trigger: { id }, onClose }: { trigger: Trigger; onClose: () => void }) {
  const [text, setText] = useState("{}");
  const [fault, setFault] = useState<string>();
  const fire = useFire(id, onClose);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const { value: payload, fault } = parseObject(text);
    setFault(fault);
    if (fault === undefined) fire.mutate({ payload });
  };
  return (
    <Dialog title="Fire now" onClose={onClose}>
      <form onSubmit={submit}>
        <JsonField label="Payload of the event (JSON)" text={text} fault={fault} onChange={setText} />
        {fire.error && <Refused error={fire.error} />}
        <Buttons onClose={onClose}>
          <button type="submit" className="primary" disabled={fire.isPending}>
            Fire
          </button>
        </Buttons>
      </form>
    </Dialog>
  );
}

function Delete({ trigger: { id, workflow_id }, onClose }: { trigger: Trigger; onClose: () => void }) {
  const [, navigate] = useLocation();
  const name = useWorkflowName(workflow_id);
  const remove = useAct(() => send("DELETE", `/triggers/${part(id)}`), {
    changes: ["triggers"],
    onDone: () => navigate("/triggers"),
  });
  return (
    <Dialog title="Delete the trigger?" onClose={onClose}>
      <p>It starts no further runs of {name}, and its past fires go with it. Runs that it has started go on.</p>
      {remove.error && <Refused error={remove.error} />}
      <Buttons onClose={onClose}>
        <button type="button" className="danger" disabled={remove.isPending} onClick={() => remove.mutate(undefined)}>
          Delete
        </button>
      </Buttons>
    </Dialog>
  );
}
