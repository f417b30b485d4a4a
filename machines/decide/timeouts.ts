// Timeouts of a wait, a sub-saga and a try.

import { raiseLabel } from "../chart/labels.js";
import type { StepError } from "../state/entry.js";
import type { StepPlan } from "../steps/step.js";
import { SAGA_TIMEOUT } from "../steps/sub_saga.js";
import { dispatchCancelled, resolveDispatch } from "./dispatching.js";
import { currentPlan, type Draft } from "./draft.js";
import { dropWhileFrame, moveTo, popFrame } from "./ledger/frames.js";
import { groupOf, setGroup, startOrStopChildren } from "./ledger/groups.js";
import { recordAbortedStep } from "./ledger/rows.js";
import { oweAbortedStep } from "./ledger/sub-sagas.js";
import { completeStep, failStep, unwindTry } from "./token.js";

export function waitTimedOut(draft: Draft): void {
  const plan = currentPlan(draft);
  const { on_timeout: onTimeout } = plan.attributes as { on_timeout?: string };
  if (onTimeout === "continue") completeStep(draft, plan, { output: null });
  else if (onTimeout === undefined || onTimeout === "fail")
    failStep(draft, plan, { code: "timeout", message: "the wait timed out" });
  else completeStep(draft, plan, { output: null, edge: "timeout", target: onTimeout });
}

/** Cancels the child of a sub-saga. The step fails once the child has ended, unless the child succeeded first. */
export function subSagaTimedOut(draft: Draft, plan: StepPlan): void {
  const found = groupOf(draft, plan);
  if (!found) throw new Error(`the sub-saga ${plan.id} waits for no child`);
  setGroup(draft, found.entry, { ...found.group, timedOut: true });
  startOrStopChildren(draft, plan, { kind: "await_children", stop: SAGA_TIMEOUT.message });
}

/** Cancels what is inside a try whose time is up. A dispatch in flight is awaited first. False if no try is due. */
export function tryTimedOut(draft: Draft): boolean {
  const { frames, wait, unwinding, ending } = draft.context;
  if (unwinding || ending) return false;
  const frame = frames.find((each) => each.kind === "try" && each.dueAt !== undefined && each.dueAt <= draft.now);
  if (!frame) return false;
  const error: StepError = {
    code: "timeout",
    message: "the try did not end in time",
    step_id: frame.step,
  };
  draft.change({ unwinding: { entry: frame.entry.number, error, timedOut: true } });
  if (wait?.kind === "dispatched") {
    draft.owe(dispatchCancelled(wait.dispatchId, error.message));
    draft.close("note");
  } else leaveInnerBlocks(draft, true);
  return true;
}

/** Leaves the blocks inside the try that is being left. `aborted`: the current step has not ended. */
export function leaveInnerBlocks(draft: Draft, aborted: boolean): void {
  const { unwinding, wait, step, entry } = draft.context;
  if (wait?.kind === "queued") resolveDispatch(draft, wait);
  if (aborted && entry) recordAbortedStep(draft, "cancelled", "the try around it timed out");
  const plan = draft.workflow.steps.get(step ?? "");
  if (aborted && plan) oweAbortedStep(draft, plan);
  // A while that stands between two rounds is left like any other step.
  dropWhileFrame(draft);
  for (let frame = draft.context.frames.at(-1); frame; frame = draft.context.frames.at(-1)) {
    const last = frame.kind === "try" && frame.entry.number === unwinding?.entry;
    if (!last) popFrame(draft);
    moveTo(draft, frame, raiseLabel(frame.step));
    if (last) break;
    recordAbortedStep(draft, "cancelled", "the try around it timed out");
  }
  if (unwinding) unwindTry(draft, unwinding);
}
