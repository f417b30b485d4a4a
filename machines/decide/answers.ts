// The commands of a dispatch: a worker's offer, result, failure and heartbeat, and `carry` of the node's poll; and the attempts
// that follow from them. The same for a step and for an undo. A dispatched attempt is unresolved until an answer or its deadline
// (law 11).

import type { Command, Reported } from "../messages/command.js";
import { Needed } from "../messages/fact.js";
import { type Owed, outboxRow } from "../messages/owed.js";
import { type DecisionOn, refused, unchanged } from "../messages/transition.js";
import { withSecrets } from "../schema/secrets.js";
import type { ActionCall } from "../state/call.js";
import { backoff, isOwedByRun, type Wait } from "../state/wait.js";
import { payloadSchemaOf } from "../steps/payload.js";
import type { Failure, StepPlan } from "../steps/step.js";
import { givenCode, type StepErrorCode } from "../values/error-code.js";
import { type Json, type JsonObject, measure } from "../values/json.js";
import { backoffMs, mayRetry } from "../values/retry.js";
import { holdsSecret, SECRET, secret, withoutSecrets } from "../values/secret.js";
import { formatInstant } from "../values/time.js";
import {
  beginAttempt,
  type Dispatched,
  dispatch,
  dispatchCancelled,
  dispatchOf,
  dispatchRequest,
  dispatchResolved,
  heartbeatFrom,
  phaseMetadata,
  queueCall,
  resolveDispatch,
} from "./dispatching.js";
import { currentPlan, type Draft } from "./draft.js";
import { groupOf, setGroup } from "./ledger/groups.js";
import { endingCode, recordAbortedStep } from "./ledger/rows.js";
import { joinIfMayHaveHappened, joinUndoList, rollbackState } from "./ledger/undo-list.js";
import { storeVariables } from "./ledger/variables.js";
import { completeStep, failStep, takeStep } from "./token.js";
import { giveUpLateTurn } from "./turns.js";
import { continueRollback, recordUndo } from "./undo.js";

/** A worker has credit for the queued dispatch. */
export function offer(draft: Draft, { dispatchId, workerId }: Command<"offer">): DecisionOn<"offer"> {
  const { wait, quarantined, held } = draft.context;
  // A repeat: the commit of the first try was not answered.
  if (wait?.kind === "dispatched" && wait.dispatchId === dispatchId && wait.workerId === workerId)
    return unchanged({ type: "advanced" });
  if (wait?.kind !== "queued" || wait.dispatchId !== dispatchId)
    return refused("the run does not wait for a worker for this dispatch");
  if (quarantined) return refused("the run is in quarantine");
  if (held) return refused("the run is paused");
  const late = giveUpLateTurn(draft, wait, { type: "refused", reason: "the turn of the call is over" });
  if (late) return late;
  dispatch(draft, wait, workerId);
  return draft.decided({ type: "advanced" });
}

/** A worker reports a result, a failure or a heartbeat. */
export function report(draft: Draft, command: Command<"result" | "failure" | "heartbeat">): DecisionOn<"result"> {
  const { wait, call, quarantined } = draft.context;
  if (wait?.kind !== "dispatched" || !call || !isAboutDispatch(command, wait, call))
    return unchanged({ type: "report", stale: true });
  if (!isOfServices(command, call)) return unchanged({ type: "report", stale: true, reason: foreignDispatch(call) });
  const notHandedOver = command.type === "failure" && command.notHandedOver;
  if (notHandedOver && wait.carried) return unchanged({ type: "report", stale: true });
  draft.credential = command.credential;
  // A refusal is not acknowledged, so the worker keeps its answer until the run is released.
  if (quarantined) return refused("the run is in quarantine");
  // The stamp of a node whose clock is ahead counts as now.
  if (!notHandedOver && wait.deadlineAt <= Math.min(command.arrivedAt ?? draft.now, draft.now)) {
    // A late answer is stale even if no wake has fired for the deadline yet.
    attemptTimedOut(draft, wait);
    return draft.decided({ type: "report", stale: true });
  }
  if (command.type === "result") attemptSucceeded(draft, wait, command.result);
  else if (command.type === "failure") attemptFailed(draft, wait, { ...command, code: givenCode(command.code) });
  else return heartbeat(draft, wait, call);
  return draft.decided({ type: "report", stale: false });
}

