// Events that runs may wait for. The intake publishes an event from outside, once under its key. The announcer notifies the runs that wait for a
// published event; the event's row owes this until it is done, so a node that dies halfway leaves the rest to another. Each run decides for itself
// whether it takes the event. What may be in an event is checked by those who read it.
import type { Sql } from "postgres";
import type { Json, RunId, Send } from "../../machines/index.js";
import { requestHash, uuidv7 } from "../ids.js";
import type { Logger } from "../log.js";
import {
  announceTo,
  type DueEvent,
  leaseAgain,
  leaseDueEvents,
  leaseEvents,
  markAnnounced,
  type Notice,
} from "../store/engine/announcements.js";
import { publishEvent } from "../store/engine/events.js";
import { WorkLoop } from "../work/loop.js";
import { Semaphore } from "../work/semaphore.js";

const INTERVAL_MS = 500;
/** Events taken in one statement. */
const BATCH = 100;
/** Events announced at once; each uses a session of the pool for a moment. */
const CONCURRENCY = 4;
/** Event ids waiting in memory. One more is dropped, and found again by the poll. */
const QUEUE_LIMIT = 10_000;

/**
 * Gets every event at least once, by its id, after the waiting runs. Whether it has written anything. If it throws, the event stays due and is announced
 * again.
 */
export type EventListener = (event: Pick<DueEvent, "id" | "topic" | "headers">) => Promise<boolean>;

export interface AnnouncerOptions {
  readonly sql: Sql;
  readonly log: Logger;
  readonly listeners?: readonly EventListener[];
  /** Carries out effects for a run: here if this node owns it, otherwise by a hint to the owner. */
  readonly afterCommit: (runId: RunId, effects: readonly Send[]) => void;
  /** Milliseconds between two polls. */
  readonly intervalMs?: number;
  /** An event of no tenant is for runs of no tenant only. Absent: it is for every run. */
  readonly tenantsApart?: boolean;
  /** False: events are announced by the poll alone. A test's switch. */
  readonly hints?: boolean;
}

/** Notifies the runs that wait for an event. Never throws and never waits. */
export interface EventAnnouncer {
  /** The event was committed. A repeat changes nothing. */
  announce(eventId: string): void;
}

export class Announcer implements EventAnnouncer {
  private readonly loop: WorkLoop<string>;

  constructor(private readonly options: AnnouncerOptions) {
    const { sql, log, intervalMs: pauseMs = INTERVAL_MS } = options;
    this.loop = new WorkLoop({
      ...{ what: "events", log },
      polls: {
        pauseMs,
        round: async () => {
          const due = await leaseDueEvents(sql, BATCH);
          await this.announceAll(due);
          return due.length === BATCH;
        },
      },
      hints: {
        ...{ batch: BATCH, most: QUEUE_LIMIT },
        round: async (ids) => this.announceAll(await leaseEvents(sql, ids)),
      },
    });
  }

  /** An event was committed here. Never throws and never waits. If the call is lost, the poll finds the event. */
  announce(eventId: string): void {
    if (this.options.hints !== false) this.loop.hint(eventId);
  }

  /** Polls for due events, on whichever node they were published. */
  start(): void {
    this.loop.start();
  }

  /** Finishes the events in progress. Those that wait become due again by themselves. */
  stop(): Promise<void> {
    return this.loop.stop();
  }

  /** Polls until nothing is due. For tests, which do not wait for the timer. */
  tick(): Promise<void> {
    return this.loop.now();
  }

  /** Oldest first: a run that waits for several events gets them in their order, unless one of them fails. */
  private async announceAll(due: readonly DueEvent[]): Promise<void> {
    const atOnce = new Semaphore(CONCURRENCY);
    const done = await Promise.all(due.map((event) => atOnce.run(() => this.announceOne(event))));
    const announced = done.filter((event) => event !== undefined);
    if (announced.length > 0) await markAnnounced(this.options.sql, announced);
  }

  /** The event, of which nothing is owed any more if it still has this lease. Undefined: it is due again. */
  private async announceOne(event: DueEvent): Promise<DueEvent | undefined> {
    try {
      return await this.notifyAll(event);
    } catch (error) {
      this.options.log.warn({ err: error, eventId: event.id }, "event not announced completely, it is due again");
      return undefined;
    }
  }

  /** All waiting runs, in batches, then the listeners. Undefined: stopped halfway, or another node continues. */
  private async notifyAll(event: DueEvent): Promise<DueEvent | undefined> {
    const { sql, tenantsApart } = this.options;
    for (let rest: DueEvent | undefined = event; rest; ) {
      const { notices, event: next, complete } = await announceTo(sql, rest, { tenantsApart });
      for (const notice of notices) this.deliver(event.id, notice);
      if (complete) return this.tellListeners(rest);
      rest = this.loop.stopping ? undefined : next;
    }
    return undefined;
  }

  private async tellListeners(event: DueEvent): Promise<DueEvent | undefined> {
    let written = false;
    for (const listener of this.options.listeners ?? []) written = (await listener(event)) || written;
    return written ? leaseAgain(this.options.sql, event) : event;
  }

  private deliver(eventId: string, { id, runId }: Notice): void {
    const command = { type: "event", eventId } as const;
    this.options.afterCommit(runId, [{ kind: "command", to: runId, id, command }]);
  }
}

export interface IncomingEvent {
  readonly topic: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly payload: Json;
  /** A repeat with the same key of the same tenant publishes nothing. */
  readonly idempotencyKey?: string;
  /** Only runs and triggers of this tenant see it. */
  readonly tenantId?: string;
}

/** `repeated`: the key was used for the same event before, and `id` is the first one's. `conflict`: it was used for another one. */
export type TakeOutcome = { readonly id: string; readonly repeated: boolean } | "conflict";

export class EventIntake {
  constructor(
    private readonly sql: Sql,
    private readonly announcer: EventAnnouncer,
  ) {}

  /** Resolves once the event is durable; the runs that wait for it are being notified. */
  async take({ topic, headers, payload, idempotencyKey, tenantId }: IncomingEvent): Promise<TakeOutcome> {
    const content = { topic, headers, payload };
    const event = { id: uuidv7(), ...content, tenantId, idempotencyKey, hash: requestHash(content) };
    const id = await publishEvent(this.sql, event);
    if (id === undefined) return "conflict";
    if (id === event.id) this.announcer.announce(id);
    return { id, repeated: id !== event.id };
  }
}
