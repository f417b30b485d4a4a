// The attempts of an action call: queued for a worker, then dispatched.

import { type Dispatch, type Owed, outboxRow, type Send } from "../messages/owed.js";
import { type ActionCall, actionText } from "../state/call.js";
import type { RunIdentity } from "../state/identity.js";
import { isOwedByRun, type Wait } from "../state/wait.js";
import type { StepOutcome, StepPlan } from "../steps/step.js";
import { asDispatchId, type DispatchId } from "../values/ids.js";
import type { JsonObject } from "../values/json.js";
import { formatInstant } from "../values/time.js";
import type { Draft } from "./draft.js";
import { awaitStepSlot } from "./ledger/slots.js";
import { awaitStepTurn } from "./ledger/turns.js";
import { forwardKey, undoMetadata } from "./ledger/undo-list.js";

export type Dispatched = Extract<Wait, { kind: "dispatched" }>;

/** The first attempt of a step's call, once its step entry has the slot that it needs, and in its turn. */
export function startCall(
  draft: Draft,
  plan: StepPlan,
  { call: asked, concurrency, turn }: Extract<StepOutcome, { kind: "call" }>,
): void {
  const { run, entries, entry } = draft.context;
  const key = forwardKey(run.id, plan.id, entries);
  // The spread is last: on Node 20 each member that is added to one costs 2 µs.
  const call: ActionCall = { phase: "forward", stepId: plan.id, idempotencyKey: key, ...asked };
  // A step that a person retries during its backoff still has its slot.
  if (turn && entry) draft.change({ entry: { ...entry, turn } });
  if (concurrency && !entry?.slot) awaitStepSlot(draft, plan, call, concurrency);
  else beginAttempt(draft, call, 1, "wait");
}

/** Attempt `nth` of the call. Under a rate limit, each attempt of a step waits for its turn; an undo waits for none. */
export function beginAttempt(draft: Draft, call: ActionCall, nth: number, edge: string): void {
  if (draft.context.entry?.turn && call.phase === "forward") awaitStepTurn(draft, call, nth);
  else queueCall(draft, call, nth, edge);
}

/** Asks for a worker for attempt `nth` of the call. The attempt counts once it is dispatched. `dueAt`: the queue timeout goes on. */
export function queueCall(
  draft: Draft,
  call: ActionCall,
  nth: number,
  edge: string,
  dueAt = queueDue(draft, call),
): void {
  const { run, attempts } = draft.context;
  const attempt = (attempts[call.stepId] ?? 0) + 1;
  const dispatchId = asDispatchId(draft.facts.uuid(run.id, `${run.id}/${call.stepId}/${attempt}`));
  const due = dueAt === undefined ? {} : { dueAt };
  draft.change({ call, wait: { kind: "queued", dispatchId, attempt, nth, since: draft.now, ...due } });
  // Over gRPC the run's row and its wake row owe the dispatch: see isOwedByRun.
  if (call.transport !== "grpc") draft.owe({ writes: [outboxRow(draft, dispatchId, "action")] });
  draft.owe({ sends: [dispatchRequest(run, dispatchId, call)] });
  draft.close(edge);
}

export function dispatchRequest(
  { tenantId, precedence }: Pick<RunIdentity, "tenantId" | "precedence">,
  dispatchId: DispatchId,
  call: ActionCall,
): Send {
  const request = { kind: "dispatch.request", dispatchId, call, ...(tenantId !== undefined && { tenantId }) } as const;
  return precedence ? { ...request, precedence } : request;
}

function queueDue({ now }: Draft, { queueTimeoutMs }: ActionCall): number | undefined {
  return queueTimeoutMs === undefined ? undefined : now + queueTimeoutMs;
}

/** A worker with credit is available: the attempt begins. */
export function dispatch(draft: Draft, wait: Extract<Wait, { kind: "queued" }>, workerId: string | undefined): void {
  const { call, run, attempts, state } = draft.context;
  if (!call) throw new Error(`run ${run.id} is queued without a call`);
  const { dispatchId, attempt, nth, dueAt, hasRow, since } = wait;
  const dispatched: Dispatched = {
    kind: "dispatched",
    dispatchId,
    attempt,
    nth,
    workerId,
    at: draft.now,
    ...(draft.now > since && { queuedMs: draft.now - since }),
    deadlineAt: draft.now + call.timeoutMs,
    ...heartbeatFrom(draft, call),
    ...(dueAt !== undefined && { queueDueAt: dueAt }),
    ...(hasRow && { hasRow }),
  };
  draft.change({ attempts: { ...attempts, [call.stepId]: attempt }, wait: dispatched });
  const due = { dispatch_id: dispatchId, deadline_at: formatInstant(dispatched.deadlineAt) };
  const metadata = { action: actionText(call), transport: call.transport, ...due, ...phaseMetadata(call) };
  const to = state === "compensating" ? state : "running";
  draft.row("step.dispatched", to, { stepId: call.stepId, attempt, metadata });
  draft.owe({ sends: [{ kind: "dispatch.send", dispatch: dispatchOf(draft, dispatched, call) }] });
  draft.close("wait");
}

/** Nothing is owed for the dispatch any more: it is resolved, or was never sent. */
export function resolveDispatch(draft: Draft, wait: Extract<Wait, { dispatchId: DispatchId }>): void {
  const { run, call } = draft.context;
  const { writes, sends } = dispatchResolved(run, wait.dispatchId);
  draft.owe(call && isOwedByRun(wait, call) ? { sends } : { writes, sends });
}

export function dispatchResolved({ id: run_id }: Pick<RunIdentity, "id">, dispatchId: DispatchId): Owed {
  const gone = { to: "outbox_gone", row: { run_id, id: dispatchId } } as const;
  return { writes: [gone], sends: [{ kind: "dispatch.resolved", dispatchId }] };
}

/** Asks the worker to stop. */
export function dispatchCancelled(dispatchId: DispatchId, reason: string): Owed {
  return { sends: [{ kind: "dispatch.cancel", dispatchId, reason }] };
}

export function phaseMetadata(call: ActionCall): JsonObject {
  return call.phase === "compensation" ? undoMetadata(call.childRunId) : {};
}

/** The dispatch as its worker receives it: the same each time it is sent. */
export function dispatchOf(
  { context, facts }: Draft,
  { dispatchId, attempt, deadlineAt, queueDueAt: handOverBy }: Dispatched,
  call: ActionCall,
): Dispatch {
  const { id: runId, tenantId, dryRun, traceparent: given } = context.run;
  const until = handOverBy === undefined ? {} : { handOverBy };
  const traceparent = facts.traces?.attempt(context, dispatchId) ?? given;
  const traced = traceparent === undefined ? {} : { traceparent };
  return { dispatchId, runId, tenantId, dryRun, attempt, deadlineAt, call, ...until, ...traced };
}

/** The worker is alive: its heartbeat timeout starts anew. */
export function heartbeatFrom({ now }: Draft, { heartbeatTimeoutMs }: ActionCall): Pick<Dispatched, "heartbeatAt"> {
  return heartbeatTimeoutMs === undefined ? {} : { heartbeatAt: now + heartbeatTimeoutMs };
}
