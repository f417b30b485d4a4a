// What a node polls for its shards: wakes, inbox and outbox rows that are due. A taken row is lent, not removed: it comes
// back when its loan is over unless the commit that answers it moves or deletes it. Never a watermark over a sequence.
import type { Sql } from "postgres";
import type { RunCommand } from "../../machines/index.js";
import { shardOf } from "../ids.js";

/** How long a node that took a row has before another (or it again) takes it, unless it renews the loan. */
export const LEND_SECONDS = 10;

export interface DueWake {
  readonly run_id: string;
  /** How often it was taken since the run's last commit. */
  readonly tries: number;
}

export interface DueCommand {
  readonly id: string;
  readonly tries: number;
  readonly run_id: string;
  readonly command: RunCommand;
}

export interface DueEffect {
  readonly id: string;
  readonly run_id: string;
  readonly kind: string;
}

/** Which rows: those never taken in vain, those once, those more often. Who was there when a node died is looked at apart. */
export type Doubt = "none" | "some" | "much";
const TRIES: Readonly<Record<Doubt, string>> = { none: "and tries = 0", some: "and tries = 1", much: "and tries > 1" };

export interface Taken<Row> {
  readonly rows: readonly Row[];
  /** There may be more that is due. */
  readonly more: boolean;
}

/** One of the three tables. Keys are the row's own: the run's id of a wake, the row's id elsewhere. */
export class DueTable<Row extends { readonly run_id: string }> {
  constructor(
    readonly name: string,
    private readonly key: "run_id" | "id",
    private readonly columns: string,
  ) {}

  keyOf(row: Row): string {
    return (row as unknown as Record<string, string>)[this.key] as string;
  }

  /**
   * Lends what is longest due in each shard, and never what another node has in hand. Each shard is asked for a few rows of
   * its index: sorting all that is due took 360 ms for 500 of 1,000,000 overdue rows, this 13 ms. Planned anew each time: a
   * plan made while the table is empty would later read the whole table once a shard.
   */
  async take(sql: Sql, shards: readonly number[], limit: number, doubt?: Doubt): Promise<Taken<Row>> {
    if (shards.length === 0) return { rows: [], more: false };
    const { name, key, columns } = this;
    const each = perShard(shards, limit);
    const tried = doubt ? TRIES[doubt] : "";
    const rows = await sql.unsafe<Row[]>(
      `with near as materialized (
         select d.${key} from unnest($1::text::int2[]) s(shard) cross join lateral (
           select ${key}, due_at from ${name} where shard = s.shard and due_at <= now() ${tried} order by due_at limit $2
         ) d order by d.due_at limit $3
       ), due as (
         select ${key} from ${name} where ${key} in (select ${key} from near) and due_at <= now() for update skip locked
       )
       update ${name} t set tries = least(t.tries + 1, 1000), due_at = now() + interval '${LEND_SECONDS} seconds'
       from due where t.${key} = due.${key} returning ${columns}`,
      [literal(shards), each, limit],
    );
    return { rows, more: rows.length === limit || fullShards(rows, each).length > 0 };
  }

  /** Still in hand: not due for a whole loan from now. What a commit has moved meanwhile (it resets the tries) stays there. */
  async renew(sql: Sql, keys: readonly string[]): Promise<void> {
    await sql.unsafe(
      `update ${this.name} set due_at = now() + interval '${LEND_SECONDS} seconds' where ${this.among} and tries > 0`,
      [literal(keys)],
    );
  }

  /** The last try is not held against it: whoever took it lives. */
  async spare(sql: Sql, keys: readonly string[]): Promise<void> {
    await sql.unsafe(`update ${this.name} set tries = tries - 1 where ${this.among} and tries > 0`, [literal(keys)]);
  }

  /** Not due for long: twice as long with every try, up to `mostSeconds`. Takeover makes it due at once. */
  async hold(sql: Sql, keys: readonly string[], mostSeconds: number): Promise<void> {
    await sql.unsafe(
      `update ${this.name} set due_at = now() + make_interval(secs => least(${LEND_SECONDS} * 2 ^ least(tries, 16), $2::float8))
       where ${this.among} and tries > 0`,
      [literal(keys), mostSeconds],
    );
  }

  /** Those whose run is gone from the store; of any other the row stays. */
  async remove(sql: Sql, keys: readonly string[]): Promise<void> {
    await sql.unsafe(
      `delete from ${this.name} t where ${this.among} and not exists (select 1 from runs r where r.id = t.run_id)`,
      [literal(keys)],
    );
  }

