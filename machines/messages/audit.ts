// Audit events: the history of a run, one row each. The state after one is the state before the next. The fifteen types are closed.

import type { RunState } from "../state/lifecycle.js";
import type { JsonObject } from "../values/json.js";

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
