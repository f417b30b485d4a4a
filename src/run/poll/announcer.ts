// The announcer: tells those that wait for an event that it was published. That is owed by the event's row until it is done, so
// a node that dies on the way leaves it to any other. It does not decide who takes an event: each run does, when it is told.
import type { Sql } from "postgres";
import type { Effect } from "../../machines/index.js";
import type { Logger } from "../log.js";
import { announced, announceTo, type DueEvent, type Told, takeDueEvents, takeEvents } from "../store/announcements.js";

/** Events taken in one look. */
const BITE = 100;
/** Events announced at once: each holds a session of the pool for a moment. */
const AT_ONCE = 4;
/** Ids known from memory that wait; one more is dropped, and the poll brings it back. */
const MOST_WAITING = 10_000;

/**
 * Is told of every event, at least once and by its id, after the runs that wait. A throw leaves the event due: it is announced
 * again, to the listeners too.
 */
export type EventListener = (event: Pick<DueEvent, "id" | "topic" | "headers">) => Promise<void>;

export interface AnnouncerOptions {
  readonly sql: Sql;
  readonly log: Logger;
  readonly listeners?: readonly EventListener[];
  /** Lets out what is owed to a run: here if it lives here, else by a hint to its owner. */
  readonly released: (runId: string, effects: readonly Effect[]) => void;
  /** Milliseconds between two looks at what is due. */
  readonly intervalMs?: number;
  /** Hints may all be lost: off, events are announced by the poll alone. A test's switch. */
  readonly hints?: boolean;
}

export class Announcer {
  private readonly waiting = new Set<string>();
  private timer: NodeJS.Timeout | undefined;
  private working: Promise<void> | undefined;
  private started = false;
  private stopped = false;

  constructor(private readonly options: AnnouncerOptions) {}

  /** An event was committed here. Never throws and never waits; if it is lost, the poll makes good for it. */
  announce(eventId: string): void {
    if (this.options.hints === false || this.stopped || this.waiting.size >= MOST_WAITING) return;
    this.waiting.add(eventId);
    void this.work();
  }

  /** Looks for what is due, on whichever node it was published. */
  start(): void {
    this.started = true;
    this.arm();
  }

  /** Finishes what is in hand; what waits is due again by itself. */
  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    this.waiting.clear();
    await this.working;
  }

  /** One look at what is due, until nothing is. For whoever cannot wait for the timer. */
  async tick(): Promise<void> {
    await this.guarded(async () => {
      const { sql } = this.options;
      for (let more = true; more && !this.stopped; ) {
        const due = await takeDueEvents(sql, BITE);
        await this.announceAll(due);
        more = due.length === BITE;
      }
    });
  }

  private arm(): void {
    if (this.stopped || !this.started) return;
    this.timer = setTimeout(async () => {
      await this.work(true);
      this.arm();
    }, this.options.intervalMs ?? 500);
  }

  /** What is known from memory, and with `poll` what is due. One at a time. */
  private async work(poll = false): Promise<void> {
    while (this.working) {
      if (!poll) return;
      await this.working;
    }
    this.working = this.guarded(() => this.known()).then(() => (poll ? this.tick() : undefined));
    await this.working;
    this.working = undefined;
    if (this.waiting.size > 0) void this.work();
  }

  private async known(): Promise<void> {
    while (this.waiting.size > 0) {
      const ids = [...this.waiting].slice(0, BITE);
      for (const id of ids) this.waiting.delete(id);
      await this.announceAll(await takeEvents(this.options.sql, ids));
    }
  }

  /** Oldest first: who waits for several takes them in their order, where nothing stands in the way. */
  private async announceAll(due: readonly DueEvent[]): Promise<void> {
    const left = [...due];
    const done: string[] = [];
    const one = async () => {
      for (let event = left.shift(); event; event = left.shift()) if (await this.tellAll(event)) done.push(event.id);
    };
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, due.length) }, one));
    if (done.length > 0) await announced(this.options.sql, done);
  }

  /** Whether nothing is owed for the event any more. */
  private async tellAll(event: DueEvent): Promise<boolean> {
    const { sql, log, listeners = [] } = this.options;
    try {
      for (let rest: DueEvent | undefined = event; rest; ) {
        const { told, event: next, over } = await announceTo(sql, rest);
        for (const one of told) this.deliver(event.id, one);
        if (over) {
          for (const listener of listeners) await listener(event);
          return true;
        }
        rest = this.stopped ? undefined : next;
      }
    } catch (error) {
      log.warn({ err: error, eventId: event.id }, "an event was not announced to everybody; it is due again");
    }
    return false;
  }

  private deliver(eventId: string, { id, runId }: Told): void {
    const command = { type: "event", eventId } as const;
    this.options.released(runId, [{ kind: "send", to: runId, id, command }]);
  }

  private guarded(work: () => Promise<void>): Promise<void> {
    return work().catch((error) => {
      this.options.log.warn({ err: error }, "announcing failed; the next look makes good for it");
    });
  }
}
