// One watcher's position in a run's audit log: it delivers the next events in order, and reads gaps from the database. It knows
// neither sockets nor notifications.
import type { RunId } from "../../machines/index.js";
import type { EventItem } from "../store/lists/history.js";

/** Where a watcher's events go. */
export interface Sink {
  event(event: EventItem): void;
  /** Everything up to `seq` was delivered, or is gone from the store. */
  reached?(seq: number): void;
  /** Resolves when there is room for another batch. */
  drained?(): Promise<void>;
  /** There is no such run any more, and nothing more is delivered. */
  gone?(): void;
  /** Reading the database failed. The next offer, hint or poll tries again. */
  failed?(error: unknown): void;
}

export type ReadAfter = (runId: RunId, seq: number) => Promise<readonly EventItem[]>;

export class Watcher {
  /** Everything up to here was delivered. Only grows: by one event at a time, or over events that retention deleted. */
  private position: number;
  /** The run is known to have events up to here. */
  private head: number;
  /** The run may have events beyond `head`. */
  private unsure = false;
  private reading = false;
  private stopped = false;

  constructor(
    readonly runId: RunId,
    afterSeq: number,
    private readonly sink: Sink,
    private readonly readAfter: ReadAfter,
  ) {
    this.position = afterSeq;
    this.head = afterSeq;
  }

  /** Delivers the events that come next. The others only say how far the run has come. */
  offer(events: readonly EventItem[]): void {
    for (const event of events) {
      if (this.stopped) return;
      if (!this.reading && event.seq === this.position + 1) this.deliver(event);
      else this.head = Math.max(this.head, event.seq);
    }
    this.catchUp();
  }

  /** The run has events up to `seq`. */
  advanceTo(seq: number): void {
    this.head = Math.max(this.head, seq);
    this.catchUp();
  }

  /** Events may have been missed. */
  refresh(): void {
    this.unsure = true;
    this.catchUp();
  }

  gone(): void {
    if (this.stopped) return;
    this.stopped = true;
    this.sink.gone?.();
  }

  stop(): void {
    this.stopped = true;
  }

  private deliver(event: EventItem): void {
    this.position = event.seq;
    this.head = Math.max(this.head, event.seq);
    this.sink.event(event);
  }

  private catchUp(): void {
    if (this.reading || this.stopped || !this.isBehind()) return;
    this.reading = true;
    this.read().catch((error: unknown) => {
      // Reset, so that the next offer, hint or poll starts again.
      this.reading = false;
      this.head = this.position;
      if (!this.stopped) this.sink.failed?.(error);
    });
  }

  private isBehind(): boolean {
    return this.unsure || this.head > this.position;
  }

  private async read(): Promise<void> {
    while (!this.stopped && this.isBehind()) {
      const { head, unsure } = this;
      this.unsure = false;
      const batch = await this.readAfter(this.runId, this.position);
      for (const event of batch) if (!this.stopped) this.deliver(event);
      // Hints come after the commit: events that are not in the database were deleted by retention.
      if (batch.length === 0) this.position = Math.max(this.position, head);
      else if (unsure) this.unsure = true;
      await this.sink.drained?.();
    }
    this.reading = false;
    if (!this.stopped) this.sink.reached?.(this.position);
  }
}
