// The way of a run's token through a definition: a step type is asked for its outcome, which leads along an edge, into and out of blocks, or
// outward with an error. Most of these functions call each other in a circle, always as their last act, so they share one file.

import { doneLabel, raiseLabel } from "../chart/labels.js";
import { ExpressionError, withFuel } from "../expression/index.js";
import { scopeOf } from "../expression/scope.js";
import { Needed } from "../messages/fact.js";
import { livingChildren, type RunContext } from "../state/context.js";
import type { StepError } from "../state/entry.js";
import type { Frame } from "../state/frame.js";
import type { Ending } from "../state/rollback.js";
import { received } from "../steps/payload.js";
import type { Entered, Failure, StepOutcome, StepPlan } from "../steps/step.js";
import type { Json, JsonObject } from "../values/json.js";
import { MAX_NESTING } from "../values/limits.js";
import { dispatchCancelled, startCall } from "./dispatching.js";
import { currentPlan, type Draft } from "./draft.js";
import {
  abortStep,
  concludeSuccess,
  continueEnding,
  failRun,
  finishRun,
  startDeferredEnding,
  startEnding,
} from "./ending.js";
import {
  catchesError,
  countRound,
  dropWhileFrame,
  endsBlock,
  endsCatchChain,
  enterBlock,
  enterCatchChain,
  leaveCatchChains,
  moveTo,
  nextOf,
  popFrame,
  rollsBack,
  tryBeingLeft,
  whileFrame,
} from "./ledger/frames.js";
import {
  awaitChildren,
  createGroup,
  dropEndedGroups,
  entryNumber,
  groupOf,
  releaseGroup,
  startNextChildren,
  startOrStopChildren,
  stopChildren,
  tendDetachedGroups,
} from "./ledger/groups.js";
import { beginIncident, errorRule, standsAtIncident } from "./ledger/incidents.js";
import { type FailedAttempt, recordFailedStep, recordNotes, recordPause } from "./ledger/rows.js";
import { consumeSignal, mayHaveSignal } from "./ledger/signals.js";
import { backOffSubSaga, startSubSaga } from "./ledger/sub-sagas.js";
import { joinIfMayHaveHappened, joinUndoList, passUnprotected } from "./ledger/undo-list.js";
import { outputFault, storeCaughtError, storeError, storeVariables } from "./ledger/variables.js";

/** Asks the current step for its outcome and carries it out. `waited`: a wait of this step entry is over. */
export function takeStep(draft: Draft, waited = false): void {
  const plan = currentPlan(draft);
  interpret(draft, plan, askStep(draft, plan, waited));
}

/** The outcome at the step's entry, after each of its rounds, and whenever one of its children has ended. */
function askStep(draft: Draft, plan: StepPlan, waited: boolean): StepOutcome {
  try {
    const entered = enteredOf(draft, plan, waited);
    // All expressions of one entry share one budget of fuel.
    const outcome = withFuel((): StepOutcome => {
      if (plan.when && isFirstLook(draft, entered) && !plan.when.test(entered.scope))
        return { kind: "skipped", reason: "when" };
      return plan.type.enter(entered);
    });
    return startsRuns(outcome) && isTooDeep(draft) ? TOO_DEEP : outcome;
  } catch (error) {
    if (error instanceof ExpressionError)
      return { kind: "failed", error: { code: "expression_error", message: error.message } };
    throw error;
  }
}

function enteredOf(draft: Draft, plan: StepPlan, waited: boolean): Entered {
  const { context, facts, workflow } = draft;
  const { run, entry, entries, caught } = context;
  const found = groupOf(draft, plan);
  const number = entry?.number ?? entries;
  // Written out member by member: spreading objects here took 4 % of a node's time.
  return {
    workflow,
    plan,
    attributes: plan.attributes,
    facts,
    run,
    caught,
    waited,
    entry: number,
    retried: entry?.retried ?? 0,
    scope: scopeOf(context, entry?.at ?? draft.now),
    frame: whileFrame(context),
    group: found?.group,
    groupEntry: found?.entry ?? number,
    maybeSignalled: mayHaveSignal(context),
  };
}

/** Whether this entry of the step has done nothing yet. A join finds the group that its parallel made. */
function isFirstLook({ context }: Draft, { plan, waited, frame, group }: Entered): boolean {
  if (waited || context.wait || frame) return false;
  return group === undefined || plan.type.joins === true;
}

