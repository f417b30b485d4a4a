// The way down: how a run that fails or is cancelled owes its undos, does them newest first, and ends. A rollback cannot be
// cancelled, and keeps its first cause.
import { queueCall } from "./call.js";
import type { ActionCall, Ending, StepError, UndoEntry } from "./context.js";
import { ExpressionError } from "./expression/index.js";
import type { ActionFact } from "./facts.js";
import type { Json, JsonObject } from "./json.js";
import { completeRetry } from "./retry.js";
import { scopeOf } from "./scope.js";
import { DEFAULT_TIMEOUT_MS, parseActionName } from "./steps/action.js";
import type { StepPlan } from "./steps/step.js";
import { type Draft, Needed } from "./transition.js";

/** Step types whose effect stands outside, so that passing them over deserves a warning. */
const LEAVES_EFFECTS: ReadonlySet<string> = new Set(["action", "http_request", "sub_saga"]);

/** The key workers make an effect once by: the same for every attempt of one step entry. Must never change. */
export function forwardKey(runId: string, stepId: string, entry: number): string {
  return `${runId}:${stepId}:${entry}`;
}

/** The entry succeeded, or may have: it joins the undo list. Its inputs are evaluated now, in its scope. */
export function joinUndo(draft: Draft, plan: StepPlan, output: Json): void {
  const { run, entry } = draft.context;
  if (!entry || (!plan.compensation && !LEAVES_EFFECTS.has(plan.type.name))) return;
  const about = {
    stepId: plan.id,
    entry: entry.number,
    forwardIdempotencyKey: forwardKey(run.id, plan.id, entry.number),
  };
  if (plan.compensation) {
    draft.change({ owed: draft.context.owed + 1 });
    draft.owe({ kind: "undo.owed", entry: { ...about, ...undoCall(draft, plan.compensation, output) } });
  } else {
    const { unprotected, call } = draft.context;
    const registered = call && draft.facts.action(call.service, call.action, call.version);
    draft.change({ unprotected: { ...unprotected, [plan.id]: registered?.compensable ?? false } });
    draft.owe({ kind: "undo.owed", entry: about });
  }
}

/** An attempt of the entry may have happened, and nothing more will be heard of it. */
export function joinIfHappened(draft: Draft, plan: StepPlan): void {
  if (draft.context.entry?.mayHaveHappened) joinUndo(draft, plan, null);
}

