// Audit events: the history of a run, one row each. The state after one is the state before the next. The fifteen types are closed.

import type { RunState } from "../state/lifecycle.js";
import type { RunId } from "../values/ids.js";
import type { JsonObject } from "../values/json.js";
import type { Row } from "./relations.js";

export const AUDIT_TYPES = [
  "saga.started",
  "step.dispatched",
  "step.started",
  "step.succeeded",
  "step.failed",
  "step.skipped",
  "step.paused",
  "run.succeeded",
  "run.failed",
  "run.cancelled",
  "compensation.started",
  "log",
  "metric",
  "rule.evaluated",
  "license.gate.rejected",
] as const;

export type AuditType = (typeof AUDIT_TYPES)[number];

/** An audit event without its number in the run (`seq`). `at` is database time, epoch milliseconds. */
export interface AuditEvent {
  readonly type: AuditType;
  readonly stepId?: string;
  /** 0 where no attempt is concerned. */
  readonly attempt: number;
  readonly from: RunState;
  readonly to: RunState;
  /** `coordinator`, `worker:<id>`, `user:<sub>`, `trigger:<id>`, `api`. */
  readonly actor: string;
  readonly metadata?: JsonObject;
  readonly at: number;
}

/** An audit event with its number, as committed. */
export interface CommittedEvent extends AuditEvent {
  readonly runId: RunId;
  readonly seq: number;
}

/** `commandId`: the worker's answer that the event is the outcome of. */
export function auditRow(runId: RunId, seq: number, event: AuditEvent, commandId?: string): Row<"audit_event"> {
  return {
    run_id: runId,
    seq,
    recorded_at: event.at,
    event_type: event.type,
    step_id: event.stepId,
    attempt: event.attempt,
    from_state: event.from,
    to_state: event.to,
    actor: event.actor,
    metadata: event.metadata,
    command_id: commandId,
  };
}
