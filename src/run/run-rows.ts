// Rows that a new run and a running one have in common: the due time of the wake row, and audit rows.
import { type RunContext, wakeAt } from "../../machines/index.js";
import type { EventRow } from "../store/commit/rows.js";
import type { CommittedEvent } from "./ports.js";

/** The wake row of a run that is stepping is due this far ahead: it is polled only if the run's node died. */
export const STEPPING_GRACE_MS = 2_000;

/** The due time of the run's wake row; null: it needs none. */
export function wakeTime(context: RunContext, now: number): number | null {
  const wake = wakeAt(context);
  return wake === "soon" ? now + STEPPING_GRACE_MS : (wake ?? null);
}

export function eventRow(event: CommittedEvent): EventRow {
  const { seq, at, type, stepId, attempt, from, to, actor, metadata } = event;
  return { seq, at, type, stepId, attempt, from, to, actor, metadata: metadata && JSON.stringify(metadata) };
}
