// The command `advance`: the run starts, steps on, or acts on what is due.

import { blockBegin, forkBegin } from "../chart/labels.js";
import { entryKept } from "../messages/owed.js";
import { type DecisionOn, unchanged } from "../messages/transition.js";
import { isHalted, waitEndsAt } from "../state/context.js";
import type { StepError } from "../state/entry.js";
import type { RunIdentity } from "../state/identity.js";
import { isTerminal } from "../state/lifecycle.js";
import { RUN_SLOT } from "../state/slot.js";
import { attemptDue, type Wait } from "../state/wait.js";
import { entryStep } from "../steps/plan.js";
import { attemptTimedOut, queueTimedOut, retryAfterBackoff } from "./answers.js";
import { currentPlan, type Draft } from "./draft.js";
import { failRun } from "./ending.js";
import { scanEvents } from "./events.js";
import { whileFrame } from "./ledger/frames.js";
import { recordFailedStep } from "./ledger/rows.js";
import { mayBegin } from "./ledger/slots.js";
import { keepPromise, matchRecorded, offerToWaiters } from "./signals.js";
import { standBeforeSlot, takeStepSlot } from "./slots.js";
import { subSagaTimedOut, tryTimedOut, waitTimedOut } from "./timeouts.js";
import { abortRun, completeStep, proceedAfterChildren, takeStep } from "./token.js";
import { takeRunTurn, takeStepTurn } from "./turns.js";
import { undoNext } from "./undo.js";

export function advance(draft: Draft): DecisionOn<"advance"> {
  return moves(draft) ? draft.decided({ type: "advanced" }) : unchanged({ type: "advanced" });
}

/** False: there is nothing to do yet. */
function moves(draft: Draft): boolean {
  const { state, run, looking, ending, unwinding, wait } = draft.context;
  if (isTerminal(state) || isHalted(draft.context)) return false;
  if (looking) offerToWaiters(draft, looking);
  else if (wait?.kind === "signal" && isOver(draft) && keepPromise(draft)) return true;
  else if (!ending && run.expiresAt !== undefined && run.expiresAt <= draft.now) timeOutRun(draft);
  else if (state === "pending") return beginRun(draft);
  else if (tryTimedOut(draft)) return true;
  else if (wait) return actOnWait(draft, wait);
  else if (ending || unwinding) undoNext(draft);
  else enterStep(draft);
  return true;
}

/** Whether the wait ends now without what it waits for. */
function isOver({ context, now }: Draft): boolean {
  const endsAt = waitEndsAt(context);
  return endsAt !== undefined && endsAt <= now;
}

function beginRun(draft: Draft): boolean {
  const { delayedUntil, entrypoint, startStep } = draft.context.run;
  if (delayedUntil !== undefined && delayedUntil > draft.now) return false;
  const step = startStep ?? entryStep(draft.workflow, entrypoint);
  if (step === undefined) throw new Error(`the definition has no entrypoint ${entrypoint}`);
  if (!mayBegin(draft)) return standBeforeSlot(draft);
  const { began, moved } = takeRunTurn(draft);
  if (!began) return moved;
  if (moved) draft.change({ turn: undefined });
  draft.change(draft.context.wait ? { step, wait: undefined } : { step });
  draft.close(beginLabel(draft.context.run));
  enterStep(draft);
  return true;
}

function beginLabel({ startStep, entrypoint, forkedFrom }: RunIdentity): string {
  if (startStep === undefined) return `begin.${entrypoint === "" ? "default" : entrypoint}`;
  return forkedFrom ? forkBegin(startStep) : blockBegin(startStep);
}

function timeOutRun(draft: Draft): void {
  const error: StepError = { code: "timeout", message: "the run did not end in time" };
  abortRun(draft, { to: "failed", error, reason: error.message });
}

/** Acts on the wait if it is ready or due. Nothing fires early (law 8). */
function actOnWait(draft: Draft, wait: Wait): boolean {
  if (wait.kind === "signal" && wait.look) return matchRecorded(draft, wait);
  if (wait.kind === "event" && wait.look) return scanEvents(draft, wait);
  if (wait.kind === "children" && wait.more) {
    proceedAfterChildren(draft);
    return true;
  }
  if (wait.kind === "concurrency") return wait.entry === RUN_SLOT ? beginRun(draft) : takeStepSlot(draft);
  if (wait.kind === "rate_limit") return wait.entry === RUN_SLOT ? beginRun(draft) : takeStepTurn(draft, wait);
  return fireIfDue(draft, wait);
}

function fireIfDue(draft: Draft, wait: Exclude<Wait, { kind: "concurrency" | "rate_limit" }>): boolean {
  const { now } = draft;
  if (wait.kind === "dispatched") {
    if (attemptDue(wait) > now) return false;
    attemptTimedOut(draft, wait);
    return true;
  }
  if (wait.kind === "incident" || wait.dueAt === undefined || wait.dueAt > now) return false;
  if (wait.kind === "queued") queueTimedOut(draft, wait);
  else if (wait.kind === "backoff") retryAfterBackoff(draft, wait);
  else if (wait.kind === "timer") timerFired(draft);
  else if (wait.kind === "children") subSagaTimedOut(draft, currentPlan(draft));
  else waitTimedOut(draft);
  return true;
}

/** A timer step is done; the delay of a while ends, and its next round starts. */
function timerFired(draft: Draft): void {
  if (whileFrame(draft.context)) takeStep(draft, true);
  else completeStep(draft, currentPlan(draft), {});
}

/** A root is forked, and from a step that is in no block. */
function keepEntry(draft: Draft, number: number, step: string): void {
  const { run, frames, variables } = draft.context;
  if (frames.length === 0 && run.parentRunId === undefined) draft.owe(entryKept(draft, number, step, variables));
}

function enterStep(draft: Draft): void {
  const plan = currentPlan(draft);
  const number = draft.context.entries + 1;
  draft.change({ entries: number, entry: { number, at: draft.now } });
  draft.row("step.started", "running", { stepId: plan.id });
  if (draft.workflow.history) keepEntry(draft, number, plan.id);
  const { entries: limit } = draft.facts.limits;
  if (number <= limit) return takeStep(draft);
  const error: StepError = { code: "limit_exceeded", message: `the run has entered ${limit} steps`, step_id: plan.id };
  recordFailedStep(draft, plan, error, {});
  failRun(draft, error);
}
