// The tables that a node polls for its shards: wakes, inbox and outbox (law 7). A due row is leased, not removed: it is due again when the
// lease ends, unless the commit that answers it moves or deletes it. There is no watermark over a sequence: it would lose rows that
// commit late. In SQL: the polls are hot, and their plans are chosen.
import type { Sql } from "postgres";
import type { RunCommand, RunId } from "../../../machines/index.js";
import { type ShardId, shardOf } from "../../ids.js";
import { readableRows, readColumn, sealingOf } from "../sealed/sealing.js";

/** The time that a node has for a leased row, unless it renews the lease; then any node may lease it. */
export const LEASE_SECONDS = 10;

export interface DueWake {
  readonly run_id: RunId;
  /** How often it was leased since the run's last commit. */
  readonly tries: number;
}

export interface DueCommand {
  readonly id: string;
  readonly tries: number;
  readonly run_id: RunId;
  readonly command: RunCommand;
}

export interface DueEffect {
  readonly id: string;
  readonly run_id: RunId;
  readonly kind: string;
}

export interface Leased<Row> {
  readonly rows: readonly Row[];
  /** More rows may be due. */
  readonly more: boolean;
}

/** One of the three tables. The key of a wake is its run's id, that of other rows their own id. */
export class DueTable<Row extends { readonly run_id: RunId }> {
  constructor(
    readonly name: string,
    private readonly key: "run_id" | "id",
    private readonly columns: string,
    /** Where encryption is on: the columns, and how a row is read. */
    private readonly sealed?: { readonly columns: string; read(sql: Sql, row: Row): Row },
  ) {}

  keyOf(row: Row): string {
    return (row as unknown as Record<string, string>)[this.key] as string;
  }

  /**
   * Leases the rows of each shard that have been due for longest, except rows that another node has locked. Each shard is asked for a few
   * rows of its index: sorting all due rows took 360 ms for 500 of 1,000,000 overdue rows, this takes 13 ms. It is planned each time: a
   * plan made while the table is empty would later read the whole table once a shard.
   */
  async lease(sql: Sql, shards: readonly ShardId[], limit: number): Promise<Leased<Row>> {
    if (shards.length === 0) return { rows: [], more: false };
    const { name, key, sealed } = this;
    const columns = sealed && sealingOf(sql) ? sealed.columns : this.columns;
    const each = perShard(shards, limit);
    const rows = await sql.unsafe<Row[]>(
      `with near as materialized (
         select d.${key} from unnest($1::text::int2[]) s(shard) cross join lateral (
           select ${key}, due_at from ${name} where shard = s.shard and due_at <= now() order by due_at limit $2
         ) d order by d.due_at limit $3
       ), due as (
         select ${key} from ${name} where ${key} in (select ${key} from near) and due_at <= now() for update skip locked
       )
       update ${name} t set tries = least(t.tries + 1, 1000), due_at = now() + interval '${LEASE_SECONDS} seconds'
       from due where t.${key} = due.${key} returning ${columns}`,
      [literal(shards), each, limit],
    );
    const more = rows.length === limit || fullShards(rows, each).length > 0;
    return { rows: sealed ? readableRows(sql, rows, (row) => sealed.read(sql, row)) : rows, more };
  }

  /** Renews the lease: a whole lease from now. A row that a commit has moved in the meantime (its tries are reset) stays as it is. */
  async renew(sql: Sql, keys: readonly string[]): Promise<void> {
    await sql.unsafe(
      `${this.free} update ${this.name} t set due_at = now() + interval '${LEASE_SECONDS} seconds' ${this.ofFree}`,
      [literal(keys)],
    );
  }

  /** The last try does not count: the node that leased the row lives. */
  async forgiveTry(sql: Sql, keys: readonly string[]): Promise<void> {
    await sql.unsafe(`${this.free} update ${this.name} t set tries = tries - 1 ${this.ofFree}`, [literal(keys)]);
  }

  /** The run has lived in a trial: its earlier tries say nothing about it. This one counts until its commit. */
  async acquit(sql: Sql, keys: readonly string[]): Promise<void> {
    await sql.unsafe(`update ${this.name} set tries = 1, trial_deaths = 0 where ${this.among} and tries > 0`, [
      literal(keys),
    ]);
  }