/** Its answer tells the worker of a cancel: over HTTP and RabbitMQ there is no other way to tell it. */
function heartbeat(draft: Draft, wait: Dispatched, call: ActionCall): DecisionOn<"heartbeat"> {
  const { ending, unwinding } = draft.context;
  const cancelled = call.phase === "forward" && (ending || unwinding);
  const answer: Reported = { type: "report", stale: false, ...(cancelled && { cancelled: true }) };
  if (call.heartbeatTimeoutMs === undefined) return unchanged(answer);
  draft.change({ wait: { ...wait, ...heartbeatFrom(draft, call) } });
  draft.close("heartbeat");
  return draft.decided(answer);
}

function isOfServices(
  { service, services }: Command<"result" | "failure" | "heartbeat">,
  call: Pick<ActionCall, "service">,
): boolean {
  if (service !== undefined && service !== call.service) return false;
  const matches = (pattern: string) =>
    pattern.endsWith("*") ? call.service.startsWith(pattern.slice(0, -1)) : call.service === pattern;
  return services === undefined || services.some(matches);
}

export function foreignDispatch({ service }: Pick<ActionCall, "service">): string {
  return `the dispatch belongs to the service ${service}`;
}

/**
 * Whether a report is about the dispatch that the run waits for. An attempt identifies it as well as a dispatch id does, since
 * attempts count on over the entries and undos of a step. A report with neither never answers an undo.
 */
function isAboutDispatch(
  command: Command<"result" | "failure" | "heartbeat">,
  wait: Dispatched,
  call: ActionCall,
): boolean {
  if (command.stepId !== undefined && command.stepId !== call.stepId) return false;
  if (command.attempt !== undefined && command.attempt !== wait.attempt) return false;
  if (command.dispatchId !== undefined) return command.dispatchId === wait.dispatchId;
  return call.phase === "forward" || command.attempt !== undefined;
}

/**
 * Sends again, unchanged, what the dispatch needs, or resolves it if the run no longer waits for it. A node that has just
 * begun to listen to the worker asks, so the heartbeat timeout starts anew, unless the node says that it held the dispatch. From now on two nodes may have the dispatch, and neither can
 * say that it was not handed over. A dispatch that only the run's own rows owed gets a row.
 */
export function carry(draft: Draft, { dispatchId, held: isHeld }: Command<"carry">): DecisionOn<"carry"> {
  const { wait, call, run, quarantined, held } = draft.context;
  if (!wait || !("dispatchId" in wait) || wait.dispatchId !== dispatchId || !call)
    return unchanged({ type: "advanced" }, dispatchResolved(run, dispatchId));
  if (quarantined) return unchanged({ type: "advanced" });
  const row = isOwedByRun(wait, call) ? { hasRow: true as const } : {};
  if (wait.kind === "queued") {
    const request: Owed = held ? {} : { sends: [dispatchRequest(run, dispatchId, call)] };
    if (!row.hasRow) return unchanged({ type: "advanced" }, request);
    draft.owe(request);
    draft.owe({ writes: [outboxRow(draft, dispatchId, "action")] });
    draft.change({ wait: { ...wait, ...row } });
    draft.close("note");
    return draft.decided({ type: "advanced" });
  }
  const again: Owed = { sends: [{ kind: "dispatch.send", dispatch: dispatchOf(draft, wait, call) }] };
  const handedOver = call.transport === "http" || call.transport === "rmq";
  if (call.heartbeatTimeoutMs === undefined && !row.hasRow && (wait.carried || !handedOver))
    return unchanged({ type: "advanced" }, again);
  draft.owe(again);
  if (row.hasRow) draft.owe({ writes: [outboxRow(draft, dispatchId, "action")] });
  const heartbeat = isHeld ? {} : heartbeatFrom(draft, call);
  draft.change({ wait: { ...wait, ...heartbeat, ...row, ...(handedOver && { carried: true }) } });
  draft.close("heartbeat");
  return draft.decided({ type: "advanced" });
}

function attemptSucceeded(draft: Draft, wait: Dispatched, given: JsonObject): void {
  const { ending, unwinding } = draft.context;
  const call = callOf(draft);
  const schema = outputSchemaOf(draft, call);
  const result = withSecrets(schema, given);
  resolveDispatch(draft, wait);
  if (call.phase === "compensation")
    return recordUndo(draft, call, "done", wait.attempt, { output: result, duration_ms: draft.now - wait.at });
  const plan = currentPlan(draft);
  if (ending || unwinding) return attemptSucceededTooLate(draft, plan, wait, result);
  const problems = schema ? draft.facts.conforms(schema, given) : [];
  if (problems.length === 0) return completeStep(draft, plan, { output: result, attempt: wait.attempt });
  const message = `the ${call.request ? "response" : "worker's result"}: ${problems.slice(0, 5).join("; ")}`;
  failStep(draft, plan, { code: "schema_mismatch", message }, { attempt: wait.attempt, done: result });
}

