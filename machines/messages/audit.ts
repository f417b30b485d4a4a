// Audit events: what happened to a run, one row each, chained by run state. The fifteen types are closed.
import type { JsonObject } from "./json.js";
import type { RunState } from "./lifecycle.js";

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

/** An audit event before its run numbers it (`seq`). `at` is database time, epoch milliseconds. */
export interface AuditEvent {
  readonly type: AuditType;
  readonly stepId?: string;
  /** 0 on rows that belong to no attempt. */
  readonly attempt: number;
  readonly from: RunState;
  readonly to: RunState;
  /** `coordinator`, `worker:<id>`, `user:<sub>`, `trigger:<id>`, `api`. */
  readonly actor: string;
  readonly metadata?: JsonObject;
  readonly at: number;
}
