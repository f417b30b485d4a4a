// The inputs of the run that a fire starts.
import { ExpressionError, instant } from "../expression/index.js";
import { isObject, type Json, type JsonObject } from "../values/json.js";
import { spread } from "../values/secret.js";
import type { CronConfig, RecordTransitionConfig } from "./document.js";

/** The topic of the events that report a record's transition. */
export const RECORD_TRANSITION_TOPIC = "record.transition";

/** A record's change of state, as its event reports it. */
export interface RecordTransition {
  readonly recordType: string;
  readonly fromState: string;
  readonly toState: string;
  /** `{}` if the event has none, or null. */
  readonly record: JsonObject;
}

/** Undefined: the payload does not report a transition. */
export function recordTransition(payload: Json): RecordTransition | undefined {
  if (!isObject(payload)) return undefined;
  const { record_type: recordType, from_state: fromState, to_state: toState } = payload;
  const record = payload.record ?? {};
  const states = typeof recordType === "string" && typeof fromState === "string" && typeof toState === "string";
  return states && isObject(record) ? { recordType, fromState, toState, record } : undefined;
}

/** Texts; times are RFC 3339. A check before the tick does not know them. */
export interface CronTick {
  readonly id: Json;
  readonly scheduled_at: Json;
  readonly fired_at: Json;
}

export function cronInputs({ inputs }: CronConfig, tick: CronTick): JsonObject {
  return { ...(inputs && (spread(inputs) as JsonObject)), trigger: { ...tick } };
}

/** `event` has id, topic, headers and payload; `now` in epoch milliseconds. Throws ExpressionError. */
export function transitionInputs(
  { input_mapping: mapping }: RecordTransitionConfig,
  { record }: Pick<RecordTransition, "record">,
  event: JsonObject,
  now: number,
): JsonObject {
  if (mapping === undefined) return {};
  const inputs = mapping.render({ record, event, now: instant(now) });
  if (isObject(inputs)) return inputs;
  throw new ExpressionError("input_mapping must be an object");
}
