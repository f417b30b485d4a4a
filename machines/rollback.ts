// The way down: how a run that fails or is cancelled owes its undos, does them newest first, and ends. A rollback cannot be
// cancelled, and keeps its first cause.
import { closeFrames, dropOwnFrame, leaveInside, rolledBack, unwind } from "./blocks.js";
import { queueCall } from "./call.js";
import { goOnAfterChildren, groupOf, stopChildren, tellParent } from "./children.js";
import { type ActionCall, type Ending, living, type RunContext, type StepError, type UndoEntry } from "./context.js";
import { ExpressionError } from "./expression/index.js";
import type { ActionFact } from "./facts.js";
import type { Json, JsonObject } from "./json.js";
import { completeRetry } from "./retry.js";
import { scopeOf } from "./scope.js";
import { DEFAULT_TIMEOUT_MS, parseActionName } from "./steps/action.js";
import type { StepPlan } from "./steps/step.js";
import { guardSaga } from "./sub-saga.js";
import { type Draft, Needed } from "./transition.js";

/** Step types whose effect stands outside, so that passing them over deserves a warning. */
const LEAVES_EFFECTS: ReadonlySet<string> = new Set(["action", "http_request", "sub_saga"]);

/** The key workers make an effect once by: the same for every attempt of one step entry. Must never change. */
export function forwardKey(runId: string, stepId: string, entry: number): string {
  return `${runId}:${stepId}:${entry}`;
}

/** The entry succeeded, or may have: it joins the undo list. Its inputs are evaluated now, in its scope. */
export function joinUndo(draft: Draft, plan: StepPlan, output: Json, entry = draft.context.entry): void {
  const { run } = draft.context;
  if (!entry || (!plan.compensation && !LEAVES_EFFECTS.has(plan.type.name))) return;
  // A sub-saga that handed over a list of its own is undone by that.
  if (!plan.compensation && groupOf(draft, plan)?.group.handed) return;
  const about = {
    stepId: plan.id,
    entry: entry.number,
    forwardIdempotencyKey: forwardKey(run.id, plan.id, entry.number),
  };
  if (plan.compensation) {
    oweUndo(draft, { ...about, ...undoCall(draft, plan, plan.compensation, output, entry.at) });
  } else {
    const { unprotected, call } = draft.context;
    const registered = call && draft.facts.action(call.service, call.action, call.version);
    draft.change({ unprotected: { ...unprotected, [plan.id]: registered?.compensable ?? false } });
    draft.owe({ kind: "undo.owed", entry: about });
  }
}

export function oweUndo(draft: Draft, entry: UndoEntry): void {
  draft.change({ owed: draft.context.owed + 1 });
  draft.owe({ kind: "undo.owed", entry });
}

/** An attempt of the entry may have happened, and nothing more will be heard of it. */
export function joinIfHappened(draft: Draft, plan: StepPlan): void {
  if (draft.context.entry?.mayHaveHappened) joinUndo(draft, plan, null);
}

/** What undoes a sub-saga that is told to end, should it have succeeded first: then it has dropped a list of its own. */
export function undoOfSaga(draft: Draft, plan: StepPlan): UndoEntry | undefined {
  const { run, entry } = draft.context;
  if (!entry || !plan.compensation) return undefined;
  const forwardIdempotencyKey = forwardKey(run.id, plan.id, entry.number);
  const call = undoCall(draft, plan, plan.compensation, null, entry.at);
  return { stepId: plan.id, entry: entry.number, forwardIdempotencyKey, ...call };
}

function undoCall(
  draft: Draft,
  { id }: StepPlan,
  { action, inputs }: NonNullable<StepPlan["compensation"]>,
  output: Json,
  now: number,
): Required<Pick<UndoEntry, "action" | "inputs">> {
  const { call } = draft.context;
  const scope = scopeOf(draft.context, now, output);
  const fallback: JsonObject = { inputs: call?.stepId === id ? inputsOf(call) : {}, output };
  return {
    action: attempt(() => pinned(draft, String(action.render(scope)))) ?? "",
    inputs: (inputs && attempt(() => inputs.render(scope) as JsonObject)) ?? fallback,
  };
}

/** What an undo is told of the call. Of a request without its headers: they may hold credentials, and are not another worker's. */
function inputsOf(call: ActionCall | undefined): JsonObject {
  if (!call?.request) return call?.inputs ?? {};
  const { method, url, body } = call.request;
  return body === undefined ? { method, url } : { method, url, body };
}

function attempt<T>(evaluate: () => T): T | undefined {
  try {
    return evaluate();
  } catch (error) {
    if (error instanceof ExpressionError) return undefined;
    throw error;
  }
}