/** The schema that the call was made with, also if the action was registered anew since. A request has that of its step. */
export function outputSchemaOf(draft: Draft, call: ActionCall): JsonObject | undefined {
  const { facts, context } = draft;
  const { service, action, version, outputHash: hash } = call;
  if (call.request) return payloadSchemaOf(currentPlan(draft));
  const registered = facts.action(service, action, version, context.run.tenantId);
  if (hash === undefined || hash === registered?.outputHash) return registered?.outputSchema;
  if (facts.outputSchema === undefined) throw new Needed({ kind: "output_schema", hash });
  return facts.outputSchema ?? registered?.outputSchema;
}

/** The run, or a try, is being left, but the step did succeed: it is stored and recorded, and then undone with the others. */
function attemptSucceededTooLate(draft: Draft, plan: StepPlan, wait: Dispatched, result: JsonObject): void {
  if (plan.saveAs !== null && typeof measure(result) === "number") storeVariables(draft, { [plan.saveAs]: result });
  joinUndoList(draft, plan, result);
  const metadata = { output: result, duration_ms: draft.now - (draft.context.entry?.at ?? wait.at) };
  draft.row("step.succeeded", rollbackState(draft.context), { stepId: plan.id, attempt: wait.attempt, metadata });
  continueRollback(draft);
}

interface AttemptFailure {
  readonly code: StepErrorCode;
  readonly message: string;
  readonly retryable: boolean;
  readonly outcomeUnknown: boolean;
  readonly retryAfterMs?: number;
  readonly notHandedOver?: true;
}

