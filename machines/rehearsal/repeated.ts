// The mock that repeats what answered a step of a run, as an audit event has it. It reads one event, and knows no other run.

import { STEP_TYPES } from "../steps/index.js";
import type { MockRules } from "../steps/step.js";
import { isObject, type JsonObject } from "../values/json.js";
import type { Mock } from "./mock.js";

export interface AnsweredEvent {
  readonly event_type: string;
  /** 0: it belongs to no attempt. */
  readonly attempt: number;
  readonly metadata: JsonObject;
}

export interface Repeated {
  readonly mock: Mock;
  /** What the event does not say of the answer. */
  readonly lacks?: string;
}

const UNDO: MockRules = { output: "object", failures: "any" };
const SILENCE: Mock = { error: { code: "timeout" } };

/**
 * Undefined: nothing from outside has answered. The step takes no mocks, or it failed by itself, and does so again.
 * `type`: of the step. Undefined: the event is that of an undo.
 */
export function repeatingMock(type: string | undefined, event: AnsweredEvent): Repeated | undefined {
  const { event_type, metadata } = event;
  const rules = type === undefined ? UNDO : STEP_TYPES.get(type)?.mock;
  if (!rules) return undefined;
  if (event_type === "step.failed") return ofFailure(rules, type, event);
  const { output = null } = metadata;
  // After a timeout with a handler.
  if (rules.failures === "timeout" && output === null) return { mock: SILENCE };
  const given = rules.given ? rules.given(output) : output;
  return { mock: { output: rules.output === "object" && !isObject(given) ? {} : given } };
}

function ofFailure(rules: MockRules, type: string | undefined, { attempt, metadata }: AnsweredEvent) {
  const { code, message, retryable, handed_over: isHandedOver } = metadata;
  if (code === "timeout") return { mock: SILENCE };
  const refusal = typeof code === "string" ? rules.refusals?.[code] : undefined;
  if (refusal !== undefined) return { mock: { output: refusal }, lacks: "the rest of the answer" };
  if (rules.failures === "timeout") return undefined;
  const isByItself = STEP_TYPES.get(type ?? "")?.runsSaga
    ? code !== "child_failed" && code !== "cancelled"
    : attempt === 0;
  // No worker has seen a dispatch that was not handed over.
  if (isByItself || isHandedOver === false) return undefined;
  const error = {
    code: typeof code === "string" ? code : "unknown",
    ...(typeof message === "string" && message !== "" && { message }),
    ...(typeof retryable === "boolean" && { retryable }),
    // The service gives this code where it lost the worker.
    ...(code === "heartbeat_timeout" && { outcome_unknown: true }),
  };
  return { mock: { error } };
}
