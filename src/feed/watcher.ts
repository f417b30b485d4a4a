// One watcher's place in a run's audit log: hands on what comes next, reads gaps from the database. It knows neither sockets
// nor notifications.
import type { EventItem } from "../store/history.js";

/** Where a watcher's events go. */
export interface Sink {
  event(event: EventItem): void;
  /** Everything up to `seq` was handed over, or is gone from the store. */
  reached?(seq: number): void;
  /** Resolves when there is room for another batch. */
  drained?(): Promise<void>;
  /** The database could not be read. The watcher goes on at the next look. */
  failed?(error: unknown): void;
}

export type ReadAfter = (runId: string, seq: number) => Promise<readonly EventItem[]>;

export class Watcher {
  /** Everything up to here was handed over. Only grows, by one event at a time or over what retention took. */
  private place: number;
  /** How far the run is known to have come. */
  private head: number;
  /** Nobody knows how far it has come. */
  private unsure = false;
  private reading = false;
  private stopped = false;

  constructor(
    readonly runId: string,
    afterSeq: number,
    private readonly sink: Sink,
    private readonly readAfter: ReadAfter,
  ) {
    this.place = afterSeq;
    this.head = afterSeq;
  }

  offer(events: readonly EventItem[]): void {
    for (const event of events) {
      if (this.stopped) return;
      if (!this.reading && event.seq === this.place + 1) this.hand(event);
      else this.head = Math.max(this.head, event.seq);
    }
    this.catchUp();
  }

  /** The run has come this far, as somebody said. */
  note(seq: number): void {
    this.head = Math.max(this.head, seq);
    this.catchUp();
  }

  /** Nobody knows what was missed: look. */
  look(): void {
    this.unsure = true;
    this.catchUp();
  }

  stop(): void {
    this.stopped = true;
  }

  private hand(event: EventItem): void {
    this.place = event.seq;
    this.head = Math.max(this.head, event.seq);
    this.sink.event(event);
  }

  private catchUp(): void {
    if (this.reading || this.stopped || !this.behind()) return;
    this.reading = true;
    this.read().catch((error: unknown) => {
      // Forgets what it knows: the next offer, note or poll starts again.
      this.reading = false;
      this.head = this.place;
      if (!this.stopped) this.sink.failed?.(error);
    });
  }

  private behind(): boolean {
    return this.unsure || this.head > this.place;
  }

  private async read(): Promise<void> {
    while (!this.stopped && this.behind()) {
      const { head, unsure } = this;
      this.unsure = false;
      const batch = await this.readAfter(this.runId, this.place);
      for (const event of batch) if (!this.stopped) this.hand(event);
      // Rows are committed before anyone hears of them: what is not there now was taken by retention.
      if (batch.length === 0) this.place = Math.max(this.place, head);
      else if (unsure) this.unsure = true;
      await this.sink.drained?.();
    }
    this.reading = false;
    if (!this.stopped) this.sink.reached?.(this.place);
  }
}
