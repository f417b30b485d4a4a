// Sends hints about the commits of this process to other processes: after the commit, coalesced by run, one flush at a time.
// Hints that do not fit or cannot be sent are dropped; their watchers find the events by polling.

import type { Sql } from "postgres";
import type { CommittedEvent, RunId } from "../../machines/index.js";
import { nextTurn } from "../ambient.js";
import type { Logger } from "../log.js";
import { channelOf } from "../store/engine/run-channel.js";
import type { FairScheduler } from "../work/fair-scheduler.js";
import { encodeHint, type Reached } from "./hint.js";
import { eventItem } from "./item.js";

export interface NotifierOptions {
  readonly sql: Sql;
  readonly log: Logger;
  readonly scheduler: FairScheduler;
  /** Runs with unsent events; beyond it the oldest is dropped. */
  readonly maxRuns?: number;
}

/**
 * Runs with watchers take a few steps at a time, and their events travel in the hint. A burst is cheaper to read back than to
 * send to every process, so its hint says only how far the run has come (sending it took 15 % of a node's time at full load: measured).
 */
const MAX_EVENTS = 8;
/** The same holds for a node that commits for many runs at once: few of them are watched. */
const MAX_RUNS_WITH_EVENTS = 4;
const RUNS_PER_FLUSH = 500;

interface Pending extends Reached {
  /** Undefined: too many to send. */
  readonly events: readonly CommittedEvent[] | undefined;
}

export class Notifier {
  private readonly sql: Sql;
  private readonly log: Logger;
  private readonly scheduler: FairScheduler;
  private readonly maxRuns: number;
  private readonly pending = new Map<RunId, Pending>();
  private flushing: Promise<void> | undefined;

  constructor({ sql, log, scheduler, maxRuns = 10_000 }: NotifierOptions) {
    this.sql = sql;
    this.log = log;
    this.scheduler = scheduler;
    this.maxRuns = maxRuns;
  }

  /** Queues the events and returns. Never throws. */
  add(runId: RunId, committed: readonly CommittedEvent[]): void {
    const last = committed.at(-1);
    if (!last) return;
    const known = this.pending.get(runId);
    if (!known && this.pending.size >= this.maxRuns) this.dropOldest();
    const all = known ? known.events && [...known.events, ...committed] : committed;
    const events = all && all.length <= MAX_EVENTS ? all : undefined;
    this.pending.set(runId, { events, seq: last.seq, state: last.to });
    void this.start();
  }

  /** Resolves when the hints added before have been sent or dropped. */
  async flush(): Promise<void> {
    while (this.pending.size > 0 || this.flushing) await this.start();
  }

  private dropOldest(): void {
    const [oldest] = this.pending.keys();
    if (oldest !== undefined) this.pending.delete(oldest);
  }

  private start(): Promise<void> {
    this.flushing ??= this.drain()
      .catch((error: unknown) => {
        this.log.warn({ err: String(error), runs: this.pending.size }, "sending hints failed, dropping them");
        this.pending.clear();
      })
      .finally(() => {
        this.flushing = undefined;
      });
    return this.flushing;
  }

  private async drain(): Promise<void> {
    // The commits of one turn of the event loop share a flush.
    await nextTurn();
    while (this.pending.size > 0) {
      const batch = [...this.pending].slice(0, RUNS_PER_FLUSH);
      for (const [runId] of batch) this.pending.delete(runId);
      const channels = batch.map(([runId]) => channelOf(runId));
      const payloads =
        batch.length <= MAX_RUNS_WITH_EVENTS
          ? await this.encodeEach(batch)
          : batch.map(([runId, reached]) => encodeHint(runId, reached));
      await this.sql`
        select pg_notify(channel, payload) from unnest(${channels}::text[], ${payloads}::text[]) as hint (channel, payload)`;
    }
  }
  private async encodeEach(batch: readonly (readonly [RunId, Pending])[]): Promise<string[]> {
    const payloads: string[] = [];
    for (const [runId, { events, ...reached }] of batch)
      payloads.push(await this.scheduler.compute("feed", () => encodeHint(runId, reached, events?.map(eventItem))));
    return payloads;
  }
}