  /** Makes a bounded number of rows due, whenever they were; answers the shards that have more of them. */
  async reclaim(sql: Sql, shards: readonly number[], which = "", also = ""): Promise<readonly number[]> {
    if (shards.length === 0) return [];
    const { name, key } = this;
    const each = perShard(shards, RECLAIMED_AT_ONCE);
    const rows = await sql.unsafe<{ run_id: string }[]>(
      `with later as materialized (
         select d.${key} from unnest($1::text::int2[]) s(shard) cross join lateral (
           select ${key} from ${name} where shard = s.shard and due_at > now() ${which} order by due_at limit $2
         ) d
       ), held as (select ${key} from ${name} where ${key} in (select ${key} from later) for update skip locked)
       update ${name} t set due_at = now() ${also} from held where t.${key} = held.${key} returning t.run_id`,
      [literal(shards), each],
    );
    return fullShards(rows, each);
  }

  private get among(): string {
    return `${this.key} = any($1::text::uuid[])`;
  }
}

export const wakes = new DueTable<DueWake>("wakes", "run_id", "t.run_id, t.tries");
export const inbox = new DueTable<DueCommand>("inbox", "id", "t.id, t.run_id, t.command, t.tries");
export const outbox = new DueTable<DueEffect>("outbox", "id", "t.id, t.run_id, t.kind");

const RECLAIMED_AT_ONCE = 4_000;

/** A run that was stepping has a wake row at most this far ahead. */
const STEPPING_SECONDS = 2;
/** What was lent, and what may be a run that was stepping. A timer that is due so soon anyway is looked at once too often. */
const IN_WORK = `and due_at <= now() + interval '${LEND_SECONDS} seconds'
  and (tries > 0 or due_at <= now() + interval '${STEPPING_SECONDS} seconds')`;

/**
 * On taking shards over: what is owed there is due now, for whoever held it may be gone. So is the wake of a run that was in
 * work there: the node may have died of it, which counts as a try. A bounded bite; answers the shards that have more, and are
 * to be reclaimed again.
 */
export async function reclaim(sql: Sql, shards: readonly number[]): Promise<readonly number[]> {
  const unfinished = [
    ...(await wakes.reclaim(sql, shards, IN_WORK, ", tries = greatest(t.tries, 1)")),
    ...(await outbox.reclaim(sql, shards)),
    ...(await inbox.reclaim(sql, shards)),
  ];
  return [...new Set(unfinished)];
}

/** Whether any wake or command is due that was taken in vain before. */
export async function hasDoubtful(sql: Sql, shards: readonly number[]): Promise<boolean> {
  const mine = shards as number[];
  const [row] = await sql<{ has: boolean }[]>`
    select exists (select 1 from wakes where shard = any(${mine}::int2[]) and due_at <= now() and tries > 0)
      or exists (select 1 from inbox where shard = any(${mine}::int2[]) and due_at <= now() and tries > 0) as has`;
  return row?.has ?? false;
}

/** Enough that one full shard alone is worked off quickly, too. */
function perShard(shards: readonly number[], limit: number): number {
  return Math.min(limit, Math.max(16, Math.ceil(limit / shards.length)));
}

/** The shards that gave all they were asked for. */
function fullShards(rows: readonly { readonly run_id: string }[], each: number): number[] {
  const counts = new Map<number, number>();
  for (const { run_id } of rows) counts.set(shardOf(run_id), (counts.get(shardOf(run_id)) ?? 0) + 1);
  return [...counts].filter(([, count]) => count >= each).map(([shard]) => shard);
}

function literal(items: readonly (string | number)[]): string {
  return `{${items.join(",")}}`;
}

/**
 * Unfinished runs that nothing would ever look at again: neither a wake row nor a named outside thing, nor a child that lives
 * or a command that is on its way (a child's end). Law 7 wants 0.
 */
export async function countUnwatched(sql: Sql): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from runs r
    where r.terminal_at is null and r.awaited_signal is null and r.paused_reason is distinct from 'quarantine'
      and not exists (select 1 from wakes w where w.run_id = r.id)
      and not exists (select 1 from event_waits v where v.run_id = r.id)
      and not exists (select 1 from outbox o where o.run_id = r.id and o.kind = 'action')
      and not exists (select 1 from runs c where c.parent_run_id = r.id and c.terminal_at is null)
      and not exists (select 1 from inbox i where i.shard = r.shard and i.run_id = r.id)`;
  return row?.count ?? 0;
}
