// Traces of runs, without a tracer in the hot path: spans are made of what is committed anyway, and exported over OTLP by the node that committed.
// Where there is no collector, none of this is loaded.
import { hostname } from "node:os";
import type { CommittedEvent, RunContext } from "../../machines/index.js";
import type { TracingConfig } from "../config/index.js";
import type { Logger } from "../log.js";
import type { Metrics } from "../metrics/index.js";
import { spansOf } from "./run-spans.js";
import { SpanQueue } from "./span-queue.js";
import { TraceContexts } from "./trace-source.js";

/** How long a node that stops tries to send what it has. */
const STOP_GRACE_MS = 2_000;

export interface Tracing {
  /** For decisions: the trace contexts of workers, children and undos. */
  readonly contexts: TraceContexts;
  onCommit(
    events: readonly CommittedEvent[],
    change: { readonly before: RunContext; readonly after: RunContext },
  ): void;
  stop(): Promise<void>;
}

export interface TracingOptions {
  readonly nodeId: string;
  readonly log: Logger;
  readonly metrics: Metrics;
}

/** Undefined: there are no traces. */
export async function openTracing(
  config: TracingConfig | undefined,
  { nodeId, log, metrics }: TracingOptions,
): Promise<Tracing | undefined> {
  if (config === undefined) return undefined;
  const { otlpSender, samplerOf, tellWarnings } = await import("./otlp.js");
  tellWarnings(log);
  const node = { "service.instance.id": nodeId, "host.name": hostname(), "process.pid": String(process.pid) };
  const contexts = new TraceContexts(samplerOf(config.sampler));
  const queue = new SpanQueue({ limits: config.queue, send: otlpSender(config, node), log, metrics });
  return {
    contexts,
    onCommit(events, change) {
      const spans = spansOf(contexts, events, change);
      if (spans.length > 0) queue.add(spans);
    },
    stop: () => queue.stop(STOP_GRACE_MS),
  };
}
