// The queue of ended spans: it takes what commits hand over, and sends it in batches, one at a time. It is bounded: what does not fit, or cannot
// be sent, is dropped and counted, and no run waits for it.
import { clearTimeout, performance, setTimeout } from "../ambient.js";
import type { Log } from "../log.js";
import type { Metrics } from "../metrics/index.js";
import type { Span } from "./run-spans.js";

export interface QueueLimits {
  /** Spans that wait (`OTEL_BSP_MAX_QUEUE_SIZE`). */
  readonly queued: number;
  /** Spans in one request (`OTEL_BSP_MAX_EXPORT_BATCH_SIZE`). */
  readonly batch: number;
  /** How long a span waits for others (`OTEL_BSP_SCHEDULE_DELAY`), in milliseconds. */
  readonly delayMs: number;
}

/** Sends spans. Throws where they were not taken, after tries of its own. */
export type SendSpans = (spans: readonly Span[]) => Promise<void>;

export interface QueueOptions {
  readonly limits: QueueLimits;
  readonly send: SendSpans;
  readonly log: Log;
  readonly metrics: Pick<Metrics, "spansExported" | "spansDropped">;
}

/** Failures of a collector that is away are not logged more often than this. */
const QUIET_MS = 60_000;

export class SpanQueue {
  private spans: Span[] = [];
  private timer: NodeJS.Timeout | undefined;
  private sending: Promise<void> | undefined;
  private loggedAt = Number.NEGATIVE_INFINITY;
  private stopped = false;

  constructor(private readonly options: QueueOptions) {}

  add(spans: readonly Span[]): void {
    const { queued, batch, delayMs } = this.options.limits;
    const room = this.stopped ? 0 : Math.max(0, queued - this.spans.length);
    if (spans.length > room) this.options.metrics.spansDropped.inc({ reason: "queue" }, spans.length - room);
    for (const span of spans.slice(0, room)) this.spans.push(span);
    if (this.sending || this.spans.length === 0) return;
    if (this.spans.length >= batch) this.flush();
    else this.timer ??= setTimeout(() => this.flush(), delayMs).unref();
  }

  /** Sends what waits, for as long as it may take, and drops the rest. Nothing is taken any more. */
  async stop(graceMs: number): Promise<void> {
    this.stopped = true;
    this.flush();
    let timer: NodeJS.Timeout | undefined;
    const timeUp = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, graceMs);
    });
    await Promise.race([this.sending, timeUp]);
    clearTimeout(timer);
    this.drop(this.spans.splice(0).length, "stop");
  }

  private flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    if (this.spans.length > 0) this.sending ??= this.sendAll();
  }

  /** Batch after batch, until fewer wait than make one. When the node stops, until none waits. */
  private async sendAll(): Promise<void> {
    const { limits, send, metrics } = this.options;
    do {
      const batch = this.spans.splice(0, limits.batch);
      try {
        await send(batch);
        metrics.spansExported.inc(batch.length);
      } catch (error) {
        this.drop(batch.length, "export");
        this.logFailure(error);
      }
    } while (this.spans.length >= limits.batch || (this.stopped && this.spans.length > 0));
    this.sending = undefined;
    if (this.spans.length > 0) this.timer ??= setTimeout(() => this.flush(), limits.delayMs).unref();
  }

  private drop(count: number, reason: "export" | "stop"): void {
    if (count > 0) this.options.metrics.spansDropped.inc({ reason }, count);
  }

  /** The error of a collector may hold what it was sent: its name and code are enough. */
  private logFailure(error: unknown): void {
    const now = performance.now();
    if (now - this.loggedAt < QUIET_MS) return;
    this.loggedAt = now;
    const { name, code } = error as Error & { readonly code?: unknown };
    this.options.log.warn(
      { error: name, code },
      "spans not exported: the collector of OTEL_EXPORTER_OTLP_ENDPOINT took none",
    );
  }
}
