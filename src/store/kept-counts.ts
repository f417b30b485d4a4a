// Keeps the number of ended runs that the store holds, by kind: off the path of commits, on one node at a time. Nothing here answers
// clients: run-counts.ts adds what is not counted yet.
//
// One rule: `run_counts` has the runs that ended before the horizon (the second row of `end_horizon`). What became visible behind it, and
// what was deleted behind it, is noted by the database in `run_count_changes` (migration 0030), with the run's own commit, and added here.
import type { Sql, TransactionSql } from "postgres";
import { CLOSED_AFTER, COUNTING_LOCK } from "./end-counts.js";

/** Runs that one statement counts, or all that ended in the same millisecond. */
const STRIDE_RUNS = 50_000;
/** In one call. A node that stops waits for it. */
const STRIDES = 40;
export const NO_TENANT = "00000000-0000-0000-0000-000000000000";

interface Span {
  readonly from: string;
  readonly to: string;
  /** Nothing that is closed lies behind `to`. */
  readonly last: boolean;
}

/** All ends that are closed, unless another node counts, or has counted those that are older than so many seconds. */
export async function keepCounts(sql: Sql, { seconds = 0 } = {}): Promise<void> {
  if (seconds > 0 && (await isYoung(sql, seconds))) return;
  for (let nth = 0; nth < STRIDES; nth++) if (await sql.begin("isolation level read committed", countNext)) break;
  // Kinds whose last run is deleted.
  await sql`delete from run_counts where count = 0`;
}

async function isYoung(sql: Sql, seconds: number): Promise<boolean> {
  const [row] = await sql<{ young: boolean }[]>`
    select until > now() - ${seconds}::float8 * interval '1 second' as young from end_horizon where id = 2`;
  return row?.young ?? false;
}

/** Whether there is nothing left to count. */
async function countNext(sql: TransactionSql): Promise<boolean> {
  const [lock] = await sql<{ mine: boolean }[]>`select pg_try_advisory_xact_lock(${COUNTING_LOCK}) as mine`;
  if (!lock?.mine) return true;
  await sql`insert into end_horizon (id, until) values (2, '-infinity') on conflict (id) do nothing`;
  // Deletions of runs wait from here on: the database compares them with the new horizon.
  await sql`select from end_horizon where id = 2 for update`;
  const span = await nextSpan(sql);
  // A statement of its own: it has a later snapshot, with every transaction that was over by then.
  if (span) await countSpan(sql, span);
  return span?.last ?? true;
}

async function nextSpan(sql: TransactionSql): Promise<Span | undefined> {
  const [span] = await sql<Span[]>`
    with open as materialized (
      select until as start, (
        select least(now(), min(xact_start)) - ${CLOSED_AFTER}::text::interval from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid() and xact_start is not null) as closed
      from end_horizon where id = 2
    ), next as (
      select start, closed, coalesce((
        select greatest(terminal_at, start + interval '1 ms') from runs
        where terminal_at >= start order by terminal_at offset ${STRIDE_RUNS} limit 1), closed) as until
      from open
    )
    select start::text as from, date_trunc('milliseconds', greatest(start, least(until, closed)))::text as to, until >= closed as last from next`;
  return span;
}

/** What became visible late in the span itself is counted there. */
async function countSpan(sql: TransactionSql, { from, to }: Span): Promise<void> {
  await sql`
    with noted as (
      delete from run_count_changes where ended_at is null or ended_at < ${to}::text::timestamptz
      returning workflow_id, version, tenant_id, root, ended_as, change, ended_at
    ), summed as (
      select workflow_id, version, tenant_id, root, ended_as, sum(change) as count from noted
      where ended_at is null or ended_at < ${from}::text::timestamptz group by 1, 2, 3, 4, 5
      union all
      select workflow_id, version, coalesce(tenant_id, ${NO_TENANT}::text::uuid), parent_run_id is null, state, count(*) from runs
      where terminal_at >= ${from}::text::timestamptz and terminal_at < ${to}::text::timestamptz group by 1, 2, 3, 4, 5
    ), counted as (
      insert into run_counts (workflow_id, version, tenant_id, root, ended_as, count)
      select workflow_id, version, tenant_id, root, ended_as, sum(count) from summed group by 1, 2, 3, 4, 5
      on conflict (workflow_id, version, tenant_id, root, ended_as) do update set count = run_counts.count + excluded.count
    )
    update end_horizon set until = ${to}::text::timestamptz where id = 2`;
}
