// The spans of runs, made of what is committed anyway: the audit events of a commit, and the run before and after it. The node that committed an
// end exports its span, once. Spans are no ledger: those of a commit whose outcome stayed unknown are missing, although its audit rows exist.
import {
  type ActionCall,
  type AuditEvent,
  actionText,
  isLongWait,
  isTerminal,
  parseTraceparent,
  type RunContext,
  type TraceContext,
} from "../../machines/index.js";
import { codeOf } from "../metrics/run-metrics.js";
import type { TraceContexts } from "./trace-source.js";

type Event = Pick<AuditEvent, "type" | "stepId" | "attempt" | "metadata" | "at">;
type Dispatched = Extract<NonNullable<RunContext["wait"]>, { kind: "dispatched" }>;

/** `internal`: neither of both sides of a call. */
export type SpanKind = "internal" | "server" | "client" | "producer" | "consumer";

/** A span that has ended. No member is made of a payload. */
export interface Span {
  readonly name: string;
  readonly kind: SpanKind;
  readonly context: TraceContext;
  readonly parent?: TraceContext;
  /** Epoch milliseconds, database time. */
  readonly from: number;
  readonly to: number;
  /** What went wrong, as a code. Absent: nothing did. */
  readonly error?: string;
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  readonly links: readonly TraceContext[];
}

export interface Change {
  readonly before: RunContext;
  readonly after: RunContext;
}

/** The spans that ended with a commit. */
export function spansOf(contexts: TraceContexts, events: readonly Event[], change: Change): readonly Span[] {
  const { before, after } = change;
  if (!contexts.isRecorded(after.run)) return [];
  const attempt = attemptSpan(contexts, events, before, after);
  const signals = signalSpans(contexts, events, before, after);
  const ends = isTerminal(after.state) && !isTerminal(before.state);
  return [...(attempt ? [attempt] : []), ...signals, ...(ends ? [runSpan(contexts, events, after)] : [])];
}

/** The run, from its start to its end. A request that started it is its parent; the run that started it is a link. */
function runSpan(contexts: TraceContexts, events: readonly Event[], { run, state }: RunContext): Span {
  const { startedAt, traceparent, linkedTrace, parentRunId, rootRunId, triggerId, dryRun } = run;
  const parent = linkedTrace === undefined ? parseTraceparent(traceparent) : undefined;
  const end = events.findLast(({ type }) => type.startsWith("run."));
  const code = end?.type === "run.failed" ? errorOf(end) : undefined;
  return {
    name: "saga.run",
    kind: parent ? "server" : "internal",
    context: contexts.contextOf(run),
    ...(parent && { parent }),
    ...{ from: startedAt, to: end?.at ?? startedAt },
    ...(code !== undefined && { error: code }),
    attributes: {
      ...runAttributes(run),
      "saga.run.state": state,
      ...(parentRunId && { "saga.run.parent_id": parentRunId }),
      ...(rootRunId && { "saga.run.root_id": rootRunId }),
      ...(triggerId && { "saga.trigger.id": triggerId }),
      ...(dryRun && { "saga.run.dry_run": true }),
    },
    links: linksTo(linkedTrace),
  };
}

/** An attempt that a worker had: from the commit that dispatched it to the one that took its answer, or its deadline. */
function attemptSpan(
  contexts: TraceContexts,
  events: readonly Event[],
  before: RunContext,
  after: RunContext,
): Span | undefined {
  const { wait, call, run } = before;
  if (wait?.kind !== "dispatched" || !call || isDispatchedAs(after, wait)) return undefined;
  const end = events.find(
    ({ type, stepId, attempt }) => ENDS.has(type) && stepId === call.stepId && attempt === wait.attempt,
  );
  if (!end || end.metadata?.handed_over === false) return undefined;
  const error = end.type === "step.failed" ? errorOf(end) : undefined;
  const isUndo = call.phase === "compensation";
  return {
    name: isUndo ? "saga.undo" : "saga.step",
    kind: call.transport === "rmq" ? "producer" : "client",
    context: contexts.attemptOf(before, wait.dispatchId),
    parent: contexts.presentOf(before),
    ...{ from: wait.at, to: end.at },
    ...(error !== undefined && { error }),
    attributes: { ...runAttributes(run), ...callAttributes(call, wait) },
    links: [...resumedFrom(contexts, before), ...linksTo(call.forwardTrace)],
  };
}