const TOO_DEEP: StepOutcome = {
  kind: "failed",
  error: { code: "limit_exceeded", message: `runs may be nested ${MAX_NESTING} deep` },
};

const startsRuns = ({ kind }: StepOutcome): boolean => kind === "start_children" || kind === "start_sub_saga";

function isTooDeep({ context }: Draft): boolean {
  return (context.run.depth ?? 0) >= MAX_NESTING;
}

function interpret(draft: Draft, plan: StepPlan, outcome: StepOutcome): void {
  switch (outcome.kind) {
    case "need":
      throw new Needed(outcome.need);
    case "done":
      recordNotes(draft, plan, outcome.notes);
      draft.owe(outcome.owed);
      if (outcome.signal) consumeSignal(draft, outcome.signal);
      return completeStep(draft, plan, outcome);
    case "skipped":
      return skipStep(draft, plan, outcome);
    case "failed":
      recordNotes(draft, plan, outcome.notes);
      draft.owe(outcome.owed);
      if (outcome.signal) consumeSignal(draft, outcome.signal);
      return failStep(draft, plan, outcome.error);
    case "cancel":
      return completeStep(draft, plan, { cancels: outcome });
    case "end":
      return completeStep(draft, plan, { output: outcome.output, end: true });
    default:
      return begin(draft, plan, outcome);
  }
}

type Ended = "need" | "done" | "skipped" | "failed" | "cancel" | "end";

/** Carries out an outcome with which the step goes on: a wait, a call, a block, or children. */
function begin(draft: Draft, plan: StepPlan, outcome: Exclude<StepOutcome, { kind: Ended }>): void {
  switch (outcome.kind) {
    case "wait":
      draft.owe(outcome.owed);
      draft.change({ wait: outcome.wait });
      recordPause(draft, plan, outcome);
      return draft.close("pause");
    case "call":
      return startCall(draft, plan, outcome);
    case "enter_block":
      if (outcome.removes !== undefined) draft.removeVariable(outcome.removes);
      return enterBlock(draft, plan, outcome);
    case "start_children":
      return startChildren(draft, plan, outcome);
    case "start_sub_saga":
      return startSubSaga(draft, plan, outcome);
    case "retry_sub_saga":
      return backOffSubSaga(draft, plan, outcome);
    case "await_children":
      return startOrStopChildren(draft, plan, outcome);
  }
}

/** What a step that succeeded leaves behind, and where the token goes from it. */
export interface Completion {
  readonly output?: Json;
  readonly assign?: JsonObject;
  readonly edge?: string;
  readonly target?: string;
  /** The attempt of its call that succeeded; 0 if it had no call. */
  readonly attempt?: number;
  /** The whole run ends here. */
  readonly end?: boolean;
  /** The run cancels itself here. */
  readonly cancels?: { readonly reason: string; readonly compensate: boolean };
  /** The output of the last step entered, when a try or catch chain is done. It is the block's output if this step ends it. */
  readonly last?: Json;
}

/** The step succeeded: stores, joins the undo list, records, goes on. Over a limit the step fails, but it can still be undone. */
export function completeStep(draft: Draft, plan: StepPlan, completion: Completion): void {
  const { output, assign, attempt = 0, end = false, cancels, edge, target } = completion;
  const stored = end || output === undefined || plan.saveAs === null ? assign : { ...assign, [plan.saveAs]: output };
  const fault = outputFault(draft, output) ?? storeVariables(draft, stored);
  if (fault) return failStep(draft, plan, fault, { attempt, done: output ?? null });
  joinUndoList(draft, plan, output ?? null);
  const duration = draft.now - (draft.context.entry?.at ?? draft.now);
  const metadata: JsonObject = output === undefined ? { duration_ms: duration } : { output, duration_ms: duration };
  draft.row("step.succeeded", "running", { stepId: plan.id, attempt, metadata });
  releaseStep(draft, plan);
  if (end) return finishRun(draft, output ?? null);
  if (cancels) return cancelSelf(draft, cancels);
  follow(draft, edge ?? "next", edge === undefined ? plan.next : target, completion.last ?? output ?? null);
}