function undoCall(
  draft: Draft,
  { action, inputs }: NonNullable<StepPlan["compensation"]>,
  output: Json,
): Required<Pick<UndoEntry, "action" | "inputs">> {
  const scope = scopeOf(draft.context, draft.context.entry?.at ?? draft.now, output);
  const fallback: JsonObject = { inputs: draft.context.call?.inputs ?? {}, output };
  return {
    action: attempt(() => pinned(draft, String(action.render(scope)))) ?? "",
    inputs: (inputs && attempt(() => inputs.render(scope) as JsonObject)) ?? fallback,
  };
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

/** Cuts off what the run is at, and takes it down. A dispatch in flight is cancelled at the worker and awaited first. */
export function cutOff(draft: Draft, ending: Ending): void {
  const { wait, entry } = draft.context;
  if (wait?.kind === "dispatched") {
    draft.change({ ending });
    draft.owe({ kind: "dispatch.cancel", dispatchId: wait.dispatchId, reason: ending.reason });
    draft.row("compensation.started", "compensating");
    return draft.take("undo");
  }
  if (wait?.kind === "queued") draft.owe({ kind: "dispatch.resolved", dispatchId: wait.dispatchId });
  if (entry) cutRow(draft, ending);
  const plan = draft.program.steps.get(draft.context.step ?? "");
  if (plan) joinIfHappened(draft, plan);
  leave(draft, ending);
}

/** Ends without undoing anything: open dispatches are cancelled, not awaited. */
export function abandon(draft: Draft, ending: Ending): void {
  const { wait, entry } = draft.context;
  if (wait?.kind === "dispatched")
    draft.owe({ kind: "dispatch.cancel", dispatchId: wait.dispatchId, reason: ending.reason });
  if (wait && "dispatchId" in wait) draft.owe({ kind: "dispatch.resolved", dispatchId: wait.dispatchId });
  if (entry) cutRow(draft, ending);
  draft.change({ ending });
  conclude(draft);
}

/** The row of a step that was cut off: code `cancelled`, or the run's own failure. */
export function cutRow(draft: Draft, ending: Ending, message = ending.reason): void {
  const { wait, step, state } = draft.context;
  const attempt = wait?.kind === "dispatched" ? wait.attempt : 0;
  const code = ending.to === "cancelled" ? "cancelled" : (ending.error?.code ?? "error");
  draft.row("step.failed", state, {
    stepId: step,
    attempt,
    metadata: { code, message, retryable: false, will_retry: false },
  });
}

function leave(draft: Draft, ending: Ending): void {
  draft.change({ ending });
  if (draft.context.owed > 0) draft.row("compensation.started", "compensating");
  descend(draft, "undo");
}

/** Nothing is open any more: undo what is owed, or end. */
export function descend(draft: Draft, edge: string): void {
  draft.change({ wait: undefined, entry: undefined, call: undefined });
  warnUnprotected(draft);
  if (draft.context.owed === 0) return conclude(draft);
  draft.take(edge);
}

function warnUnprotected(draft: Draft): void {
  const steps = Object.entries(draft.context.unprotected);
  if (steps.length === 0) return;
  for (const [stepId, review] of steps) {
    const message = "the step completed and has no compensation: it is passed over";
    draft.row("log", draft.context.state, { stepId, metadata: { kind: "undo_passed", level: "warn", message } });
    if (review) draft.change({ requiresManualReview: true });
  }
  draft.change({ unprotected: {} });
  draft.owe({ kind: "undo.passed" });
}

function conclude(draft: Draft): void {
  const { ending } = draft.context;
  if (!ending) throw new Error("a run ended without a cause");
  draft.change({ step: undefined, entry: undefined, wait: undefined, call: undefined, undoing: undefined });
  const type = `run.${ending.to}` as const;
  draft.row(type, ending.to, { metadata: ending.error ? { ...ending.error } : { reason: ending.reason } });
  draft.take(type);
}

/** The next undo, newest completion first. */
export function undoNext(draft: Draft): void {
  const { undo } = draft.facts;
  if (undo === undefined) throw new Needed({ kind: "undo" });
  if (undo === null) return conclude(draft);
  const registered = lookUp(draft, undo.action ?? "");
  draft.change({ step: undo.stepId, undoing: undo.ordinal });
  const phase: JsonObject = undo.childRunId
    ? { phase: "compensation", child_run_id: undo.childRunId }
    : { phase: "compensation" };
  draft.row("step.started", "compensating", { stepId: undo.stepId, metadata: phase });
  if (!registered) {
    return settleUndo(draft, "failed", 0, {
      code: "action_not_registered",
      message: `no action ${undo.action} is registered`,
    });
  }
  if (draft.context.run.dryRun && !registered.dryRunSupported) {
    draft.row("step.skipped", "compensating", { stepId: undo.stepId, metadata: { ...phase, reason: "dry_run" } });
    return settled(draft, "done");
  }
  queueCall(draft, compensationOf(undo, registered), 1, "wait");
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
    timeoutMs: registered.defaultTimeoutMs ?? DEFAULT_TIMEOUT_MS,
    retry: completeRetry(registered.defaultRetry),
  };
}

/** One undo is over. One that failed for good asks for a person, and the rollback goes on. */
export function settleUndo(
  draft: Draft,
  state: "done" | "failed",
  attempt: number,
  about: { code: string; message: string; retryable?: boolean } | { output: JsonObject; duration_ms: number },
): void {
  const stepId = draft.context.step;
  const metadata: JsonObject = { ...about, phase: "compensation" };
  if (state === "done") draft.row("step.succeeded", "compensating", { stepId, attempt, metadata });
  else {
    draft.row("step.failed", "compensating", {
      stepId,
      attempt,
      metadata: { retryable: false, ...metadata, will_retry: false },
    });
    draft.change({ requiresManualReview: true });
  }
  settled(draft, state);
}

function settled(draft: Draft, state: "done" | "failed"): void {
  const ordinal = draft.context.undoing;
  if (ordinal !== undefined) draft.owe({ kind: "undo.settled", ordinal, state });
  draft.change({ owed: draft.context.owed - 1, undoing: undefined });
  descend(draft, "note");
}
