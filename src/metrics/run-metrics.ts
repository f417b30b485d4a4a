// What people tune by: ends of runs by workflow, attempts and waits for a worker by action, undos that failed. Counted from what a commit
// changed in its run, once, by the node that committed. This is not a ledger: a commit whose outcome stayed unknown is not counted
// here, although its audit rows exist.
import {
  type AuditEvent,
  type DispatchId,
  ENGINE_ERRORS,
  isTerminal,
  type JsonObject,
  type RunContext,
  type RunIdentity,
  type TraceContext,
} from "../../machines/index.js";
import type { Metrics } from "./index.js";
import type { Exemplar } from "./page.js";

type Counted = Pick<
  Metrics,
  "runsFinished" | "runSeconds" | "undoFailures" | "attempts" | "attemptSeconds" | "scheduleToStart"
>;
type Event = Pick<AuditEvent, "type" | "stepId" | "attempt" | "metadata" | "at">;
interface Change {
  readonly before: RunContext;
  readonly after: RunContext;
}
type Call = NonNullable<RunContext["call"]>;

/** Whose measurements these are. */
export interface Measured {
  /** With which the run shares what is bounded. */
  readonly tenant: string | undefined;
  /** Absent: there are no traces. */
  readonly traces?: Traces | undefined;
}

interface Traces {
  isRecorded(run: RunIdentity): boolean;
  contextOf(run: RunIdentity): TraceContext;
  attemptOf(context: RunContext, dispatchId: DispatchId): TraceContext;
}

/** Dry runs are not counted. */
export function countRun(
  metrics: Counted,
  events: readonly Event[],
  change: Change,
  { tenant, traces }: Measured,
): void {
  const { before, after } = change;
  if (after.run.dryRun) return;
  const of = { tenant, traces: traces?.isRecorded(after.run) === true ? traces : undefined };
  countAttempt(metrics, events, change, of);
  countWait(metrics, change, of);
  if (after.owed > 0 || before.owed > 0) countUndoFailures(metrics, events, after, of);
  if (isTerminal(after.state) && !isTerminal(before.state)) countEnd(metrics, events, after, of);
}

/** `at`: epoch milliseconds. */
function exemplarOf({ traceId, spanId }: TraceContext, value: number, at: number): Exemplar {
  return { labelSet: { trace_id: traceId, span_id: spanId }, value, timestamp: at / 1_000 };
}

/** Branches and items are parts of a run and have no end of their own here. */
function countEnd(
  { runsFinished, runSeconds }: Counted,
  events: readonly Event[],
  { run, state }: RunContext,
  { tenant, traces }: Measured,
): void {
  const { workflowId, family, startedAt, delayedUntil = startedAt } = run;
  if (family) return;
  const endedAt = events.at(-1)?.at ?? startedAt;
  runsFinished.add([workflowId, state], 1, tenant);
  const seconds = secondsBetween(Math.max(startedAt, delayedUntil), endedAt);
  runSeconds.add([workflowId], seconds, tenant, traces && exemplarOf(traces.contextOf(run), seconds, endedAt));
}

/** One that no worker saw is none. */
function countAttempt(
  { attempts, attemptSeconds }: Counted,
  events: readonly Event[],
  { before, after }: Change,
  { tenant, traces }: Measured,
): void {
  const { wait, call } = before;
  if (wait?.kind !== "dispatched" || !call || dispatchedAs(after) === wait.dispatchId) return;
  const end = events.find(
    ({ type, stepId, attempt }) => ENDS.has(type) && stepId === call.stepId && attempt === wait.attempt,
  );
  if (!end || end.metadata?.handed_over === false) return;
  const code = end.type === "step.failed" ? codeOf(end.metadata) : "";
  attempts.add([...actionOf(call), call.phase === "forward" ? "forward" : "undo", code], 1, tenant);
  const seconds = secondsBetween(wait.at, end.at);
  const exemplar = traces && exemplarOf(traces.attemptOf(before, wait.dispatchId), seconds, end.at);
  attemptSeconds.add(actionOf(call), seconds, tenant, exemplar);
}

const ENDS: ReadonlySet<AuditEvent["type"]> = new Set(["step.succeeded", "step.failed"]);

/** A worker that was free took the call in the commit that asked for one: it has not waited. */
function countWait(
  { scheduleToStart }: Counted,
  { before: { wait: asked }, after }: Change,
  { tenant, traces }: Measured,
): void {
  const { wait, call } = after;
  if (wait?.kind !== "dispatched" || !call) return;
  const known = asked && "dispatchId" in asked && asked.dispatchId === wait.dispatchId ? asked : undefined;
  if (known?.kind === "dispatched") return;
  const seconds = known ? secondsBetween(known.since, wait.at) : 0;
  const exemplar = traces && exemplarOf(traces.attemptOf(after, wait.dispatchId), seconds, wait.at);
  scheduleToStart.add(actionOf(call), seconds, tenant, exemplar);
}

function countUndoFailures(
  { undoFailures }: Counted,
  events: readonly Event[],
  { run }: RunContext,
  { tenant }: Measured,
): void {
  for (const { type, metadata } of events)
    if (type === "step.failed" && metadata?.phase === "compensation" && metadata.will_retry === false)
      undoFailures.add([run.workflowId, codeOf(metadata)], 1, tenant);
}

function dispatchedAs({ wait }: RunContext): string | undefined {
  return wait?.kind === "dispatched" ? wait.dispatchId : undefined;
}

/** The host of a request of the service itself may be computed from a payload, so it is left out. */
function actionOf({ transport, service, action }: Call): readonly string[] {
  return [service, transport === "request" ? service : action];
}

/** A worker, or an author, may make a code of a payload: those are one value outside of the audit log. */
export function codeOf({ code }: JsonObject = {}): string {
  const text = String(code);
  return Object.hasOwn(ENGINE_ERRORS, text) || /^http_\d{3}$/.test(text) ? text : GIVEN;
}

const GIVEN = "given";

/** Database time may be set back. */
function secondsBetween(from: number, to: number): number {
  return Math.max(0, to - from) / 1_000;
}