/** The version is pinned when the step completes; an action that is not registered yet may be by the time it is needed. */
function pinned(draft: Draft, name: string): string {
  const found = lookUp(draft, name);
  return found ? `${found.service}.${found.name}@${found.version}` : name;
}

function lookUp(draft: Draft, name: string): ActionFact | undefined {
  const parsed = parseActionName(name);
  return parsed && draft.facts.action(parsed.service, parsed.name, parsed.version);
}

export function failRun(draft: Draft, error: StepError): void {
  leave(draft, { to: "failed", error, reason: error.message });
}

/**
 * Cuts off what the run is at, and takes it down. A dispatch in flight is cancelled at the worker and awaited first, unless
 * nothing is to be undone. A try that is being rolled back comes to its end first.
 */
export function cutOff(draft: Draft, ending: Ending): void {
  const { wait, entry, unwinding } = draft.context;
  if (unwinding) {
    draft.change({ ending });
    // Its children may have ended while it was in quarantine.
    return goOnAfterChildren(draft);
  }
  if (wait?.kind === "dispatched" && !ending.abandon) {
    draft.change({ ending });
    draft.owe({ kind: "dispatch.cancel", dispatchId: wait.dispatchId, reason: ending.reason });
    draft.row("compensation.started", "compensating");
    return draft.take("undo");
  }
  if (wait?.kind === "dispatched")
    draft.owe({ kind: "dispatch.cancel", dispatchId: wait.dispatchId, reason: ending.reason });
  if (wait && "dispatchId" in wait) draft.owe({ kind: "dispatch.resolved", dispatchId: wait.dispatchId });
  if (entry) cutRow(draft, codeOf(ending), ending.reason);
  const plan = draft.program.steps.get(draft.context.step ?? "");
  if (plan && !ending.abandon) cutLoose(draft, plan);
  // A while between two rounds: its row is written.
  dropOwnFrame(draft);
  leave(draft, ending);
}

/** A step that is cut off may have happened, or may turn out to have: a sub-saga that hears of it too late. */
export function cutLoose(draft: Draft, plan: StepPlan): void {
  joinIfHappened(draft, plan);
  guardSaga(draft, plan);
}

/** A cancel came while a try was rolled back, which is done now. */
export function leaveKept(draft: Draft, ending: Ending): void {
  draft.change({ ending: undefined });
  leave(draft, ending);
}

/** The row of a step that was cut off. */
export function cutRow(draft: Draft, code: string, message: string): void {
  const { wait, step, state, unwinding } = draft.context;
  const attempt = wait?.kind === "dispatched" ? wait.attempt : 0;
  const metadata = { code, message, retryable: false, will_retry: false };
  draft.row("step.failed", unwinding ? "running" : state, { stepId: step, attempt, metadata });
}

/** What the row of a step says that the run's ending cut off. */
export function codeOf({ to, error }: Ending): string {
  return to === "cancelled" ? "cancelled" : (error?.code ?? "error");
}

function leave(draft: Draft, ending: Ending): void {
  draft.change({ ending, finishing: undefined, looking: undefined, output: undefined });
  closeFrames(draft, codeOf(ending), ending.reason);
  if (living(draft.context) > 0) {
    stopChildren(draft, 0, ending.reason, !ending.abandon);
    if (ending.abandon)
      draft.row("log", "compensating", { metadata: { kind: "children", message: "children end first" } });
    else draft.row("compensation.started", "compensating");
  } else if (draft.context.owed > 0 && !ending.abandon) draft.row("compensation.started", "compensating");
  descend(draft, "undo");
}

/** Nothing of the run itself is open any more: its children end, then what is owed is undone, then it ends. */
export function descend(draft: Draft, edge: string): void {
  const { ending } = draft.context;
  if (!ending) throw new Error("a run goes down without a cause");
  draft.change({ wait: undefined, entry: undefined, call: undefined });
  closeFrames(draft, codeOf(ending), ending.reason);
  if (living(draft.context) > 0) {
    stopChildren(draft, 0, ending.reason, !ending.abandon);
    draft.change({ wait: { kind: "children" } });
    return draft.take(edge);
  }
  if (ending.abandon) return conclude(draft);
  warnUnprotected(draft);
  if (draft.context.owed === 0) return conclude(draft);
  draft.take(edge);
}

/** A dispatch that the run's way down, or a try's, had to await is resolved. */
export function goOnDown(draft: Draft): void {
  const { ending, unwinding } = draft.context;
  if (unwinding) leaveInside(draft, false);
  else if (ending) descend(draft, "note");
}

/** The run's state while it undoes: a try is rolled back by a run that goes on. */
export function downState({ ending, unwinding }: Draft["context"]): "compensating" | "running" {
  return ending && !unwinding ? "compensating" : "running";
}

