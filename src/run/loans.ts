// Loans: the rows of one polled table that this node has in hand, bounded, renewed while they are worked on, and given back
// with a word on how they ended. What the work is, the stager says; when to look, too.
import type { Sql } from "postgres";
import { type Doubt, type DueTable, LEND_SECONDS } from "../store/poll.js";

/** Rows taken at once. */
const BATCH = 500;
/** Rows of one table in hand: a million overdue ones are worked off, not stampeded. */
export const IN_HAND = 1_000;
/** A loan is renewed at half its time. */
const RENEW_MS = (LEND_SECONDS * 1_000) / 2;
/** A dispatch that this node holds is looked at ever more rarely; one that found no room in its queue, at least this often. */
const HELD_SECONDS = 120;
const RETRY_SECONDS = 60;

/**
 * How the work on a row ended. `done`: its commit took care of the row. `alive`: nothing was committed, and the node lives:
 * the try does not count. `failed`: the try counts. `gone`: its run is not in the store. `held`: this node has it in hand for
 * longer. `later`: it is to be tried again, ever more rarely.
 */
export type End = "done" | "alive" | "failed" | "gone" | "held" | "later";

export interface Only {
  readonly doubt?: Doubt;
  readonly most: number;
  readonly besides?: { has(key: string): boolean };
}

export class Loans<Row extends { readonly run_id: string }> {
  /** When each loan was made or last renewed. */
  private readonly inHand = new Map<string, number>();
  private readonly works = new Set<Promise<void>>();
  /** What is to be said of rows no longer in hand. Kept until it is said: the store may be away. */
  private readonly ended: Record<Exclude<End, "done" | "failed">, Set<string>> = {
    alive: new Set(),
    gone: new Set(),
    held: new Set(),
    later: new Set(),
  };
  private more = false;

  constructor(
    private readonly table: DueTable<Row>,
    private readonly work: (row: Row) => Promise<End>,
    /** There is room again, and there may be more that is due. */
    private readonly roomAgain: () => void,
    /** Only rows that were taken in vain so often, and so many of them at once; other loans of the table may hold a row already. */
    private readonly only: Only = { most: IN_HAND },
  ) {}

  /** Whether the row is in hand. */
  has(key: string): boolean {
    return this.inHand.has(key);
  }

  get size(): number {
    return this.inHand.size;
  }

  /** Rows are due that have not been taken. */
  get hasMore(): boolean {
    return this.more;
  }

  get hasRoom(): boolean {
    const { most } = this.only;
    return most - this.inHand.size >= Math.min(BATCH, most) / 2;
  }

  /** Takes what is due, as far as there is room, and begins its work. */
  async take(sql: Sql, shards: readonly number[]): Promise<void> {
    await this.tidy(sql);
    // Whether there is more is not known then, so it is to be asked.
    if (!this.hasRoom) {
      this.more = true;
      return;
    }
    const { most, doubt } = this.only;
    const { rows, more } = await this.table.take(sql, shards, Math.min(BATCH, most - this.inHand.size), doubt);
    this.more = more;
    for (const row of rows) this.begin(row);
  }

  /** Resolves when nothing is in hand and all is said. */
  async settle(sql: Sql): Promise<void> {
    while (this.works.size > 0) await Promise.all(this.works);
    await this.tidy(sql);
  }

  private begin(row: Row): void {
    const key = this.table.keyOf(row);
    // Its renewal was late: it is still in hand, and that it was taken again says nothing about its run.
    if (this.has(key) || this.only.besides?.has(key)) return void this.ended.alive.add(key);
    this.inHand.set(key, performance.now());
    const work = this.work(row).then((end) => {
      this.works.delete(work);
      this.inHand.delete(key);
      if (end !== "done" && end !== "failed") this.ended[end].add(key);
      if (this.more && this.hasRoom) this.roomAgain();
    });
    this.works.add(work);
  }

  /** Renews what has been in hand for long, and says how the others ended. */
  async tidy(sql: Sql): Promise<void> {
    const now = performance.now();
    const old = [...this.inHand].filter(([, since]) => now - since > RENEW_MS).map(([key]) => key);
    if (old.length > 0) await this.table.renew(sql, old);
    for (const key of old) if (this.inHand.has(key)) this.inHand.set(key, now);
    const { alive, gone, held, later } = this.ended;
    await this.say(alive, (keys) => this.table.spare(sql, keys));
    await this.say(gone, (keys) => this.table.remove(sql, keys));
    await this.say(held, (keys) => this.table.hold(sql, keys, HELD_SECONDS));
    await this.say(later, (keys) => this.table.hold(sql, keys, RETRY_SECONDS));
  }

  private async say(about: Set<string>, statement: (keys: readonly string[]) => Promise<void>): Promise<void> {
    if (about.size === 0) return;
    const keys = [...about];
    about.clear();
    await statement(keys).catch((error) => {
      for (const key of keys) about.add(key);
      throw error;
    });
  }
}
