// A trigger's form and its config: what people fill in becomes what the service takes, and back. The service checks it; here only JSON is parsed.
import { parseObject } from "../parts/json-text.js";

export type TriggerType = "cron" | "record_transition";

/** What is read of a trigger here. */
export interface Described {
  readonly trigger_type: string;
  readonly workflow_id: string;
  readonly version?: number;
  readonly config: object;
}

/** The attributes as they are in the form: all of them text. */
export interface Fields {
  readonly trigger_type: TriggerType;
  readonly workflow_id: string;
  readonly version: string;
  readonly schedule: string;
  readonly time_zone: string;
  readonly start_at: string;
  readonly end_at: string;
  readonly jitter_ms: string;
  readonly inputs: string;
  readonly overlap_policy: string;
  readonly catchup: string;
  readonly catchup_window_ms: string;
  readonly record_type: string;
  readonly from_state: string;
  readonly to_state: string;
  readonly input_mapping: string;
}

export const EMPTY: Fields = {
  trigger_type: "cron",
  workflow_id: "",
  version: "",
  schedule: "",
  time_zone: "UTC",
  start_at: "",
  end_at: "",
  jitter_ms: "",
  inputs: "{}",
  overlap_policy: "allow",
  catchup: "latest",
  catchup_window_ms: "",
  record_type: "",
  from_state: "",
  to_state: "",
  input_mapping: "{}",
};

/** A problem of a field, before anything is sent. */
export interface Fault {
  readonly field: keyof Fields;
  readonly message: string;
}

type Config = Readonly<Record<string, unknown>>;

export interface Read {
  readonly config?: Config;
  readonly fault?: Fault;
}

export const configOf = (fields: Fields): Read => (fields.trigger_type === "cron" ? cron(fields) : transition(fields));

function cron({ schedule, inputs: text, overlap_policy, catchup, ...fields }: Fields): Read {
  const { value: inputs, fault } = parseObject(text);
  if (fault !== undefined) return { fault: { field: "inputs", message: fault } };
  const zone = fields.time_zone.trim();
  const filled = (["start_at", "end_at"] as const).filter((name) => fields[name].trim() !== "");
  const numbers = (["jitter_ms", "catchup_window_ms"] as const).filter((name) => fields[name].trim() !== "");
  return {
    config: {
      schedule: schedule.trim(),
      ...(zone !== "" && zone !== "UTC" && { time_zone: zone }),
      ...Object.fromEntries(filled.map((name) => [name, fields[name].trim()])),
      ...{ inputs, overlap_policy, catchup },
      ...Object.fromEntries(numbers.map((name) => [name, Number(fields[name])])),
    },
  };
}

function transition({ record_type, from_state, to_state, input_mapping: text }: Fields): Read {
  const { value: input_mapping, fault } = parseObject(text);
  if (fault !== undefined) return { fault: { field: "input_mapping", message: fault } };
  return { config: { record_type, from_state, to_state, input_mapping } };
}

export function fieldsOf({ trigger_type: type, workflow_id, version, config }: Described): Fields {
  const given = Object.entries(config).map(([name, value]) => [name, textOf(value)]);
  const trigger_type = type === "cron" ? type : "record_transition";
  return { ...EMPTY, ...Object.fromEntries(given), trigger_type, workflow_id, version: textOf(version) };
}

const textOf = (value: unknown): string =>
  value === undefined ? "" : typeof value === "object" ? JSON.stringify(value, null, 2) : String(value);

/** What fires it, in a few words. */
export function occasion({ trigger_type: type, config }: Pick<Described, "trigger_type" | "config">): string {
  const {
    schedule,
    time_zone = "UTC",
    record_type,
    from_state,
    to_state,
  } = config as Readonly<Record<string, unknown>>;
  return type === "cron" ? `${schedule} (${time_zone})` : `${record_type}: ${from_state} → ${to_state}`;
}
