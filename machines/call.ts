// The attempts of one action call: queued for a worker, dispatched, answered, timed out, tried again. The same for a step
// and for an undo. Once dispatched, an attempt is unresolved until an answer or its deadline (law 11).

import type { RunCommand } from "./commands.js";
import type { ActionCall, StepEntry, Wait } from "./context.js";
import { complete, currentPlan, failStep, store } from "./enter.js";
import type { JsonObject } from "./json.js";
import { measure } from "./json.js";
import { backoffMs, mayRetry } from "./retry.js";
import {
  codeOf,
  cutRow,
  downState,
  forwardKey,
  goOnDown,
  joinIfHappened,
  joinUndo,
  settleUndo,
  undoPhase,
} from "./rollback.js";
import type { Outcome, StepPlan } from "./steps/step.js";
import { retrySaga } from "./sub-saga.js";
import { formatInstant } from "./time.js";
import type { Draft } from "./transition.js";

type Dispatched = Extract<Wait, { kind: "dispatched" }>;

export function startCall(draft: Draft, plan: StepPlan, call: Extract<Outcome, { kind: "call" }>["call"]): void {
  const key = forwardKey(draft.context.run.id, plan.id, draft.context.entries);
  queueCall(draft, { ...call, phase: "forward", stepId: plan.id, idempotencyKey: key }, 1, "wait");
}

/** Asks for a worker for attempt `nth` of the call. It is an attempt only once it is dispatched. */
export function queueCall(draft: Draft, call: ActionCall, nth: number, edge: string): void {
  const { run, attempts } = draft.context;
  const attempt = (attempts[call.stepId] ?? 0) + 1;
  const dispatchId = draft.facts.uuid(run.id, `${run.id}/${call.stepId}/${attempt}`);
  const due = call.queueTimeoutMs === undefined ? {} : { dueAt: draft.now + call.queueTimeoutMs };
  draft.change({ call, wait: { kind: "queued", dispatchId, attempt, nth, ...due } });
  draft.owe({ kind: "dispatch.request", dispatchId, call });
  draft.take(edge);
}

/** A worker with credit is there: this is the moment the attempt begins. */
export function dispatch(draft: Draft, wait: Extract<Wait, { kind: "queued" }>, workerId: string | undefined): void {
  const { call, run, attempts, state } = draft.context;
  if (!call) throw new Error("a queued run has no call");
  const deadlineAt = draft.now + call.timeoutMs;
  const heartbeat = call.heartbeatTimeoutMs === undefined ? {} : { heartbeatAt: draft.now + call.heartbeatTimeoutMs };
  const { dispatchId, attempt, nth } = wait;
  draft.change({
    attempts: { ...attempts, [call.stepId]: attempt },
    wait: { kind: "dispatched", dispatchId, attempt, nth, workerId, at: draft.now, deadlineAt, ...heartbeat },
  });
  const metadata = {
    action: call.request ? "http_request" : `${call.service}.${call.action}@${call.version}`,
    transport: call.transport,
    dispatch_id: dispatchId,
    deadline_at: formatInstant(deadlineAt),
    ...phaseOf(call),
  };
  draft.row("step.dispatched", state === "compensating" ? state : "running", {
    stepId: call.stepId,
    attempt,
    metadata,
  });
  const { id: runId, tenantId, dryRun } = run;
  draft.owe({ kind: "dispatch.send", dispatch: { dispatchId, runId, tenantId, dryRun, attempt, deadlineAt, call } });
  draft.take("wait");
}

function phaseOf(call: ActionCall): JsonObject {
  return call.phase === "compensation" ? undoPhase(call.childRunId) : {};
}

/** The worker says that it is done. */
export function succeeded(draft: Draft, wait: Dispatched, result: JsonObject): void {
  const { call, ending, unwinding } = draft.context;
  if (!call) throw new Error("a dispatched run has no call");
  draft.owe({ kind: "dispatch.resolved", dispatchId: wait.dispatchId });
  if (call.phase === "compensation")
    return settleUndo(draft, call, "done", wait.attempt, { output: result, duration_ms: draft.now - wait.at });
  const plan = currentPlan(draft);
  if (ending || unwinding) return succeededTooLate(draft, plan, wait, result);
  const registered = draft.facts.action(call.service, call.action, call.version);
  const problems = registered ? draft.facts.conforms(registered.outputSchema, result) : [];
  if (problems.length === 0) return complete(draft, plan, { output: result, attempt: wait.attempt });
  joinUndo(draft, plan, result);
  const message = `the worker's result: ${problems.slice(0, 5).join("; ")}`;
  failStep(draft, plan, { code: "schema_mismatch", message }, wait.attempt);
}

/** The run, or a try, is on its way down, but this did happen: it is stored and recorded, and then undone with the rest. */
function succeededTooLate(draft: Draft, plan: StepPlan, wait: Dispatched, result: JsonObject): void {
  if (plan.saveAs !== null && typeof measure(result) === "number") store(draft, { [plan.saveAs]: result });
  joinUndo(draft, plan, result);
  const metadata = { output: result, duration_ms: draft.now - (draft.context.entry?.at ?? wait.at) };
  draft.row("step.succeeded", downState(draft.context), { stepId: plan.id, attempt: wait.attempt, metadata });
  goOnDown(draft);
}

