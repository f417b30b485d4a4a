// The ends without waiting for anything, also of a rollback: the command `terminate`, and `data_lost`, which reads no value of the run. Children end first.
// What is still owed is left to people.

import type { Command } from "../messages/command.js";
import { type DecisionOn, unchanged } from "../messages/transition.js";
import { isHalted, type Patch } from "../state/context.js";
import type { StepError } from "../state/entry.js";
import { isTerminal } from "../state/lifecycle.js";
import type { Ending } from "../state/rollback.js";
import { dispatchCancelled, resolveDispatch } from "./dispatching.js";
import type { Draft } from "./draft.js";
import { abortStep, continueEnding, startEnding } from "./ending.js";
import { acted, ended, recordAct, resumeChildren } from "./hold.js";
import { stopEveryChild } from "./ledger/groups.js";
import { rollbackState, undoMetadata } from "./ledger/undo-list.js";
import { keepPromise } from "./signals.js";

export function terminate(draft: Draft, command: Command<"terminate">): DecisionOn<"terminate"> {
  const { context } = draft;
  const { state, ending, held } = context;
  if (isTerminal(state)) return ended(draft);
  if (ending?.terminated && !isHalted(context)) return unchanged({ type: "acted", state, changed: false });
  // A sender was told that a step takes its signal.
  keepPromise(draft);
  if (isTerminal(context.state)) return ended(draft);
  draft.change(FREED);
  recordAct(draft, command);
  cutOffCall(draft, "the run is terminated");
  stopEveryChild(draft, command);
  endAtOnce(draft, { ...(ending ?? { to: "cancelled", reason: command.reason }), abandon: true, terminated: true });
  if (held) resumeChildren(draft, command.actor);
  return acted(draft);
}

const DESTROYED = "the key that the values of the run were sealed with was destroyed";

/**
 * Nothing is evaluated: the values in the context are not those of the run any more. So no undo is made of a step in progress, and the run is for
 * people to look at.
 */
export function endWithoutData(draft: Draft): DecisionOn<"data_lost"> {
  const { state, ending, held } = draft.context;
  if (isTerminal(state) || ending?.dataLost) return unchanged({ type: "advanced" });
  draft.change(FREED);
  cutOffCall(draft, DESTROYED);
  stopEveryChild(draft, { type: "terminate", reason: DESTROYED, actor: draft.actor });
  const error: StepError = { code: "key_destroyed", message: DESTROYED };
  endAtOnce(draft, { to: "failed", error, reason: DESTROYED, abandon: true, terminated: true, dataLost: true });
  if (held) resumeChildren(draft, draft.actor);
  return draft.decided({ type: "advanced" });
}

/** No run that ends at once is halted, and people look at what it leaves. */
const FREED: Patch = { quarantined: false, proof: undefined, held: undefined, requiresManualReview: true };

function endAtOnce(draft: Draft, end: Ending): void {
  const { context } = draft;
  if (context.ending && !context.unwinding) {
    draft.change({ ending: end });
    if (context.entry) abortStep(draft, end);
    return continueEnding(draft, "note");
  }
  if (!isLeavingTry(draft)) abortStep(draft, end);
  draft.change({ unwinding: undefined });
  startEnding(draft, end);
}

/** The token has left what is inside the try: only its frame is still to be closed. */
function isLeavingTry({ context: { unwinding, entry } }: Draft): boolean {
  return unwinding !== undefined && unwinding.entry === entry?.number;
}

/** The answer to a call in flight is not awaited. Its worker is asked to stop; an undo in flight is still owed. */
function cutOffCall(draft: Draft, message: string): void {
  const { wait, call } = draft.context;
  if (wait?.kind === "dispatched") draft.owe(dispatchCancelled(wait.dispatchId, message));
  if (call?.phase !== "compensation" || !wait) return;
  if ("dispatchId" in wait) resolveDispatch(draft, wait);
  const cut = { code: "cancelled", message, retryable: false, will_retry: false };
  const attempt = wait.kind === "dispatched" ? wait.attempt : 0;
  const metadata = { ...cut, ...undoMetadata(call.childRunId) };
  draft.row("step.failed", rollbackState(draft.context), { stepId: call.stepId, attempt, metadata });
  draft.change({ wait: undefined, call: undefined });
}
