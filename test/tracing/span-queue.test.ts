// The queue of spans: bounded, in batches, one request at a time; what is lost is counted, and no run waits for it.
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createMetrics, type Metrics } from "../../src/metrics/index.js";
import { otlpSender, tellWarnings } from "../../src/tracing/otlp.js";
import type { Span } from "../../src/tracing/run-spans.js";
import { type SendSpans, SpanQueue } from "../../src/tracing/span-queue.js";
import { Collector } from "./collector.js";

const LIMITS = { queued: 5, batch: 2, delayMs: 1_000 };
const context = { traceId: "1".repeat(32), spanId: "2".repeat(16), sampled: true };
const spans = (count: number): Span[] =>
  Array.from({ length: count }, (_, nth) => ({
    ...{ name: `span ${nth}`, kind: "internal" as const, context, from: nth, to: nth, attributes: {}, links: [] },
  }));

interface Request {
  readonly names: readonly string[];
  resolve(): void;
  reject(error: Error): void;
}

let metrics: Metrics;
let requests: Request[];
let warnings: object[];
let queue: SpanQueue;

beforeEach(() => {
  vi.useFakeTimers();
  metrics = createMetrics();
  [requests, warnings] = [[], []];
  const send: SendSpans = (sent) =>
    new Promise((resolve, reject) => requests.push({ names: sent.map(({ name }) => name), resolve, reject }));
  const log = { debug() {}, info() {}, error() {}, warn: (fields: object) => void warnings.push(fields) };
  queue = new SpanQueue({ limits: LIMITS, send, log: log as never, metrics });
});
afterEach(() => {
  vi.useRealTimers();
});

const turn = () => vi.advanceTimersByTimeAsync(0);

async function counted(): Promise<Record<string, number>> {
  const exported = await metrics.spansExported.get();
  const dropped = await metrics.spansDropped.get();
  const lost = dropped.values.flatMap(({ labels, value }) => (value > 0 ? [[labels.reason, value]] : []));
  return { exported: exported.values[0]?.value ?? 0, ...Object.fromEntries(lost) };
}

describe("a queue of spans", () => {
  it("sends what makes a batch at once, and the rest after the delay", async () => {
    queue.add(spans(1));
    expect(requests).toHaveLength(0);
    await vi.advanceTimersByTimeAsync(999);
    expect(requests).toHaveLength(0);
    await vi.advanceTimersByTimeAsync(1);
    expect(requests.map(({ names }) => names)).toEqual([["span 0"]]);
    requests[0]?.resolve();
    await turn();
    queue.add(spans(2));
    expect(requests.map(({ names }) => names)).toEqual([["span 0"], ["span 0", "span 1"]]);
    requests[1]?.resolve();
    await turn();
    expect(await counted()).toEqual({ exported: 3 });
  });

  it("has one request open, and drops and counts what does not fit meanwhile", async () => {
    queue.add(spans(2));
    queue.add(spans(4));
    queue.add(spans(4));
    expect(requests).toHaveLength(1);
    expect(await counted()).toEqual({ exported: 0, queue: 3 });
    for (let nth = 0; nth < 3; nth++) {
      requests[nth]?.resolve();
      await turn();
    }
    // One is left that makes no batch.
    expect(requests.map(({ names }) => names.length)).toEqual([2, 2, 2]);
    await vi.advanceTimersByTimeAsync(LIMITS.delayMs);
    expect(requests).toHaveLength(4);
    requests[3]?.resolve();
    await turn();
    expect(await counted()).toEqual({ exported: 7, queue: 3 });
  });

  it("drops and counts what the collector does not take, goes on, and logs it once a minute, without the answer", async () => {
    const refused = () => Object.assign(new Error("secret"), { name: "OTLPExporterError", code: 401, data: "secret" });
    for (let nth = 0; nth < 3; nth++) {
      queue.add(spans(2));
      requests[nth]?.reject(refused());
      await turn();
    }
    expect(await counted()).toEqual({ exported: 0, export: 6 });
    expect(warnings).toEqual([{ error: "OTLPExporterError", code: 401 }]);
    await vi.advanceTimersByTimeAsync(60_000);
    queue.add(spans(2));
    requests[3]?.reject(refused());
    await turn();
    expect(warnings).toHaveLength(2);
  });

  it("sends all that it has when it stops, and takes nothing more", async () => {
    queue.add(spans(1));
    const stopped = queue.stop(2_000);
    queue.add(spans(1));
    requests[0]?.resolve();
    await stopped;
    expect(requests.map(({ names }) => names)).toEqual([["span 0"]]);
    expect(await counted()).toEqual({ exported: 1, queue: 1 });
  });

  it("waits no longer than it may for a collector that hangs", async () => {
    queue.add(spans(5));
    const stopped = queue.stop(2_000);
    await vi.advanceTimersByTimeAsync(2_000);
    await stopped;
    expect(await counted()).toEqual({ exported: 0, stop: 3 });
  });
});

it("a collector that takes a request and rejects some of its spans is heard", async () => {
  vi.useRealTimers();
  const collector = await Collector.open();
  // partial_success: rejected_spans 2, error_message "full".
  collector.answer = Buffer.from("0a080802120466756c6c", "hex");
  const said: object[] = [];
  tellWarnings({ debug() {}, info() {}, error() {}, warn: (fields: object) => void said.push(fields) } as never);
  try {
    const config = { url: `${collector.url}/v1/traces`, headers: {}, resource: {} };
    await otlpSender(config as never, {})(spans(3));
    expect(JSON.stringify(said)).toMatch(/rejectedSpans.*2.*full/);
  } finally {
    await collector.close();
  }
});