/** What failed may repeat what it was given. A text has no marks, so secret values are looked for in it. */
function withoutSecretsOf({ inputs, request }: ActionCall, failure: AttemptFailure): AttemptFailure {
  const given: Json = [inputs, { ...request } as JsonObject];
  if (!holdsSecret(given)) return failure;
  const host = typeof request?.url === "object" ? /^[a-z]+:\/\/([^/?#:]+)/i.exec(request.url[SECRET])?.[1] : undefined;
  const all: Json = host === undefined ? given : [given, secret(host)];
  return {
    ...failure,
    code: givenCode(withoutSecrets(failure.code, all)),
    message: withoutSecrets(failure.message, all),
  };
}

/** The worker reported a failure, or no answer came in time. */
function attemptFailed(draft: Draft, wait: Dispatched, reported: AttemptFailure): void {
  const { ending, unwinding } = draft.context;
  const call = callOf(draft);
  const failure = withoutSecretsOf(call, reported);
  resolveDispatch(draft, wait);
  if (failure.outcomeUnknown && call.phase === "forward") rememberUnknownOutcome(draft);
  if (call.phase === "forward" && (ending || unwinding)) return attemptFailedTooLate(draft, failure);
  if (failure.notHandedOver) return queueAgain(draft, call, wait, failure);
  if (failure.retryable && mayRetry(call.retry, wait.nth, failure.code)) return backOff(draft, call, wait, failure);
  const { code, message, retryable } = failure;
  if (call.phase === "compensation")
    return recordUndo(draft, call, "failed", wait.attempt, { code, message, retryable });
  failStep(draft, currentPlan(draft), { code, message }, { attempt: wait.attempt, retryable });
}

/** The run, or a try, is being left: the step that failed meanwhile is recorded as aborted. */
function attemptFailedTooLate(draft: Draft, { code, message }: AttemptFailure): void {
  const { ending, unwinding } = draft.context;
  recordAbortedStep(draft, ending && !unwinding ? endingCode(ending) : "cancelled", `${code}: ${message}`);
  joinIfMayHaveHappened(draft, currentPlan(draft));
  continueRollback(draft);
}

function rememberUnknownOutcome(draft: Draft): void {
  const { entry } = draft.context;
  if (entry) draft.change({ entry: { ...entry, mayHaveHappened: true } });
}

/** No worker has seen the dispatch, so its number in the retry policy is still free, and so is its turn. Its queue timeout has been counting all the time. */
function queueAgain(draft: Draft, call: ActionCall, wait: Dispatched, { code, message }: AttemptFailure): void {
  const { queueDueAt: dueAt, attempt, nth } = wait;
  if (dueAt !== undefined && dueAt <= draft.now) return queueTimedOut(draft, wait);
  const { state } = draft.context;
  const again = { retryable: true, will_retry: true, next_retry_at: formatInstant(draft.now), handed_over: false };
  const metadata = { code, message, ...again, ...phaseMetadata(call) };
  draft.row("step.failed", state === "compensating" ? state : "running", { stepId: call.stepId, attempt, metadata });
  queueCall(draft, call, nth, "wait", dueAt);
}

function backOff(draft: Draft, call: ActionCall, wait: Dispatched, failure: AttemptFailure): void {
  const { code, message, retryAfterMs } = failure;
  // A dry run does not wait.
  const delay = draft.context.run.dryRun ? 0 : backoffMs(call.retry, wait.nth, draft.facts.random, retryAfterMs);
  const dueAt = draft.now + delay;
  const retry = { retryable: true, will_retry: true, next_retry_at: formatInstant(dueAt) };
  const metadata = { code, message, ...retry, ...phaseMetadata(call) };
  const undoing = call.phase === "compensation";
  const to = undoing ? rollbackState(draft.context) : "paused";
  draft.row("step.failed", to, { stepId: call.stepId, attempt: wait.attempt, metadata });
  draft.change({
    wait: backoff({ nth: wait.nth, since: draft.now, dueAt, error: failure, maxAttempts: call.retry.max_attempts }),
  });
  draft.close(undoing ? "wait" : "pause");
}

export function retryAfterBackoff(draft: Draft, wait: Extract<Wait, { kind: "backoff" }>): void {
  const { call } = draft.context;
  if (!call) return retrySubSaga(draft);
  const undoing = call.phase === "compensation";
  const metadata = { kind: "retry", nth: wait.nth + 1, ...phaseMetadata(call) };
  draft.row("log", undoing ? rollbackState(draft.context) : "running", { stepId: call.stepId, metadata });
  beginAttempt(draft, call, wait.nth + 1, undoing ? "wait" : "resume");
}

/** A new child starts in the same group. */
function retrySubSaga(draft: Draft): void {
  const plan = currentPlan(draft);
  const found = groupOf(draft, plan);
  if (!found) throw new Error(`the sub-saga ${plan.id} is retried without a first attempt`);
  draft.row("log", "running", { stepId: plan.id, metadata: { kind: "retry", nth: (found.group.nth ?? 1) + 1 } });
  setGroup(draft, found.entry, { ...found.group, verdict: undefined, stopped: undefined, timedOut: undefined });
  draft.change({ wait: undefined });
  draft.close("resume");
  takeStep(draft);
}

/** No worker took the call in time. It never reached one, so there is nothing to undo, and it is not retried. */
export function queueTimedOut(draft: Draft, wait: Extract<Wait, { kind: "queued" }> | Dispatched): void {
  const { call } = draft.context;
  const failure: Failure = { code: "queue_timeout", message: "no worker took the action in time" };
  const attempt = wait.kind === "dispatched" ? wait.attempt : 0;
  resolveDispatch(draft, wait);
  if (call?.phase === "compensation") return recordUndo(draft, call, "failed", attempt, failure);
  failStep(draft, currentPlan(draft), failure, { attempt });
}

/** The deadline has passed, or the heartbeat is overdue: a late answer will be stale, and the action may have been carried out. */
export function attemptTimedOut(draft: Draft, wait: Dispatched): void {
  const { dispatchId } = wait;
  const unknown = { retryable: true, outcomeUnknown: true };
  if (wait.deadlineAt > draft.now) {
    draft.owe(dispatchCancelled(dispatchId, "heartbeat lost"));
    return attemptFailed(draft, wait, {
      code: "heartbeat_timeout",
      message: "the worker's heartbeat was lost",
      ...unknown,
    });
  }
  draft.owe(dispatchCancelled(dispatchId, "deadline passed"));
  const callee = draft.context.call?.request ? "server" : "worker";
  attemptFailed(draft, wait, { code: "timeout", message: `the ${callee} did not answer in time`, ...unknown });
}

function callOf({ context: { call, run } }: Draft): ActionCall {
  if (!call) throw new Error(`run ${run.id} is dispatched without a call`);
  return call;
}