export interface AttemptFailure {
  readonly code: string;
  readonly message: string;
  readonly retryable: boolean;
  readonly outcomeUnknown: boolean;
  readonly retryAfterMs?: number;
}

/** The attempt failed, or nothing was heard of it in time. */
export function attemptFailed(draft: Draft, wait: Dispatched, failure: AttemptFailure): void {
  const { call, ending, unwinding } = draft.context;
  if (!call) throw new Error("a dispatched run has no call");
  draft.owe({ kind: "dispatch.resolved", dispatchId: wait.dispatchId });
  if (failure.outcomeUnknown && call.phase === "forward") rememberUnknown(draft);
  if (call.phase === "forward" && (ending || unwinding)) {
    cutRow(draft, ending && !unwinding ? codeOf(ending) : "cancelled", `${failure.code}: ${failure.message}`);
    joinIfHappened(draft, currentPlan(draft));
    return goOnDown(draft);
  }
  if (failure.retryable && mayRetry(call.retry, wait.nth, failure.code)) return backOff(draft, call, wait, failure);
  const { code, message, retryable } = failure;
  if (call.phase === "compensation")
    return settleUndo(draft, call, "failed", wait.attempt, { code, message, retryable });
  joinIfHappened(draft, currentPlan(draft));
  failStep(draft, currentPlan(draft), { code, message }, wait.attempt, retryable);
}

function rememberUnknown(draft: Draft): void {
  const entry: StepEntry | undefined = draft.context.entry;
  if (entry) draft.change({ entry: { ...entry, mayHaveHappened: true } });
}

function backOff(draft: Draft, call: ActionCall, wait: Dispatched, failure: AttemptFailure): void {
  const { code, message, retryAfterMs } = failure;
  // In a dry run timers pass at once.
  const delay = draft.context.run.dryRun ? 0 : backoffMs(call.retry, wait.nth, draft.facts.random, retryAfterMs);
  const dueAt = draft.now + delay;
  const metadata = {
    code,
    message,
    retryable: true,
    will_retry: true,
    next_retry_at: formatInstant(dueAt),
    ...phaseOf(call),
  };
  const undoing = call.phase === "compensation";
  draft.row("step.failed", undoing ? downState(draft.context) : "paused", {
    stepId: call.stepId,
    attempt: wait.attempt,
    metadata,
  });
  draft.change({ wait: { kind: "backoff", nth: wait.nth, dueAt } });
  draft.take(undoing ? "wait" : "pause");
}

/** The backoff is over. */
export function retryNow(draft: Draft, wait: Extract<Wait, { kind: "backoff" }>): void {
  const { call } = draft.context;
  if (!call) return retrySaga(draft);
  const undoing = call.phase === "compensation";
  const metadata = { kind: "retry", nth: wait.nth + 1, ...phaseOf(call) };
  draft.row("log", undoing ? downState(draft.context) : "running", { stepId: call.stepId, metadata });
  queueCall(draft, call, wait.nth + 1, undoing ? "wait" : "resume");
}

/** No worker had credit in time. It never left: there is nothing to undo, and trying again would be waiting again. */
export function queueTimedOut(draft: Draft, wait: Extract<Wait, { kind: "queued" }>): void {
  const { call } = draft.context;
  const failure = { code: "queue_timeout", message: "no worker took the action in time" };
  draft.owe({ kind: "dispatch.resolved", dispatchId: wait.dispatchId });
  if (call?.phase === "compensation") return settleUndo(draft, call, "failed", 0, failure);
  joinIfHappened(draft, currentPlan(draft));
  failStep(draft, currentPlan(draft), failure);
}

/** The deadline or the heartbeat's has passed: a late answer will be stale, and what was attempted may have happened. */
export function attemptTimedOut(draft: Draft, wait: Dispatched): void {
  const silent = wait.deadlineAt > draft.now;
  const whom = draft.context.call?.request ? "server" : "worker";
  draft.owe({
    kind: "dispatch.cancel",
    dispatchId: wait.dispatchId,
    reason: silent ? "heartbeat lost" : "deadline passed",
  });
  attemptFailed(draft, wait, {
    code: silent ? "heartbeat_timeout" : "timeout",
    message: silent ? "the worker's heartbeat was lost" : `the ${whom} did not answer in time`,
    retryable: true,
    outcomeUnknown: true,
  });
}

export function heartbeat(draft: Draft, wait: Dispatched): void {
  const { call } = draft.context;
  if (call?.heartbeatTimeoutMs === undefined) return;
  draft.change({ wait: { ...wait, heartbeatAt: draft.now + call.heartbeatTimeoutMs } });
  draft.take("heartbeat");
}

/**
 * Whether a report is about the dispatch that the run waits for. An attempt pins it as well as a dispatch id does, since
 * attempts count on over a step's entries and undos; a report without either never answers an undo.
 */
export function isAbout(
  command: Extract<RunCommand, { type: "result" | "failure" | "heartbeat" }>,
  wait: Dispatched,
  call: ActionCall,
): boolean {
  if (command.stepId !== undefined && command.stepId !== call.stepId) return false;
  if (command.attempt !== undefined && command.attempt !== wait.attempt) return false;
  if (command.dispatchId !== undefined) return command.dispatchId === wait.dispatchId;
  return call.phase === "forward" || command.attempt !== undefined;
}