function skipStep(draft: Draft, plan: StepPlan, { reason, output }: Extract<StepOutcome, { kind: "skipped" }>): void {
  if (output !== undefined && plan.saveAs !== null) storeVariables(draft, { [plan.saveAs]: output });
  draft.row("step.skipped", "running", { stepId: plan.id, metadata: { reason } });
  releaseStep(draft, plan);
  follow(draft, "skip", nextOf(draft, plan), null);
}

/** Drops the state that the step kept for its rounds or its children. */
function releaseStep(draft: Draft, plan: StepPlan): void {
  dropWhileFrame(draft);
  releaseGroup(draft, plan);
}

/** Moves the token along an edge to the next step, or ends the block with `output`, the output of the step. */
function follow(draft: Draft, edge: string, target: string | undefined, output: Json): void {
  if (target === undefined || endsCatchChain(draft, target)) return endBlock(draft, output);
  const ends = endsBlock(draft, target);
  leaveCatchChains(draft, ends ? undefined : target);
  if (ends) return endBlock(draft, output);
  draft.change({ step: target, entry: undefined, wait: undefined, call: undefined });
  draft.close(edge);
}

function cancelSelf(draft: Draft, { reason, compensate }: NonNullable<Completion["cancels"]>): void {
  draft.change({ entry: undefined, wait: undefined, call: undefined });
  abortRun(draft, { to: "cancelled", reason, ...(!compensate && { abandon: true }) });
}

/** The step has got what it waited for from outside. It fails if that does not fit its schema. */
export function completeWithPayload(
  draft: Draft,
  plan: StepPlan,
  payload: Json,
  wrapped = (inner: Json) => inner,
): void {
  const got = received(plan, payload, draft.facts);
  if ("error" in got) failStep(draft, plan, got.error);
  else completeStep(draft, plan, { output: wrapped(got.payload) });
}

/** The step failed for good: the run stands at an incident, or its error takes its course. */
export function failStep(draft: Draft, plan: StepPlan, failure: Failure, about: FailedAttempt = {}): void {
  const error = { ...failure, step_id: failure.step_id ?? plan.id };
  if (standsAtIncident(draft, plan, error)) beginIncident(draft, plan, error, about);
  else failForGood(draft, plan, error, about);
}

/** Follows the `on_error` of the step, or raises the error. Its undo sees the error that `on_error` stores. */
export function failForGood(draft: Draft, plan: StepPlan, failure: Failure, about: FailedAttempt = {}): void {
  const { onError, saveAs } = errorRule(draft, plan);
  const variable = onError === "fail" ? null : saveAs;
  const error = storeError(draft, plan, variable, { ...failure, step_id: failure.step_id ?? plan.id });
  if (about.done !== undefined) joinUndoList(draft, plan, about.done);
  else joinIfMayHaveHappened(draft, plan);
  recordFailedStep(draft, plan, error, about);
  releaseStep(draft, plan);
  if (onError === "fail") return raise(draft, error);
  if (onError === "continue") follow(draft, "continue", nextOf(draft, plan), { error: { ...error } });
  else follow(draft, "error", onError, null);
}

/** Ends the innermost block: a round, a try or catch chain, or the run. `output` is that of the last step entered. */
function endBlock(draft: Draft, output: Json): void {
  const frame = draft.context.frames.at(-1);
  if (!frame) return finishRun(draft, output);
  if (frame.kind === "while") return endRound(draft, frame, output);
  popFrame(draft);
  moveTo(draft, frame, doneLabel(frame.step));
  completeStep(draft, currentPlan(draft), { last: output });
}

function endRound(draft: Draft, frame: Extract<Frame, { kind: "while" }>, output: Json): void {
  const fault = countRound(draft, frame, output);
  moveTo(draft, frame, doneLabel(frame.step));
  if (fault) interpret(draft, currentPlan(draft), { kind: "failed", error: fault });
  else takeStep(draft);
}

/** An error that no `on_error` handled goes outward: a matching try catches it, every other container fails with it. */
function raise(draft: Draft, error: StepError): void {
  const frame = draft.context.frames.at(-1);
  if (!frame) return failRun(draft, error);
  if (frame.kind === "try" && catchesError(draft, frame, error)) {
    moveTo(draft, frame, raiseLabel(frame.step));
    return unwindTry(draft, { entry: frame.entry.number, error });
  }
  popFrame(draft);
  moveTo(draft, frame, raiseLabel(frame.step));
  failForGood(draft, currentPlan(draft), error);
}

