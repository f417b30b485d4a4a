// The forms of a trigger, in dialogs: one for a new one, one that replaces the config of an old one. The service checks what they send.
import { type FormEvent, type ReactNode, useState } from "react";
import { useAct } from "../browser/act.js";
import { part, post, send } from "../browser/client.js";
import type { Trigger } from "../browser/resources.js";
import { Dialog } from "../parts/dialog.js";
import { Refused } from "../parts/notes.js";
import { configOf, EMPTY, type Fault, type Fields, fieldsOf } from "./config.js";
import { CronFields, TransitionFields, WhatFields } from "./fields.js";
import "./triggers.css";

interface Document {
  readonly config: unknown;
  readonly fields: Fields;
}

export function NewTrigger(props: { onClose: () => void; onCreated: (trigger: Trigger) => void }) {
  const create = useAct(
    ({ config, fields: { trigger_type, workflow_id, version } }: Document, idempotencyKey) =>
      post<Trigger>(
        "/triggers",
        { trigger_type, workflow_id, ...(version !== "" && { version: Number(version) }), config },
        { idempotencyKey },
      ),
    { changes: ["triggers"], onDone: props.onCreated },
  );
  const { error, isPending, mutate } = create;
  return (
    <Dialog title="New trigger" onClose={props.onClose}>
      <Form initial={EMPTY} act="Create" isNew {...{ error, isPending }} onSubmit={mutate} onClose={props.onClose} />
    </Dialog>
  );
}

export function ChangeTrigger({ trigger, onClose }: { trigger: Trigger; onClose: () => void }) {
  const change = useAct(
    ({ config }: Document) => send<Trigger>("PATCH", `/triggers/${part(trigger.id)}`, { body: { config } }),
    { changes: ["triggers"], onDone: onClose },
  );
  const { error, isPending, mutate } = change;
  return (
    <Dialog title="Change the trigger" onClose={onClose}>
      <Form initial={fieldsOf(trigger)} act="Save" {...{ error, isPending, onClose }} onSubmit={mutate} />
    </Dialog>
  );
}

interface FormProps {
  readonly initial: Fields;
  readonly act: string;
  readonly isNew?: boolean;
  readonly error: Error | null;
  readonly isPending: boolean;
  readonly onSubmit: (document: Document) => void;
  readonly onClose: () => void;
}

function Form({ initial, act, isNew = false, error, isPending, onSubmit, onClose }: FormProps) {
  const [fields, setFields] = useState(initial);
  const [fault, setFault] = useState<Fault>();
  const change = (changes: Partial<Fields>) => setFields((before) => ({ ...before, ...changes }));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const { config, fault } = configOf(fields);
    setFault(fault);
    if (config !== undefined) onSubmit({ config, fields });
  };
  const Own = fields.trigger_type === "cron" ? CronFields : TransitionFields;
  return (
    <form onSubmit={submit} className="trigger-form">
      {isNew && <WhatFields {...{ fields, fault, change }} />}
      <Own {...{ fields, fault, change }} />
      {error && <Refused error={error} />}
      <Buttons onClose={onClose}>
        <button type="submit" className="primary" disabled={isPending}>
          {act}
        </button>
      </Buttons>
    </form>
  );
}

export const Buttons = ({ onClose, children }: { onClose: () => void; children: ReactNode }) => (
  <div className="row">
    {children}
    <button type="button" onClick={onClose}>
      Close
    </button>
  </div>
);
