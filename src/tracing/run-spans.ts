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
type Wait = NonNullable<RunContext["wait"]>;
type Dispatched = Extract<Wait, { kind: "dispatched" }>;

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
  const attempt = attemptSpan(contexts, events, change);
  const resumed = resumeSpans(contexts, events, change);
  // A signal that has made the run go on is linked from there.
  const kept = resumed.length > 0 ? [] : keptSignalSpans(contexts, events, before);
  const ends = isTerminal(after.state) && !isTerminal(before.state);
  return [...(attempt ? [attempt] : []), ...resumed, ...kept, ...(ends ? [runSpan(contexts, events, after)] : [])];
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
function attemptSpan(contexts: TraceContexts, events: readonly Event[], { before, after }: Change): Span | undefined {
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
 * A run that goes on after a long wait begins a trace of its own, because most backends cut one that lasts for days. A commit ends one wait, or several of
 * which it has begun all but the first itself.
 */
function resumeSpans(contexts: TraceContexts, events: readonly Event[], { before, after }: Change): readonly Span[] {
  const { resumptions: known = 0, wait } = before;
  const { run, resumptions = 0 } = after;
  const at = events.at(-1)?.at ?? run.startedAt;
  return Array.from({ length: Math.max(0, resumptions - known) }, (_, nth) => {
    const waited = nth === 0 && wait && isLongWait(wait) ? wait : undefined;
    return {
      ...{ name: "saga.resume", kind: "internal", from: at, to: at },
      context: contexts.presentOf({ run, resumptions: known + nth + 1 }),
      attributes: { ...runAttributes(run), ...(waited && waitAttributes(before, waited, at)) },
      links: [contexts.contextOf(run), ...(waited ? events.flatMap(sendersOf) : [])],
    };
  });
}

function waitAttributes({ step = "", entry }: RunContext, wait: Wait, endedAt: number): Span["attributes"] {
  const since = "since" in wait && typeof wait.since === "number" ? wait.since : entry?.at;
  return {
    "saga.step.id": step,
    "saga.wait.kind": wait.kind,
    ...(since !== undefined && { "saga.wait.seconds": Math.max(0, endedAt - since) / 1_000 }),
  };
}

/** Signals with a sender that no step has taken at once. */
function keptSignalSpans(contexts: TraceContexts, events: readonly Event[], before: RunContext): readonly Span[] {
  return events
    .filter((event) => sendersOf(event).length > 0)
    .map((signal) => ({
      ...{ name: "saga.signal", kind: "consumer", from: signal.at, to: signal.at },
      context: signalContext(contexts, before, signal),
      parent: contexts.presentOf(before),
      attributes: runAttributes(before.run),
      links: sendersOf(signal),
    }));
}

/** The id of a signal is a UUID, of which the second half is that of its span. */
function signalContext(contexts: TraceContexts, context: RunContext, { metadata }: Event): TraceContext {
  const digits = String(metadata?.signal_id).replaceAll("-", "");
  return { ...contexts.presentOf(context), spanId: digits.slice(16) };
}

/** Of a signal, or of a submit, which is one. */
function sendersOf({ metadata }: Event): readonly TraceContext[] {
  if (metadata?.kind !== "signal") return [];
  return linksTo(typeof metadata.traceparent === "string" ? metadata.traceparent : undefined);
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
