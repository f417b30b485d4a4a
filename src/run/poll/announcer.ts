// The announcer: notifies the runs that wait for an event that it was published. The event's row owes this until it is done, so
// a node that dies halfway leaves the rest to another. Each run decides for itself whether it takes the event.
import type { Sql } from "postgres";
import type { RunId, Send } from "../../../machines/index.js";
import type { Logger } from "../../log.js";
import {
  announceTo,
  type DueEvent,
  leaseDueEvents,
  leaseEvents,
  markAnnounced,
  type Notice,
} from "../../store/announcements.js";

/** Events taken in one statement. */
const BATCH = 100;
/** Events announced at once; each uses a session of the pool for a moment. */
const CONCURRENCY = 4;
/** Event ids waiting in memory. One more is dropped, and found again by the poll. */
const QUEUE_LIMIT = 10_000;

/** Gets every event at least once, by its id, after the waiting runs. If it throws, the event stays due and is announced again. */
export type EventListener = (event: Pick<DueEvent, "id" | "topic" | "headers">) => Promise<void>;

export interface AnnouncerOptions {
  readonly sql: Sql;
  readonly log: Logger;
  readonly listeners?: readonly EventListener[];
  /** Carries out effects for a run: here if this node owns it, otherwise by a hint to the owner. */
  readonly afterCommit: (runId: RunId, effects: readonly Send[]) => void;
  /** Milliseconds between two polls. */
  readonly intervalMs?: number;
  /** False: events are announced by the poll alone. A test's switch. */
  readonly hints?: boolean;
}

export class Announcer {
  private readonly waiting = new Set<string>();
  private timer: NodeJS.Timeout | undefined;
  private working: Promise<void> | undefined;
  private started = false;
  private stopped = false;

  constructor(private readonly options: AnnouncerOptions) {}

  /** An event was committed here. Never throws and never waits. If the call is lost, the poll finds the event. */
  announce(eventId: string): void {
    if (this.options.hints === false || this.stopped || this.waiting.size >= QUEUE_LIMIT) return;
    this.waiting.add(eventId);
    void this.work();
  }

  /** Polls for due events, on whichever node they were published. */
  start(): void {
    this.started = true;
    this.schedule();
  }

  /** Finishes the events in progress. Those that wait become due again by themselves. */
  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    this.waiting.clear();
    await this.working;
  }

  /** Polls until nothing is due. For tests, which do not wait for the timer. */
  async tick(): Promise<void> {
    await this.guarded(async () => {
      const { sql } = this.options;
      for (let more = true; more && !this.stopped; ) {
        const due = await leaseDueEvents(sql, BATCH);
        await this.announceAll(due);
        more = due.length === BATCH;
      }
    });
  }

  private schedule(): void {
    if (this.stopped || !this.started) return;
    this.timer = setTimeout(async () => {
      await this.work(true);
      this.schedule();
    }, this.options.intervalMs ?? 500);
  }

  /** Announces the events known from memory, and with `poll` also those that are due. One such pass at a time. */
  private async work(poll = false): Promise<void> {
    while (this.working) {
      if (!poll) return;
      await this.working;
    }
    this.working = this.guarded(() => this.announceWaiting()).then(() => (poll ? this.tick() : undefined));
    await this.working;
    this.working = undefined;
    if (this.waiting.size > 0) void this.work();
  }

  private async announceWaiting(): Promise<void> {
    while (this.waiting.size > 0) {
      const ids = [...this.waiting].slice(0, BATCH);
      for (const id of ids) this.waiting.delete(id);
      await this.announceAll(await leaseEvents(this.options.sql, ids));
    }
  }

  /** Oldest first: a run that waits for several events gets them in their order, unless one of them fails. */
  private async announceAll(due: readonly DueEvent[]): Promise<void> {
    const left = [...due];
    const done: string[] = [];
    const announceNext = async () => {
      for (let event = left.shift(); event; event = left.shift())
        if (await this.announceOne(event)) done.push(event.id);
    };
    await Promise.all(Array.from({ length: Math.min(CONCURRENCY, due.length) }, announceNext));
    if (done.length > 0) await markAnnounced(this.options.sql, done);
  }

  /** Whether nothing is owed for the event any more. */
  private async announceOne(event: DueEvent): Promise<boolean> {
    try {
      return await this.notifyAll(event);
    } catch (error) {
      this.options.log.warn({ err: error, eventId: event.id }, "event not announced completely, it is due again");
      return false;
    }
  }

  /** All waiting runs, in batches, then the listeners. False: stopped halfway, or another node continues. */
  private async notifyAll(event: DueEvent): Promise<boolean> {
    const { sql, listeners = [] } = this.options;
    for (let rest: DueEvent | undefined = event; rest; ) {
      const { notices, event: next, complete } = await announceTo(sql, rest);
      for (const notice of notices) this.deliver(event.id, notice);
      if (complete) {
        for (const listener of listeners) await listener(event);
        return true;
      }
      rest = this.stopped ? undefined : next;
    }
    return false;
  }

  private deliver(eventId: string, { id, runId }: Notice): void {
    const command = { type: "event", eventId } as const;
    this.options.afterCommit(runId, [{ kind: "command", to: runId, id, command }]);
  }

  private guarded(work: () => Promise<void>): Promise<void> {
    return work().catch((error) => {
      this.options.log.warn({ err: error }, "announcing events failed, retrying at the next interval");
    });
  }
}