/** `since`: only what was completed inside the try that is rolled back. */
export function warnUnprotected(draft: Draft, since?: number): void {
  const steps = Object.entries(draft.context.unprotected);
  if (steps.length === 0) return;
  for (const [stepId, review] of steps) {
    const message = "the step completed and has no compensation: it is passed over";
    draft.row("log", draft.context.state, { stepId, metadata: { kind: "undo_passed", level: "warn", message } });
    if (review) draft.change({ requiresManualReview: true });
  }
  draft.change({ unprotected: {} });
  draft.owe({ kind: "undo.passed", ...(since !== undefined && { since }) });
}

/** Two sets of unprotected steps: a person is asked to review a step if either says so. */
export function merged(left: RunContext["unprotected"], right: RunContext["unprotected"]): RunContext["unprotected"] {
  const all = { ...left };
  for (const [step, review] of Object.entries(right)) all[step] = review || all[step] === true;
  return all;
}

function conclude(draft: Draft): void {
  const { ending } = draft.context;
  if (!ending) throw new Error("a run ended without a cause");
  const gone = {
    step: undefined,
    entry: undefined,
    wait: undefined,
    call: undefined,
    undoing: undefined,
    items: undefined,
  };
  draft.change({ ...gone, groups: {} });
  const cancelled = { code: "cancelled", message: ending.reason };
  tellParent(draft, ending.to, ending.to === "failed" ? ending.error : cancelled);
  const type = `run.${ending.to}` as const;
  draft.row(type, ending.to, { metadata: ending.error ? { ...ending.error } : { reason: ending.reason } });
  draft.take(type);
}

/** The next undo, newest completion first: of the whole run, or of what the try that is left has completed. */
export function undoNext(draft: Draft): void {
  const { unwinding, frames } = draft.context;
  const frame = unwinding && frames.at(-1);
  const since = frame?.kind === "try" ? { since: frame.entry.number } : {};
  const { undo } = draft.facts;
  if (undo === undefined) throw new Needed({ kind: "undo", ...since });
  if (undo === null) return nothingLeft(draft);
  const registered = lookUp(draft, undo.action ?? "");
  draft.change({ undoing: undo.ordinal, ...(!unwinding && { step: undo.stepId }) });
  const state = downState(draft.context);
  const phase = undoPhase(undo.childRunId);
  draft.row("step.started", state, { stepId: undo.stepId, metadata: phase });
  if (!registered) {
    const error = { code: "action_not_registered", message: `no action ${undo.action} is registered` };
    return settleUndo(draft, undo, "failed", 0, error);
  }
  if (draft.context.run.dryRun && !registered.dryRunSupported) {
    draft.row("step.skipped", state, { stepId: undo.stepId, metadata: { ...phase, reason: "dry_run" } });
    return settled(draft, "done");
  }
  queueCall(draft, compensationOf(undo, registered), 1, "wait");
}

/** The list holds less than the count says, which counts what was handed over from before the try: nothing more is to undo. */
function nothingLeft(draft: Draft): void {
  const { unwinding } = draft.context;
  if (unwinding) rolledBack(draft, unwinding);
  else conclude(draft);
}

export function undoPhase(childRunId: string | undefined): JsonObject {
  return { phase: "compensation", ...(childRunId !== undefined && { child_run_id: childRunId }) };
}

function compensationOf(undo: UndoEntry, registered: ActionFact): ActionCall {
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
    childRunId: undo.childRunId,
    timeoutMs: registered.defaultTimeoutMs ?? DEFAULT_TIMEOUT_MS,
    retry: completeRetry(registered.defaultRetry),
  };
}

/** One undo is over. One that failed for good asks for a person, and the rollback goes on. */
export function settleUndo(
  draft: Draft,
  { stepId, childRunId }: Pick<UndoEntry, "stepId" | "childRunId">,
  state: "done" | "failed",
  attempt: number,
  about: { code: string; message: string; retryable?: boolean } | { output: JsonObject; duration_ms: number },
): void {
  const metadata: JsonObject = { ...about, ...undoPhase(childRunId) };
  const down = downState(draft.context);
  if (state === "done") draft.row("step.succeeded", down, { stepId, attempt, metadata });
  else {
    draft.row("step.failed", down, { stepId, attempt, metadata: { retryable: false, ...metadata, will_retry: false } });
    draft.change({ requiresManualReview: true });
  }
  settled(draft, state);
}

function settled(draft: Draft, state: "done" | "failed"): void {
  const { undoing: ordinal, owed, unwinding } = draft.context;
  if (ordinal !== undefined) draft.owe({ kind: "undo.settled", ordinal, state });
  draft.change({ owed: owed - 1, undoing: undefined });
  if (unwinding) unwind(draft, unwinding);
  else descend(draft, "note");
}