const ENDS: ReadonlySet<AuditEvent["type"]> = new Set(["step.succeeded", "step.failed"]);

function isDispatchedAs({ wait }: RunContext, { dispatchId }: Dispatched): boolean {
  return wait?.kind === "dispatched" && wait.dispatchId === dispatchId;
}

/**
 * Where a run goes on after a long wait, a trace of its own begins: one over days would be cut by most backends. A signal or a submit is linked from
 * the span of what it did: the run went on, or keeps the signal.
 */
function signalSpans(
  contexts: TraceContexts,
  events: readonly Event[],
  before: RunContext,
  after: RunContext,
): readonly Span[] {
  const { run, resumptions = 0 } = after;
  const { resumptions: first = 0, wait, step, entry } = before;
  const signals = events.filter(({ metadata }) => metadata?.kind === "signal");
  const at = events.at(-1)?.at ?? run.startedAt;
  const spans: Span[] = [];
  for (let nth = first + 1; nth <= resumptions; nth++) {
    const waited = nth === first + 1 && wait && isLongWait(wait) ? wait : undefined;
    const waitedSince = waited && "since" in waited && typeof waited.since === "number" ? waited.since : entry?.at;
    spans.push({
      ...{ name: "saga.resume", kind: "internal", from: at, to: at },
      context: contexts.presentOf({ run, resumptions: nth }),
      attributes: {
        ...runAttributes(run),
        ...(waited && step !== undefined && { "saga.step.id": step }),
        ...(waited && { "saga.wait.kind": waited.kind }),
        ...(waited && waitedSince !== undefined && { "saga.wait.seconds": Math.max(0, at - waitedSince) / 1_000 }),
      },
      links: [contexts.contextOf(run), ...(waited ? signals.flatMap(sendersOf) : [])],
    });
  }
  if (spans.length > 0) return spans;
  return signals
    .filter((signal) => sendersOf(signal).length > 0)
    .map((signal) => ({
      ...{ name: "saga.signal", kind: "consumer" as const, from: signal.at, to: signal.at },
      context: signalContext(contexts, before, signal),
      parent: contexts.presentOf(before),
      attributes: runAttributes(run),
      links: sendersOf(signal),
    }));
}

/** The id of a signal is a UUID, of which the second half is that of its span. */
function signalContext(contexts: TraceContexts, context: RunContext, { metadata }: Event): TraceContext {
  const digits = String(metadata?.signal_id).replaceAll("-", "");
  return { ...contexts.presentOf(context), spanId: digits.slice(16) };
}

function sendersOf({ metadata }: Event): readonly TraceContext[] {
  return linksTo(typeof metadata?.traceparent === "string" ? metadata.traceparent : undefined);
}

function linksTo(traceparent: string | undefined): readonly TraceContext[] {
  const context = parseTraceparent(traceparent);
  return context ? [context] : [];
}

/** The first trace of the run, where this is a later one. */
function resumedFrom(contexts: TraceContexts, { run, resumptions }: RunContext): readonly TraceContext[] {
  return resumptions === undefined ? [] : [contexts.contextOf(run)];
}

function runAttributes({ id, workflowId, version, tenantId }: RunContext["run"]): Span["attributes"] {
  return {
    "saga.run.id": id,
    "saga.workflow.id": workflowId,
    "saga.workflow.version": version,
    ...(tenantId !== undefined && { "saga.tenant.id": tenantId }),
  };
}

/** The host of a request of the service itself may be computed from a payload, so it is left out. */
function callAttributes(call: ActionCall, { attempt, queuedMs = 0 }: Dispatched): Span["attributes"] {
  const isRequest = call.transport === "request";
  return {
    "saga.step.id": call.stepId,
    "saga.step.attempt": attempt,
    "saga.step.queue_seconds": queuedMs / 1_000,
    "saga.action": actionText(call),
    ...(!isRequest && { "peer.service": call.service }),
    ...(call.childRunId && { "saga.run.child_id": call.childRunId }),
  };
}

/** Codes of a worker or an author may be made of a payload: those are one value. */
const errorOf = ({ metadata }: Event) => codeOf(metadata);
