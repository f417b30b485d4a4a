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

export async function takeWakes(sql: Sql, shards: readonly number[], limit: number): Promise<readonly DueWake[]> {
  return await sql<DueWake[]>`
    with due as (
      select run_id from wakes where shard = any(${shards as number[]}::int2[]) and due_at <= now()
      order by due_at limit ${limit} for update skip locked
    )
    update wakes w set tries = least(w.tries + 1, 1000), due_at = now() + make_interval(secs => ${LEND_SECONDS})
    from due where w.run_id = due.run_id returning w.run_id, w.tries`;
}

export interface DueCommand {
  readonly id: string;
  readonly run_id: string;
  readonly command: RunCommand;
}

export async function takeInbox(sql: Sql, shards: readonly number[], limit: number): Promise<readonly DueCommand[]> {
  return await sql<DueCommand[]>`
    with due as (
      select id from inbox where shard = any(${shards as number[]}::int2[]) and due_at <= now()
      order by due_at limit ${limit} for update skip locked
    )
    update inbox i set tries = least(i.tries + 1, 1000), due_at = now() + make_interval(secs => ${LEND_SECONDS})
    from due where i.id = due.id returning i.id, i.run_id, i.command`;
}

export interface DueEffect {
  readonly id: string;
  readonly run_id: string;
  readonly kind: string;
}

export async function takeOutbox(sql: Sql, shards: readonly number[], limit: number): Promise<readonly DueEffect[]> {
  return await sql<DueEffect[]>`
    with due as (
      select id from outbox where shard = any(${shards as number[]}::int2[]) and due_at <= now()
      order by due_at limit ${limit} for update skip locked
    )
    update outbox o set tries = least(o.tries + 1, 1000), due_at = now() + make_interval(secs => ${LEND_SECONDS})
    from due where o.id = due.id returning o.id, o.run_id, o.kind`;
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
