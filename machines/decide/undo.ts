// Working off the undo list of a run, or the part of it that a try has added: one compensation after the other, newest first.

import { type ActionFact, Needed } from "../messages/fact.js";
import { undoSettled } from "../messages/owed.js";
import type { ActionCall } from "../state/call.js";
import type { StepError } from "../state/entry.js";
import type { UndoEntry } from "../state/rollback.js";
import { DEFAULT_TIMEOUT_MS } from "../steps/action.js";
import type { StepErrorCode } from "../values/error-code.js";
import type { JsonObject } from "../values/json.js";
import { completeRetry } from "../values/retry.js";
import { queueCall } from "./dispatching.js";
import type { Draft } from "./draft.js";
import { concludeEnding, continueEnding } from "./ending.js";
import { beginUndoIncident, undoStandsAtIncident } from "./ledger/incidents.js";
import { findAction, rollbackState, undoMetadata } from "./ledger/undo-list.js";
import { leaveInnerBlocks } from "./timeouts.js";
import { endUnwinding, unwindTry } from "./token.js";

/** The dispatch that the rollback of the run, or of a try, had to await is resolved. */
export function continueRollback(draft: Draft): void {
  const { ending, unwinding } = draft.context;
  if (unwinding) leaveInnerBlocks(draft, false);
  else if (ending) continueEnding(draft, "note");
}

/** Starts the next undo: the newest entry of the undo list, or of what the try being left has added to it. */
export function undoNext(draft: Draft): void {
  const { unwinding, frames } = draft.context;
  const frame = unwinding && frames.at(-1);
  const since = frame?.kind === "try" ? frame.entry.number : 0;
  const { undo: owed } = draft.facts;
  if (owed?.since !== since) throw new Needed({ kind: "undo", since });
  const undo = owed.newest;
  if (undo === null) return finishUndo(draft);
  const registered = findAction(draft, undo.action ?? "");
  const again = draft.context.undoing === undo.ordinal;
  draft.change({ undoing: undo.ordinal, ...(!unwinding && { step: undo.stepId }) });
  const state = rollbackState(draft.context);
  const phase = undoMetadata(undo.childRunId);
  if (!again) draft.row("step.started", state, { stepId: undo.stepId, metadata: phase });
  if (!registered) {
    const error: StepError = { code: "action_not_registered", message: `no action ${undo.action} is registered` };
    return recordUndo(draft, undo, "failed", 0, error);
  }
  if (draft.context.run.dryRun && !registered.dryRunSupported) {
    draft.row("step.skipped", state, { stepId: undo.stepId, metadata: { ...phase, reason: "dry_run" } });
    return continueAfterUndo(draft, "done");
  }
  queueCall(draft, compensationCall(undo, registered), 1, "wait");
}

/** No entry is left. The run's count may be higher: it includes entries that were handed over from before the try. */
function finishUndo(draft: Draft): void {
  const { unwinding } = draft.context;
  if (unwinding) endUnwinding(draft, unwinding);
  else concludeEnding(draft);
}

function compensationCall(undo: UndoEntry, registered: ActionFact): ActionCall {
  return {
    phase: "compensation",
    stepId: undo.stepId,
    service: registered.service,
    action: registered.name,
    version: registered.version,
    transport: registered.transport,
    address: registered.address,
    inputs: undo.inputs ?? {},
    idempotencyKey: `${undo.forwardIdempotencyKey}:undo`,
    forwardIdempotencyKey: undo.forwardIdempotencyKey,
    forwardTrace: undo.forwardTrace,
    childRunId: undo.childRunId,
    timeoutMs: registered.defaultTimeoutMs ?? DEFAULT_TIMEOUT_MS,
    retry: completeRetry(registered.defaultRetry),
  };
}

/** Records the end of an undo. One that failed for good marks the run for a manual review; the rollback goes on. */
export function recordUndo(
  draft: Draft,
  { stepId, childRunId }: Pick<UndoEntry, "stepId" | "childRunId">,
  state: "done" | "failed",
  attempt: number,
  about: { code: StepErrorCode; message: string; retryable?: boolean } | { output: JsonObject; duration_ms: number },
): void {
  if (state === "failed" && "code" in about && undoStandsAtIncident(draft, { stepId, childRunId }))
    return beginUndoIncident(draft, { stepId, childRunId }, about, attempt);
  const metadata: JsonObject = { ...about, ...undoMetadata(childRunId) };
  const to = rollbackState(draft.context);
  if (state === "done") draft.row("step.succeeded", to, { stepId, attempt, metadata });
  else {
    draft.row("step.failed", to, { stepId, attempt, metadata: { retryable: false, ...metadata, will_retry: false } });
    draft.change({ requiresManualReview: true });
  }
  continueAfterUndo(draft, state);
}

export function continueAfterUndo(draft: Draft, state: "done" | "failed"): void {
  const { undoing: ordinal, owed, unwinding } = draft.context;
  if (ordinal !== undefined) draft.owe(undoSettled(draft, ordinal, state));
  draft.change({ owed: owed - 1, undoing: undefined });
  if (unwinding) unwindTry(draft, unwinding);
  else continueEnding(draft, "note");
}
