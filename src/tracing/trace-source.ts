// The trace contexts of runs and attempts, derived from their ids: each node that takes a part in a run finds the same ones, and nothing is
// stored for them. Spans are made of them later, when their ends are committed (run-spans.ts).
import {
  type DispatchId,
  parseTraceparent,
  type RunContext,
  type RunId,
  type RunIdentity,
  type TraceContext,
  type TraceSource,
  traceparentOf,
  WeightedCache,
} from "../../machines/index.js";
import { derivedUuid } from "../ids.js";

/** Whether the spans of a trace are recorded. `parent`: whether the caller records it. */
export type Sampler = (traceId: string, parent?: boolean) => boolean;

const NO_SPAN = "0".repeat(16);
/** Runs whose contexts are kept: those that go on at the same time ask for them at each step, sampled or not. */
const KEPT_RUNS = 8_192;

export class TraceContexts implements TraceSource {
  private readonly known = new WeightedCache<RunId, TraceContext>(KEPT_RUNS);
  /** Of the run that was asked for last: what follows a commit asks several times. */
  private last: { readonly run: RunIdentity; readonly context: TraceContext } | undefined;

  constructor(private readonly sampler: Sampler) {}

  isRecorded(run: RunIdentity): boolean {
    return this.contextOf(run).sampled;
  }

  private samples(run: RunIdentity): boolean {
    if (spanOf(run.id) === NO_SPAN) return false;
    if (run.linkedTrace !== undefined) return parseTraceparent(run.linkedTrace)?.sampled === true;
    const caller = parseTraceparent(run.traceparent);
    if (caller) return this.sampler(caller.traceId, caller.sampled);
    // The run above is not recorded, or was started before anything was.
    return run.parentRunId === undefined && this.sampler(idOf(run.id));
  }

  /** Of the span of the run as a whole. */
  contextOf(run: RunIdentity): TraceContext {
    if (this.last?.run === run) return this.last.context;
    const context = this.known.get(run.id) ?? this.derive(run);
    this.last = { run, context };
    return context;
  }

  private derive(run: RunIdentity): TraceContext {
    const context = { traceId: firstTraceOf(run), spanId: spanOf(run.id), sampled: this.samples(run) };
    this.known.set(run.id, context, 1);
    return context;
  }

  /** Of what the run does now: the parent of its attempts. After a long wait it is in a new trace. */
  presentOf({ run, resumptions = 0 }: Pick<RunContext, "run" | "resumptions">): TraceContext {
    const first = this.contextOf(run);
    if (resumptions === 0) return first;
    const resumed = derivedUuid(`resumed:${run.id}:${resumptions}`);
    return { traceId: idOf(resumed), spanId: spanOf(resumed), sampled: first.sampled };
  }

  attemptOf(context: Pick<RunContext, "run" | "resumptions">, dispatchId: DispatchId): TraceContext {
    // Written out: on Node 20 a member that is added to a spread costs 2 µs, and each attempt asks three times.
    const { traceId, sampled } = this.presentOf(context);
    return { traceId, spanId: spanOf(dispatchId), sampled };
  }

  attempt(context: RunContext, dispatchId: DispatchId): string {
    return traceparentOf(this.attemptOf(context, dispatchId));
  }

  run(run: RunIdentity): string | undefined {
    const context = this.contextOf(run);
    return context.sampled ? traceparentOf(context) : undefined;
  }
}

/** The trace of a request that started the run, or else the run's own: its id without the hyphens. */
function firstTraceOf({ id, traceparent, linkedTrace }: RunIdentity): string {
  const caller = linkedTrace === undefined ? parseTraceparent(traceparent) : undefined;
  return caller?.traceId ?? idOf(id);
}

const idOf = (uuid: string) => uuid.replaceAll("-", "");

/** The second half of a UUID: the first half of a run's id is mostly the time. */
const spanOf = (uuid: string) => uuid.slice(19, 23) + uuid.slice(24);
