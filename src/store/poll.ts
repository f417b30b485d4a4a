// What a node polls for its shards: wakes, inbox and outbox rows that are due. A taken row is lent, not removed: it comes
// back after LEND_SECONDS unless the commit that answers it moves or deletes it. Never a watermark over a sequence.
import type { Sql } from "postgres";
import type { RunCommand } from "../../machines/index.js";

/** How long a node that took a row has before another (or it again) takes it. */
const LEND_SECONDS = 10;

export interface DueWake {
  readonly run_id: string;
  /** How often it was taken since the run's last commit. */
  readonly tries: number;
}

export interface DueCommand {
  readonly id: string;
  readonly run_id: string;
  readonly command: RunCommand;
}

export interface DueEffect {
  readonly id: string;
  readonly run_id: string;
  readonly kind: string;
}

type Take<Row> = (sql: Sql, shards: readonly number[], limit: number) => Promise<readonly Row[]>;

export const takeWakes = take<DueWake>("wakes", "run_id", "t.run_id, t.tries");
export const takeInbox = take<DueCommand>("inbox", "id", "t.id, t.run_id, t.command");
export const takeOutbox = take<DueEffect>("outbox", "id", "t.id, t.run_id, t.kind");

/** The three tables are lent from alike: the longest due first, and never one that another node has in hand. */
function take<Row extends object>(table: string, key: string, columns: string): Take<Row> {
  const statement = `
    with due as (
      select ${key} from ${table} where shard = any($1::text::int2[]) and due_at <= now()
      order by due_at limit $2 for update skip locked
    )
    update ${table} t set tries = least(t.tries + 1, 1000), due_at = now() + interval '${LEND_SECONDS} seconds'
    from due where t.${key} = due.${key} returning ${columns}`;
  return (sql, shards, limit) => sql.unsafe<Row[]>(statement, [`{${shards.join(",")}}`, limit], { prepare: true });
}

/** On taking a shard over: everything owed is due now, for whoever held it may be gone. */
export async function reclaim(sql: Sql, shards: readonly number[]): Promise<void> {
  await sql`update outbox set due_at = now() where shard = any(${shards as number[]}::int2[]) and due_at > now()`;
  await sql`update inbox set due_at = now() where shard = any(${shards as number[]}::int2[]) and due_at > now()`;
}

/** Unfinished runs that nothing would ever look at again: neither a wake row nor a named outside thing. Law 7 wants 0. */
export async function countUnwatched(sql: Sql): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from runs r
    where r.terminal_at is null and r.awaited_signal is null and r.paused_reason is distinct from 'quarantine'
      and not exists (select 1 from wakes w where w.run_id = r.id)
      and not exists (select 1 from outbox o where o.run_id = r.id)`;
  return row?.count ?? 0;
}
