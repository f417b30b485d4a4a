// Audit rows that several decisions write.

import type { StepError } from "../../state/entry.js";
import type { Ending } from "../../state/rollback.js";
import type { Note, StepOutcome, StepPlan } from "../../steps/step.js";
import type { StepErrorCode } from "../../values/error-code.js";
import type { Json, JsonObject } from "../../values/json.js";
import { formatInstant } from "../../values/time.js";
import type { Draft } from "../draft.js";

/** The audit events of the step's own. */
export function recordNotes(draft: Draft, plan: StepPlan, notes: readonly Note[] = []): void {
  for (const { type, metadata } of notes) draft.row(type, draft.context.state, { stepId: plan.id, metadata });
}

export function recordPause(draft: Draft, plan: StepPlan, outcome: Extract<StepOutcome, { kind: "wait" }>): void {
  const { awaiting, name, wait } = outcome;
  const dueAt: JsonObject = "dueAt" in wait && wait.dueAt !== undefined ? { wakeup_at: formatInstant(wait.dueAt) } : {};
  const metadata = { awaiting, ...(name !== undefined && { name }), ...dueAt };
  draft.row("step.paused", "paused", { stepId: plan.id, metadata });
}

export interface FailedAttempt {
  /** The attempt of its call that failed; 0 if it had no call. */
  readonly attempt?: number;
  /** What the worker said. */
  readonly retryable?: boolean;
  /** The output of a step that was done before the engine failed it: it is undone on a rollback. */
  readonly done?: Json;
}

export function recordFailedStep(draft: Draft, plan: StepPlan, error: StepError, about: FailedAttempt): void {
  draft.row("step.failed", "running", {
    stepId: plan.id,
    attempt: about.attempt,
    metadata: failedMetadata(error, about),
  });
}

export function failedMetadata({ code, message }: StepError, { retryable = false }: FailedAttempt) {
  return { code, message, retryable, will_retry: false };
}

/** The failure of a step that was aborted from outside: by a cancel, a timeout around it, or the failure of its run. */
export function recordAbortedStep(draft: Draft, code: StepErrorCode, message: string): void {
  const { wait, step, state, unwinding } = draft.context;
  const attempt = wait?.kind === "dispatched" ? wait.attempt : 0;
  const metadata = { code, message, retryable: false, will_retry: false };
  draft.row("step.failed", unwinding ? "running" : state, { stepId: step, attempt, metadata });
}

/** The error code of the steps that an ending aborts. */
export function endingCode({ to, error }: Ending): StepErrorCode {
  return to === "cancelled" ? "cancelled" : (error?.code ?? "error");
}
