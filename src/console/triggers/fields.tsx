// The fields of a trigger's forms: what it starts, and by its type when it fires. Their values are with the form.
import type { ReactNode } from "react";
import { useMayMakeTrigger } from "../browser/access.js";
import { JsonField } from "../parts/json-field.js";
import type { Fault, Fields, TriggerType } from "./config.js";
import { useWorkflows } from "./workflow-link.js";

interface Props {
  readonly fields: Fields;
  readonly fault: Fault | undefined;
  readonly change: (changes: Partial<Fields>) => void;
}

export function WhatFields({ fields, change }: Props) {
  const mayOfRecords = useMayMakeTrigger("record_transition");
  return (
    <>
      <label>
        Type
        <select
          value={fields.trigger_type}
          onChange={({ target }) => change({ trigger_type: target.value as TriggerType })}
        >
          <option value="cron">cron: by a schedule</option>
          {mayOfRecords && <option value="record_transition">record transition: by a change of state</option>}
        </select>
      </label>
      <Line name="workflow_id" label="Workflow" list="trigger-workflows" required {...{ fields, change }} />
      <Workflows />
      <Line
        name="version"
        label="Version (empty: the latest published one)"
        pattern="[1-9][0-9]*"
        {...{ fields, change }}
      />
    </>
  );
}

const Workflows = () => (
  <datalist id="trigger-workflows">
    {useWorkflows().map(({ id, name }) => (
      <option key={id} value={id}>
        {name}
      </option>
    ))}
  </datalist>
);

const TimeZones = () => (
  <datalist id="trigger-time-zones">
    {["UTC", ...Intl.supportedValuesOf("timeZone")].map((zone) => (
      <option key={zone} value={zone} />
    ))}
  </datalist>
);

interface LineProps extends Pick<Props, "fields" | "change"> {
  readonly name: Exclude<keyof Fields, "trigger_type">;
  readonly label: string;
  readonly required?: boolean;
  readonly list?: string;
  readonly pattern?: string;
  readonly placeholder?: string;
}

function Line({ name, label, fields, change, ...rest }: LineProps) {
  return (
    <label>
      {label}
      <input value={fields[name]} onChange={({ target }) => change({ [name]: target.value })} {...rest} />
    </label>
  );
}

type ChoiceProps = Pick<LineProps, "name" | "label" | "fields" | "change"> & { readonly children: ReactNode };

const Choice = ({ name, label, fields, change, children }: ChoiceProps) => (
  <label>
    {label}
    <select value={fields[name]} onChange={({ target }) => change({ [name]: target.value })}>
      {children}
    </select>
  </label>
);

export function CronFields({ fields, fault, change }: Props) {
  const both = { fields, change };
  return (
    <>
      <Line
        name="schedule"
        label="Schedule (minute, hour, day, month, weekday)"
        placeholder="30 2 * * 1-5"
        required
        {...both}
      />
      <Line name="time_zone" label="Time zone" list="trigger-time-zones" placeholder="Europe/Vienna" {...both} />
      <TimeZones />
      <Line name="start_at" label="Not before (empty: at once)" placeholder="2027-01-01T00:00:00Z" {...both} />
      <Line name="end_at" label="Not after (empty: for good)" placeholder="2027-12-31T23:59:59Z" {...both} />
      <Line
        name="jitter_ms"
        label="Later than its ticks by up to, in ms (empty: not at all)"
        pattern="[0-9]+"
        {...both}
      />
      <JsonText name="inputs" label="Inputs of every run (JSON)" {...{ ...both, fault }} />
      <Choice name="overlap_policy" label="While the run of an earlier fire goes on" {...both}>
        <option value="allow">allow: start another run</option>
        <option value="skip">skip: start none</option>
      </Choice>
      <Choice name="catchup" label="Ticks that passed while no node was up" {...both}>
        <option value="latest">latest: fire the latest of them</option>
        <option value="none">none: fire none of them</option>
      </Choice>
      <Line
        name="catchup_window_ms"
        label="How late the latest may be, in ms (empty: one hour)"
        pattern="[0-9]+"
        {...both}
      />
    </>
  );
}

export function TransitionFields({ fields, fault, change }: Props) {
  const both = { fields, change };
  return (
    <>
      <Line name="record_type" label="Type of the record" required {...both} />
      <Line name="from_state" label="From the state" required {...both} />
      <Line name="to_state" label="To the state" required {...both} />
      <JsonText
        name="input_mapping"
        label="Inputs of the run, templates over record and event (JSON)"
        {...{ ...both, fault }}
      />
    </>
  );
}

function JsonText({ name, label, fields, fault, change }: Props & { name: "inputs" | "input_mapping"; label: string }) {
  const own = fault?.field === name ? fault.message : undefined;
  return <JsonField label={label} text={fields[name]} fault={own} onChange={(text) => change({ [name]: text })} />;
}
