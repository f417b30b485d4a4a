// The granters: one has the free slots of keys given to those that wait, the other one the turns of rate limits. After a commit that asked for one or gave one back, it asks the store
// to grant that key; the poll finds the keys for which such a call was lost with its node (law 7). The answer to a run is a durable command in
// its inbox, written by the transaction that gives the slot, or the turn.
import type { Sql } from "postgres";
import { type RunId, type Send, type SlotKey, slotTenant } from "../../machines/index.js";
import type { Logger } from "../log.js";
import {
  grantSlots,
  NEWS_AT_ONCE,
  type SlotNews,
  sweepReservations,
  type WaitingKey,
  waitingKeys,
} from "../store/engine/slots.js";
import { giveTurns, openTurnKeys, sweepBuckets } from "../store/engine/turns.js";
import { WorkLoop } from "../work/loop.js";

/** What a granter grants: what runs, and steps, must have of a key before they go on. */
export interface Granted {
  readonly what: string;
  /** Tells those that have got it, or are refused. `room`: how many may wait; absent: nothing was asked for. */
  grant(sql: Sql, key: SlotKey, room?: number): Promise<readonly SlotNews[]>;
  /** The next keys with something that is asked for. */
  waiting(sql: Sql, after: SlotKey | undefined, limit: number): Promise<readonly WaitingKey[]>;
  /** Deletes rows that are of no use, some at a time. The key behind which the next sweep goes on; undefined: at the first one. */
  sweep(sql: Sql, after: SlotKey | undefined): Promise<SlotKey | undefined>;
}

export const SLOTS: Granted = {
  ...{ what: "concurrency slots", grant: grantSlots, waiting: waitingKeys },
  async sweep(sql) {
    await sweepReservations(sql);
    return undefined;
  },
};

export const TURNS: Granted = {
  ...{ what: "rate limit turns", grant: giveTurns, waiting: openTurnKeys, sweep: sweepBuckets },
};

/** Has free slots given to those that wait for them, or turns. Never throws and never waits: the poll finds what is lost. */
export interface SlotKeeper {
  /** A ticket of the key was committed. */
  requested(key: SlotKey): void;
  /** A ticket of the key was removed. */
  released(key: SlotKey): void;
}

/** Keys granted at once; each uses a session of the pool for a moment. */
const CONCURRENCY = 4;
/** Keys waiting in memory. One more is dropped, and found again by the poll. */
const QUEUE_LIMIT = 10_000;
/** Keys that a poll looks at in one statement, and in all. The next poll goes on behind them. */
const PAGE = 200;
const PAGES = 5;
const PAUSE_MS = 1_000;

export interface GranterOptions {
  readonly sql: Sql;
  readonly log: Logger;
  readonly of: Granted;
  /** How many may wait for a slot, or a turn, of one key. */
  readonly room: number;
  /** Whether this node polls for the whole cluster. */
  readonly polls: () => boolean;
  /** Carries out effects for a run: here if this node owns it, otherwise by a hint to the owner. */
  readonly afterCommit: (runId: RunId, effects: readonly Send[]) => void;
  /** False: slots are granted by the poll alone. A test's switch. */
  readonly hints?: boolean;
}

interface Touched {
  readonly key: SlotKey;
  /** A new ticket waits: the length of the queue is checked. */
  readonly asked: boolean;
}

export class SlotGranter implements SlotKeeper {
  private readonly touched = new Map<string, Touched>();
  /** Keys that are being granted. One that is touched meanwhile is granted again afterwards. */
  private readonly granting = new Map<string, Promise<void>>();
  private readonly loop: WorkLoop;
  /** Where the next poll goes on. Undefined: at the first key. */
  private after: SlotKey | undefined;
  private sweptTo: SlotKey | undefined;
  private stopped = false;

  constructor(private readonly options: GranterOptions) {
    const polls = { pauseMs: PAUSE_MS, round: () => this.poll() };
    this.loop = new WorkLoop({ what: options.of.what, log: options.log, polls });
  }

  requested(key: SlotKey): void {
    this.hint({ key, asked: true });
  }

  released(key: SlotKey): void {
    this.hint({ key, asked: false });
  }

  start(): void {
    this.loop.start();
  }

  /** Finishes the keys in progress. Those that wait are found by the poll of another node. */
  async stop(): Promise<void> {
    this.stopped = true;
    this.touched.clear();
    await this.loop.stop();
    await this.idle();
  }

  /** Grants whatever can be granted. For tests, which do not wait for the timer. */
  async tick(): Promise<void> {
    this.after = undefined;
    await this.loop.now();
    await this.idle();
  }

  /** Resolves when nothing is touched or in progress. */
  async idle(): Promise<void> {
    while (this.granting.size > 0) await Promise.all(this.granting.values());
  }

  private hint(touched: Touched): void {
    if (this.options.hints !== false) this.touch(touched);
  }

  private touch(touched: Touched): void {
    const name = nameOf(touched.key);
    const asked = touched.asked || this.touched.get(name)?.asked === true;
    if (this.stopped || (this.touched.size >= QUEUE_LIMIT && !this.touched.has(name))) return;
    this.touched.set(name, { ...touched, asked });
    this.work();
  }

  private work(): void {
    for (const [name, touched] of this.touched) {
      if (this.granting.size >= CONCURRENCY) return;
      if (this.granting.has(name)) continue;
      this.touched.delete(name);
      const granted = this.grant(touched).finally(() => {
        this.granting.delete(name);
        this.work();
      });
      this.granting.set(name, granted);
    }
  }

  private async grant({ key, asked }: Touched): Promise<void> {
    const { sql, log, room, afterCommit, of } = this.options;
    try {
      const news = await of.grant(sql, key, asked ? room : undefined);
      for (const { id, to, command } of news) afterCommit(to, [{ kind: "command", id, to, command }]);
      if (news.length >= NEWS_AT_ONCE) this.touch({ key, asked });
    } catch (error) {
      log.warn({ err: error, scope: key.scope }, `${of.what} not granted, the poll tries again`);
    }
  }

  private async poll(): Promise<void> {
    const { sql, polls, of } = this.options;
    if (!polls()) return;
    this.sweptTo = await of.sweep(sql, this.sweptTo);
    for (let page = 0; page < PAGES; page++) {
      const keys = await of.waiting(sql, this.after, PAGE);
      for (const { due, ...key } of keys) if (due) this.touch({ key, asked: true });
      this.after = keys.length < PAGE ? undefined : keys.at(-1);
      if (!this.after) return;
    }
  }
}

const nameOf = (key: SlotKey): string => JSON.stringify([slotTenant(key), key.scope, key.key]);