  /** The run has ended or hung its trial process, alone. Answers how often; undefined if its row is gone or was moved by a commit. */
  async countDeath(sql: Sql, key: string): Promise<number | undefined> {
    const [row] = await sql.unsafe<{ trial_deaths: number }[]>(
      `update ${this.name} set trial_deaths = least(trial_deaths + 1, 1000) where ${this.among} and tries > 0
       returning trial_deaths`,
      [literal([key])],
    );
    return row?.trial_deaths;
  }

  /** Due later: twice as late with every try, up to `mostSeconds`. A takeover makes it due at once. */
  async postpone(sql: Sql, keys: readonly string[], mostSeconds: number): Promise<void> {
    await sql.unsafe(
      `${this.free} update ${this.name} t
       set due_at = now() + make_interval(secs => least(${LEASE_SECONDS} * 2 ^ least(tries, 16), $2::float8)) ${this.ofFree}`,
      [literal(keys), mostSeconds],
    );
  }

  /** Removes rows whose run is no longer in the store; the row of any other run stays. */
  async removeOrphans(sql: Sql, keys: readonly string[]): Promise<void> {
    await sql.unsafe(
      `with held as materialized (
         select ${this.key} from ${this.name} where ${this.among} order by ${this.key} for update skip locked)
       delete from ${this.name} t using held where t.${this.key} = held.${this.key} and not exists (select 1 from runs r where r.id = t.run_id)`,
      [literal(keys)],
    );
  }

  /**
   * Makes a bounded number of rows due now, except those with certain keys; resolves with the shards that have more of them. `which` is a
   * condition and `also` an assignment in SQL.
   */
  async reclaim(
    sql: Sql,
    shards: readonly ShardId[],
    { which = "", also = "", except = [] as readonly string[] } = {},
  ): Promise<readonly ShardId[]> {
    if (shards.length === 0) return [];
    const { name, key } = this;
    const each = perShard(shards, RECLAIMED_AT_ONCE);
    const rows = await sql.unsafe<{ run_id: RunId }[]>(
      `with later as materialized (
         select d.${key} from unnest($1::text::int2[]) s(shard) cross join lateral (
           select ${key} from ${name}
           where shard = s.shard and due_at > now() ${which} and ${key} <> all($3::text::uuid[]) order by due_at limit $2
         ) d
       ), held as (select ${key} from ${name} where ${key} in (select ${key} from later) for update skip locked)
       update ${name} t set due_at = now() ${also} from held where t.${key} = held.${key} returning t.run_id`,
      [literal(shards), each, literal(except)],
    );
    return fullShards(rows, each);
  }

  /**
   * The leased rows that no other session has locked, in key order. A row that a commit has locked is about to be moved or deleted; waiting
   * for it while holding others would let the poll and the commit wait for each other in a circle.
   */
  private get free(): string {
    return `with free as materialized (
      select ${this.key} from ${this.name} where ${this.among} and tries > 0 order by ${this.key} for update skip locked)`;
  }

  private get ofFree(): string {
    return `from free where t.${this.key} = free.${this.key}`;
  }

  private get among(): string {
    return `${this.key} = any($1::text::uuid[])`;
  }
}

export const wakes = new DueTable<DueWake>("wakes", "run_id", "t.run_id, t.tries");
export const inbox = new DueTable<DueCommand>("inbox", "id", "t.id, t.run_id, t.command, t.tries", {
  columns: "t.id, t.run_id, t.command::text as command, t.tries",
  read: (sql, row) => ({ ...row, command: receivedCommand(sql, row) }),
});
export const outbox = new DueTable<DueEffect>("outbox", "id", "t.id, t.run_id, t.kind");

/**
 * A command whose values cannot be read any more has come to nothing: the run looks at what is due instead, and the row goes. The end of a child counts
 * also without the message of its error.
 */
function receivedCommand(sql: Sql, { id, command }: DueCommand): RunCommand {
  let isDestroyed = false;
  const read = readColumn(sql, command, `inbox.command/${id}`, () => {
    isDestroyed = true;
  });
  return isDestroyed && read.type !== "child" ? { type: "advance" } : read;
}

const RECLAIMED_AT_ONCE = 4_000;

/** Rows that are leased: a dispatch that its node holds, and a row that is tried again later, are put off for longer. */
const LEASED = `and tries > 0 and due_at <= now() + interval '${LEASE_SECONDS} seconds'`;