/**
 * Leaves a try: its children end first, then its completed steps are undone if the try rolls back, then its catch gets the error.
 */
export function unwindTry(draft: Draft, unwinding: NonNullable<RunContext["unwinding"]>): void {
  draft.change({ unwinding });
  const frame = tryBeingLeft(draft);
  const { entry, error, timedOut } = unwinding;
  const undoes = rollsBack(draft, frame, error);
  // After a plain error the branches that a join left running go on.
  if ((timedOut || undoes) && livingChildren(draft.context, entry) > 0) {
    stopChildren(draft, entry, error.message, true);
    draft.change({ wait: { kind: "children" } });
    return draft.close("note");
  }
  draft.change({ wait: undefined, call: undefined, items: undefined });
  dropEndedGroups(draft, entry);
  if (undoes) passUnprotected(draft, entry);
  if (undoes && draft.context.owed > frame.owed) return draft.close("note");
  endUnwinding(draft, unwinding);
}

/** Nothing inside the try is open any more: its catch gets the error, or the error goes on outward. */
export function endUnwinding(draft: Draft, { error }: NonNullable<RunContext["unwinding"]>): void {
  const { ending } = draft.context;
  const frame = tryBeingLeft(draft);
  draft.change({ unwinding: undefined });
  if (ending) return startDeferredEnding(draft, ending);
  popFrame(draft);
  const plan = currentPlan(draft);
  if (!catchesError(draft, frame, error)) return failStep(draft, plan, error);
  const { variable: name = "" } = plan.type.catches?.(plan.attributes) ?? {};
  enterCatchChain(draft, frame, storeCaughtError(draft, name, error));
}

/** Starts branches or items: as many as may run at once are created in the step's own transition. */
function startChildren(draft: Draft, plan: StepPlan, outcome: Extract<StepOutcome, { kind: "start_children" }>): void {
  createGroup(draft, plan, outcome);
  const more = startNextChildren(draft, entryNumber(draft));
  if (outcome.group.kind === "branches") return completeStep(draft, plan, {});
  awaitChildren(draft, plan, { more });
}

/** Some children have ended: whatever waited for them goes on. */
export function proceedAfterChildren(draft: Draft): void {
  tendDetachedGroups(draft);
  const { context } = draft;
  const { unwinding, ending, finishing, wait, output = null } = context;
  if (wait?.kind !== "children") return draft.close("note");
  const leaving = unwinding || ending || finishing;
  if (leaving && livingChildren(context, unwinding?.entry) > 0) {
    draft.change({ wait: { kind: "children" } });
    return draft.close("note");
  }
  if (unwinding) return unwindTry(draft, unwinding);
  if (ending) return continueEnding(draft, "note");
  if (finishing) return concludeSuccess(draft, output);
  takeStep(draft);
}

/**
 * Aborts what the run is doing and rolls it back. A dispatch in flight is cancelled at the worker and awaited first, unless the
 * run is abandoned. A try that is being left is left first, unless all that it waits for is the dispatch of an abandoned run.
 */
export function abortRun(draft: Draft, ending: Ending): void {
  const { wait, unwinding } = draft.context;
  if (unwinding && !(ending.abandon && onlyAwaitsDispatch(draft, unwinding))) {
    draft.change({ ending });
    // Children of the try may have ended while the run was in quarantine.
    return proceedAfterChildren(draft);
  }
  if (wait?.kind === "dispatched") draft.owe(dispatchCancelled(wait.dispatchId, ending.reason));
  if (wait?.kind === "dispatched" && !ending.abandon) {
    draft.change({ ending });
    draft.row("compensation.started", "compensating");
    return draft.close("undo");
  }
  abortStep(draft, ending);
  draft.change({ unwinding: undefined });
  startEnding(draft, ending);
}

/** The try timed out while a worker had a step of it, and undoes nothing once that is answered. */
function onlyAwaitsDispatch(draft: Draft, { error }: NonNullable<RunContext["unwinding"]>): boolean {
  return draft.context.wait?.kind === "dispatched" && !rollsBack(draft, tryBeingLeft(draft), error);
}
