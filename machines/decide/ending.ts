// The end of a run: in success, or after its rollback.

import { isPausing, livingChildren } from "../state/context.js";
import type { StepError } from "../state/entry.js";
import type { Ending } from "../state/rollback.js";
import type { Json } from "../values/json.js";
import { resolveDispatch } from "./dispatching.js";
import type { Draft } from "./draft.js";
import { closeFrames, completeContainer, dropWhileFrame, unprotectedOutside } from "./ledger/frames.js";
import { notifyParent, stopChildren } from "./ledger/groups.js";
import { endingCode, recordAbortedStep } from "./ledger/rows.js";
import { oweAbortedStep } from "./ledger/sub-sagas.js";
import { passUnprotected } from "./ledger/undo-list.js";

/** The context of a run without a step entry in progress. */
const NO_ENTRY = { entry: undefined, wait: undefined, call: undefined };

/** No ended run is held, or has a slot or a turn. */
const FREE = { held: undefined, slot: undefined, turn: undefined };

/** The run is done. The containers that an `end` leaves succeed with it. */
export function finishRun(draft: Draft, output: Json): void {
  const { frames, unprotected } = draft.context;
  for (const frame of [...frames].reverse()) completeContainer(draft, frame);
  draft.change({ frames: [], unprotected: unprotectedOutside(frames, unprotected) });
  concludeSuccess(draft, output);
}

/** The run succeeds, once the branches that were left running are stopped and have ended. */
export function concludeSuccess(draft: Draft, output: Json): void {
  const { context } = draft;
  if (livingChildren(context) > 0) {
    const edge = isPausing(context) ? "resume" : "note";
    stopChildren(draft, 0, "the run is about to end", true);
    draft.change({ ...NO_ENTRY, finishing: true, output: output ?? undefined, wait: { kind: "children" } });
    return draft.close(edge);
  }
  draft.change({
    ...NO_ENTRY,
    step: undefined,
    finishing: undefined,
    looking: undefined,
    groups: {},
    ...FREE,
    output: output ?? undefined,
  });
  notifyParent(draft, "succeeded");
  draft.row("run.succeeded", "succeeded");
  draft.close("run.succeeded");
}

export function failRun(draft: Draft, error: StepError): void {
  startEnding(draft, { to: "failed", error, reason: error.message });
}

/** An ending that had to wait until a try was left. */
export function startDeferredEnding(draft: Draft, ending: Ending): void {
  draft.change({ ending: undefined });
  startEnding(draft, ending);
}

/**
 * The current step ends with the run. It may have happened, so it may be owed an undo. An abandoned run does not undo it, and
 * does not await its dispatch either: its undo list says what is left to people.
 */
export function abortStep(draft: Draft, ending: Ending): void {
  const { wait, entry, step } = draft.context;
  if (wait?.kind === "dispatched" && entry) draft.change({ entry: { ...entry, mayHaveHappened: true } });
  if (wait && "dispatchId" in wait) resolveDispatch(draft, wait);
  if (entry) recordAbortedStep(draft, endingCode(ending), ending.reason);
  const plan = draft.workflow.steps.get(step ?? "");
  if (plan && !ending.dataLost) oweAbortedStep(draft, plan);
  // A while between two rounds: its row has been written.
  dropWhileFrame(draft);
}

/** The run starts its way to an end other than success. */
export function startEnding(draft: Draft, ending: Ending): void {
  draft.change({ ending, finishing: undefined, looking: undefined, output: undefined });
  closeFrames(draft, endingCode(ending), ending.reason);
  const hasChildren = livingChildren(draft.context) > 0;
  if (hasChildren) stopChildren(draft, 0, ending.reason, !ending.abandon);
  if (ending.abandon && hasChildren)
    draft.row("log", "compensating", { metadata: { kind: "children", message: "children end first" } });
  else if (!ending.abandon && (hasChildren || draft.context.owed > 0))
    draft.row("compensation.started", "compensating");
  continueEnding(draft, "undo");
}

/** Nothing of the run itself is open any more: its children end, then its undo list is worked off, then it ends. */
export function continueEnding(draft: Draft, edge: string): void {
  const { ending } = draft.context;
  if (!ending) throw new Error(`run ${draft.context.run.id} rolls back without an ending`);
  draft.change(NO_ENTRY);
  closeFrames(draft, endingCode(ending), ending.reason);
  if (livingChildren(draft.context) > 0) {
    stopChildren(draft, 0, ending.reason, !ending.abandon);
    draft.change({ wait: { kind: "children" } });
    return draft.close(edge);
  }
  if (ending.abandon) return concludeEnding(draft);
  passUnprotected(draft);
  if (draft.context.owed === 0) return concludeEnding(draft);
  draft.close(edge);
}

export function concludeEnding(draft: Draft): void {
  const { ending } = draft.context;
  if (!ending) throw new Error(`run ${draft.context.run.id} fails without an ending`);
  // An undo that is cut off may have happened: a fork must know which one it was.
  const undoing = ending.terminated ? draft.context.undoing : undefined;
  draft.change({ ...NO_ENTRY, step: undefined, undoing, items: undefined, groups: {}, ...FREE });
  const cancelled: StepError = { code: "cancelled", message: ending.reason };
  notifyParent(draft, ending.to, ending.to === "failed" ? ending.error : cancelled);
  const type = `run.${ending.to}` as const;
  draft.row(type, ending.to, { metadata: ending.error ? { ...ending.error } : { reason: ending.reason } });
  draft.close(type);
}
