// The command `terminate`: the end without waiting for anything, also of a rollback. Children end first. What is still owed is left to people.

import type { Command } from "../messages/command.js";
import { type DecisionOn, unchanged } from "../messages/transition.js";
import { isHalted } from "../state/context.js";
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
  draft.change({ quarantined: false, proof: undefined, held: undefined, requiresManualReview: true });
  recordAct(draft, command);
  cutOffCall(draft);
  stopEveryChild(draft, command);
  const end: Ending = { ...(ending ?? { to: "cancelled", reason: command.reason }), abandon: true, terminated: true };
  if (ending && !context.unwinding) {
    draft.change({ ending: end });
    if (context.entry) abortStep(draft, end);
    continueEnding(draft, "note");
  } else {
    if (!isLeavingTry(draft)) abortStep(draft, end);
    draft.change({ unwinding: undefined });
    startEnding(draft, end);
  }
  if (held) resumeChildren(draft, command.actor);
  return acted(draft);
}

/** The token has left what is inside the try: only its frame is still to be closed. */
function isLeavingTry({ context: { unwinding, entry } }: Draft): boolean {
  return unwinding !== undefined && unwinding.entry === entry?.number;
}

/** The answer to a call in flight is not awaited. Its worker is asked to stop; an undo in flight is still owed. */
function cutOffCall(draft: Draft): void {
  const { wait, call } = draft.context;
  if (wait?.kind === "dispatched") draft.owe(dispatchCancelled(wait.dispatchId, "the run is terminated"));
  if (call?.phase !== "compensation" || !wait) return;
  if ("dispatchId" in wait) resolveDispatch(draft, wait);
  const cut = { code: "cancelled", message: "the run is terminated", retryable: false, will_retry: false };
  const attempt = wait.kind === "dispatched" ? wait.attempt : 0;
  const metadata = { ...cut, ...undoMetadata(call.childRunId) };
  draft.row("step.failed", rollbackState(draft.context), { stepId: call.stepId, attempt, metadata });
  draft.change({ wait: undefined, call: undefined });
}
