// OTLP over HTTP: spans as OpenTelemetry's exporter sends them, with its tries, its compression and its settings. Imported only where spans are
// exported.
import {
  DiagLogLevel,
  diag,
  type HrTime,
  SpanKind as Kind,
  ROOT_CONTEXT,
  type SpanContext,
  SpanStatusCode,
  TraceFlags,
} from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { type Resource, resourceFromAttributes } from "@opentelemetry/resources";
import { type ReadableSpan, SamplingDecision, TraceIdRatioBasedSampler } from "@opentelemetry/sdk-trace";
import type { TraceContext } from "../../machines/index.js";
import type { TracingConfig } from "../config/index.js";
import type { Log } from "../log.js";
import type { Span, SpanKind } from "./run-spans.js";
import type { SendSpans } from "./span-queue.js";
import type { Sampler } from "./trace-source.js";

/** What the exporter has to say of an export that succeeded: that the collector has rejected some of the spans, and why. It says the rest by its errors. */
export function tellWarnings(log: Log): void {
  const silent = () => {};
  const warn = (message: string, ...details: unknown[]) => log.warn({ details }, `spans: ${message}`);
  diag.setLogger({ error: silent, info: silent, debug: silent, verbose: silent, warn }, DiagLogLevel.WARN);
}

/** The sampling of OpenTelemetry's SDKs: another service with the same ratio records the same traces. */
export function samplerOf({ ratio, followsCaller }: TracingConfig["sampler"]): Sampler {
  const sampler = new TraceIdRatioBasedSampler(ratio);
  return (traceId, parent) => {
    if (parent !== undefined && followsCaller) return parent;
    return sampler.shouldSample(ROOT_CONTEXT, traceId).decision === SamplingDecision.RECORD_AND_SAMPLED;
  };
}

/** `node`: what tells this node from the others. */
export function otlpSender(
  { url, headers, resource }: TracingConfig,
  node: Readonly<Record<string, string>>,
): SendSpans {
  const exporter = new OTLPTraceExporter({ url, headers: { ...headers } });
  const described = resourceFromAttributes({ ...node, ...resource });
  return (spans) =>
    new Promise((resolve, reject) => {
      const readable = spans.map((span) => readableSpan(span, described));
      exporter.export(readable, ({ error, code }) =>
        code === 0 ? resolve() : reject(error ?? new Error("not exported")),
      );
    });
}

const KINDS: Readonly<Record<SpanKind, Kind>> = {
  internal: Kind.INTERNAL,
  server: Kind.SERVER,
  client: Kind.CLIENT,
  producer: Kind.PRODUCER,
  consumer: Kind.CONSUMER,
};

function readableSpan(span: Span, resource: Resource): ReadableSpan {
  const { name, kind, context, parent, from, to, error, attributes, links } = span;
  const end = Math.max(from, to);
  return {
    ...{ name, kind: KINDS[kind], resource },
    spanContext: () => spanContext(context),
    ...(parent && { parentSpanContext: spanContext(parent) }),
    ...{ startTime: hrTime(from), endTime: hrTime(end), duration: hrTime(end - from), ended: true },
    status: error === undefined ? { code: SpanStatusCode.UNSET } : { code: SpanStatusCode.ERROR, message: error },
    attributes: error === undefined ? attributes : { ...attributes, "error.type": error },
    links: links.map((link) => ({ context: spanContext(link) })),
    events: [],
    instrumentationScope: { name: "saga" },
    ...{ droppedAttributesCount: 0, droppedEventsCount: 0, droppedLinksCount: 0 },
  };
}

function spanContext({ traceId, spanId, sampled }: TraceContext): SpanContext {
  return { traceId, spanId, traceFlags: sampled ? TraceFlags.SAMPLED : TraceFlags.NONE };
}

function hrTime(ms: number): HrTime {
  const seconds = Math.floor(ms / 1_000);
  return [seconds, Math.round((ms - seconds * 1_000) * 1e6)];
}
