// Tells other processes what this one committed: coalesced, after the commit, one flush at a time. A hint: what does not fit
// or cannot be sent is dropped, and its watchers find it by polling.
import type { Sql } from "postgres";
import type { Logger } from "../log.js";
import type { CommittedEvent } from "../run/ports.js";
import { eventItem } from "./item.js";

export interface Notifier {
  /** Takes the events and returns; never throws. */
  add(runId: string, events: readonly CommittedEvent[]): void;
  /** Resolves when what was added before has been sent or dropped. */
  flush(): Promise<void>;
}

export interface NotifierOptions {
  readonly sql: Sql;
  readonly log: Logger;
  /** Runs with unsent events; beyond it the oldest is dropped. */
  readonly maxRuns?: number;
}

/** Postgres refuses 8000 and more. */
const PAYLOAD_BYTES = 7500;
/**
 * Runs that people watch take a few steps at a time, and their events travel in the hint. A burst is cheaper to read back
 * than to write out for everybody: it is announced by its last number alone (15 % of a node's time at full load: measured).
 */
const MAX_EVENTS = 8;
const RUNS_A_FLUSH = 500;

interface Pending {
  events: readonly CommittedEvent[] | undefined;
  lastSeq: number;
}

/** A wire format: other programs may listen too. */
export function channelOf(runId: string): string {
  return `saga_event_${runId.replaceAll("-", "")}`;
}

export function createNotifier({ sql, log, maxRuns = 10_000 }: NotifierOptions): Notifier {
  const queue = new Map<string, Pending>();
  let flushing: Promise<void> | undefined;

  async function drain(): Promise<void> {
    // Commits of one turn of the event loop share a flush.
    await new Promise(setImmediate);
    while (queue.size > 0) {
      const batch = [...queue].slice(0, RUNS_A_FLUSH);
      for (const [runId] of batch) queue.delete(runId);
      const channels = batch.map(([runId]) => channelOf(runId));
      const payloads = batch.map(([runId, pending]) => payloadOf(runId, pending));
      await sql`select pg_notify(channel, payload) from unnest(${channels}::text[], ${payloads}::text[]) as hint (channel, payload)`;
    }
  }

  function start(): Promise<void> {
    flushing ??= drain()
      .catch((error: unknown) => {
        log.warn({ err: String(error), runs: queue.size }, "hints to watchers were not sent");
        queue.clear();
      })
      .finally(() => {
        flushing = undefined;
      });
    return flushing;
  }

  return {
    add(runId, events) {
      const last = events.at(-1);
      if (!last) return;
      const known = queue.get(runId);
      const all = known ? known.events && [...known.events, ...events] : events;
      if (!known && queue.size >= maxRuns) queue.delete(queue.keys().next().value ?? "");
      queue.set(runId, { events: all && all.length <= MAX_EVENTS ? all : undefined, lastSeq: last.seq });
      void start();
    },
    async flush() {
      while (queue.size > 0 || flushing) await start();
    },
  };
}

function payloadOf(runId: string, { events, lastSeq }: Pending): string {
  const whole = events && JSON.stringify({ run_id: runId, events: events.map(eventItem) });
  if (whole !== undefined && Buffer.byteLength(whole) < PAYLOAD_BYTES) return whole;
  return JSON.stringify({ run_id: runId, last_seq: lastSeq });
}
