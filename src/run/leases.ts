// Leases: the rows of one polled table that this node is working on. They are bounded in number, renewed while the work goes on,
// and given back with a report of its end. The work itself, and the times of polling, are poller.ts.

import type { Sql } from "postgres";
import type { RunId } from "../../machines/index.js";
import { performance } from "../ambient.js";
import type { ShardId } from "../ids.js";
import { type DueTable, LEASE_SECONDS } from "../store/engine/poll.js";

/** Rows taken in one statement. */
const BATCH = 500;
/** Leased rows of one table: a million overdue ones are worked off without a stampede. */
export const MAX_LEASED = 1_000;
/** A lease is renewed at half its time. */
const RENEW_MS = (LEASE_SECONDS * 1_000) / 2;
/** A dispatch that this node holds is looked at less and less often, but at least this often. */
const HELD_SECONDS = 120;
/** The same for a row whose work could not be done. */
const RETRY_SECONDS = 60;

/**
 * How the work on a row ended.
 * `done`: a commit took care of the row. `spared`: nothing was committed but the node is alive, so the try does not count.
 * `run_gone`: the run is not in the store. `held`: this node keeps it for longer. `retry`: it is tried again, less and less often.
 */
export type WorkEnd = "done" | "spared" | "run_gone" | "held" | "retry";

export class Leases<Row extends { readonly run_id: RunId }> {
  /** When each lease began or was last renewed. */
  private readonly leased = new Map<string, number>();
  private readonly works = new Set<Promise<void>>();
  /** Reports on rows that are no longer leased. They are kept until they are written, because the store may be away. */
  private readonly reports: Record<Exclude<WorkEnd, "done">, Set<string>> = {
    spared: new Set(),
    run_gone: new Set(),
    held: new Set(),
    retry: new Set(),
  };
  private more = false;

  constructor(
    private readonly table: DueTable<Row>,
    private readonly work: (row: Row) => Promise<WorkEnd>,
    /** There is room again, and there may be more due rows. */
    private readonly onRoom: () => void,
  ) {}

  get size(): number {
    return this.leased.size;
  }

  get keys(): readonly string[] {
    return [...this.leased.keys()];
  }

  /** There may be due rows that were not taken. */
  get hasMore(): boolean {
    return this.more;
  }

  get hasRoom(): boolean {
    return MAX_LEASED - this.leased.size >= BATCH / 2;
  }

  /** Leases due rows as far as there is room, and begins the work on them. */
  async takeDue(sql: Sql, shards: readonly ShardId[]): Promise<void> {
    await this.maintain(sql);
    // Without room it is unknown whether more rows are due, so the next poll has to find out.
    if (!this.hasRoom) {
      this.more = true;
      return;
    }
    const { rows, more } = await this.table.lease(sql, shards, Math.min(BATCH, MAX_LEASED - this.leased.size));
    this.more = more;
    for (const row of rows) this.begin(row);
  }

  /** Resolves when no row is leased and all reports are written. */
  async drain(sql: Sql): Promise<void> {
    while (this.works.size > 0) await Promise.all(this.works);
    await this.maintain(sql);
  }

  private begin(row: Row): void {
    const key = this.table.keyOf(row);
    // Its renewal was late, and it was taken a second time. That says nothing about its run.
    if (this.leased.has(key)) return void this.reports.spared.add(key);
    this.leased.set(key, performance.now());
    const work = this.work(row).then((end) => {
      this.works.delete(work);
      this.leased.delete(key);
      if (end !== "done") this.reports[end].add(key);
      if (this.more && this.hasRoom) this.onRoom();
    });
    this.works.add(work);
  }

  /** Renews old leases, and writes the reports. */
  private async maintain(sql: Sql): Promise<void> {
    await this.renew(sql);
    const { spared, run_gone: runGone, held, retry } = this.reports;
    await this.write(spared, (keys) => this.table.forgiveTry(sql, keys));
    await this.write(runGone, (keys) => this.table.removeOrphans(sql, keys));
    await this.write(held, (keys) => this.table.postpone(sql, keys, HELD_SECONDS));
    await this.write(retry, (keys) => this.table.postpone(sql, keys, RETRY_SECONDS));
  }

  private async renew(sql: Sql): Promise<void> {
    const now = performance.now();
    const old = [...this.leased].filter(([, since]) => now - since > RENEW_MS).map(([key]) => key);
    if (old.length > 0) await this.table.renew(sql, old);
    for (const key of old) if (this.leased.has(key)) this.leased.set(key, now);
  }

  private async write(report: Set<string>, statement: (keys: readonly string[]) => Promise<void>): Promise<void> {
    if (report.size === 0) return;
    const keys = [...report];
    report.clear();
    await statement(keys).catch((error) => {
      for (const key of keys) report.add(key);
      throw error;
    });
  }
}