/**
 * Rows that were leased, and those of runs that may have been stepping, or that owe a dispatch without a row of its own: they have the run looked
 * at within ten seconds. A timer that is due as soon wakes its run once too early: a no-op.
 */
const IN_PROGRESS = `and due_at <= now() + interval '${LEASE_SECONDS} seconds'`;

/** A post that its courier has put off keeps its time, and one that a lost node was sending falls due by itself. */
const DISPATCHES = "and kind = 'action'";

/**
 * For a takeover of shards: everything owed there becomes due now, because the node that held it may be gone. So does the wake of a run
 * that was in progress there, and this counts as a try, because the node may have died of the run. Bounded; resolves with the shards
 * that have more rows and must be reclaimed again.
 */
export async function reclaim(sql: Sql, shards: readonly ShardId[]): Promise<readonly ShardId[]> {
  const unfinished = [
    ...(await wakes.reclaim(sql, shards, { which: IN_PROGRESS, also: ", tries = greatest(t.tries, 1)" })),
    ...(await outbox.reclaim(sql, shards, { which: DISPATCHES })),
    ...(await inbox.reclaim(sql, shards)),
  ];
  return [...new Set(unfinished)];
}

/**
 * After the loss of a node, in the shards that this node had before: what is leased becomes due now. The lost node may have leased a row when the
 * shard had moved and it had not noticed yet. The rows that this node works on (`own`, by their keys) keep their leases. Resolves like `reclaim`.
 */
export async function endLeases(
  sql: Sql,
  shards: readonly ShardId[],
  own: readonly string[],
): Promise<readonly ShardId[]> {
  const leased = { which: LEASED, except: own };
  const unfinished = [
    ...(await wakes.reclaim(sql, shards, leased)),
    ...(await outbox.reclaim(sql, shards, { ...leased, which: `${DISPATCHES} ${LEASED}` })),
    ...(await inbox.reclaim(sql, shards, leased)),
  ];
  return [...new Set(unfinished)];
}

/** Enough rows that a single full shard is emptied quickly, too. */
function perShard(shards: readonly ShardId[], limit: number): number {
  return Math.min(limit, Math.max(16, Math.ceil(limit / shards.length)));
}

/** The shards that returned as many rows as they were asked for. */
function fullShards(rows: readonly { readonly run_id: RunId }[], each: number): ShardId[] {
  const counts = new Map<ShardId, number>();
  for (const { run_id } of rows) counts.set(shardOf(run_id), (counts.get(shardOf(run_id)) ?? 0) + 1);
  return [...counts].filter(([, count]) => count >= each).map(([shard]) => shard);
}

function literal(items: readonly (string | number)[]): string {
  return `{${items.join(",")}}`;
}

export interface Backlog {
  /** Runs that stand at an incident. */
  readonly incidents: number;
  /** Runs that are marked for manual review. */
  readonly reviews: number;
  /** How long the oldest wake row that is due has been due; 0: none is. */
  readonly overdueSeconds: number;
}

/** What waits for a person, and for the poll. */
export async function countBacklog(sql: Sql): Promise<Backlog> {
  const [row] = await sql<[Backlog]>`
    select
      (select count(*)::int from runs where held_as = 'incident') as incidents,
      (select count(*)::int from runs where requires_manual_review) as reviews,
      (select coalesce(extract(epoch from now() - min(due_at)), 0)::float8 from wakes where due_at <= now())
        as "overdueSeconds"`;
  return row;
}

/**
 * Unfinished runs that nothing would ever wake: without a wake row, a dispatch, a signal, event, slot or turn that they wait for, a living child, or
 * a command on its way (the end of a child), and that no person has to help. It must be 0 (law 7).
 */
export async function countUnwatched(sql: Sql): Promise<number> {
  // Each table is read once, whatever the planner believes about their sizes.
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from (
      select id from runs
      where terminal_at is null and awaited_signal is null
        and (paused_reason is null or paused_reason not in ('quarantine', 'operator', 'incident'))
      except select run_id from wakes
      except select run_id from event_waits
      except select run_id from outbox where kind = 'action'
      except select parent_run_id from runs where parent_run_id is not null and terminal_at is null
      except select run_id from inbox
      except select run_id from concurrency_tickets where granted_at is null
      except select run_id from rate_tickets where at_us is null
    ) unwatched`;
  return row?.count ?? 0;
}
