// Counts the runs that end, by kind and minute: off the path of commits, on one node at a time, so that nobody who asks need count them. Nothing
// here answers clients: readers add what is not counted yet (run-counts.ts, ends-by-part.ts, definitions.ts).
//
// One rule: `run_end_counts` has the runs that ended before the horizon. A transaction that ends a run began within ten seconds of the end, and
// then the horizon is not moved past the end before it is over; or the database notes the end in `run_end_changes`, with the run's own commit, as
// it notes runs that are deleted behind the horizon (the triggers of `runs`). The notes are added here; until then readers add them.
import type { Sql, TransactionSql } from "postgres";

/** The advisory lock of a count: "ends" in ASCII. Must never change: releases that run side by side have to agree on it. */
const COUNTING_LOCK = 0x656e6473;
/** A transaction that ends a run began no later than this after the end, or its end is noted as late. The trigger knows it, too. */
const CLOSED_AFTER = "10 seconds";
/** Minutes older than this are forgotten: a reader of a longer window of time reads its runs one by one. */
const FORGOTTEN_AFTER = "25 hours";
/** Runs that one statement counts, or all that ended in the same millisecond. Deletions of runs wait for it. */
const STRIDE_RUNS = 20_000;
/** Strides in one call. A node that stops waits for the call. */
const STRIDES = 100;
export const NO_TENANT = "00000000-0000-0000-0000-000000000000";

/** The columns of what is counted, and of what is to be counted. */
export const OF_COUNTS = { tenant: "run_end_counts.tenant_id", workflow: "run_end_counts.workflow_id" };
export const OF_CHANGES = { tenant: "run_end_changes.tenant_id", workflow: "run_end_changes.workflow_id" };

interface Span {
  readonly from: string;
  readonly to: string;
  /** Nothing that is closed lies behind `to`. */
  readonly last: boolean;
}

/** All ends that are closed, unless another node counts, or has counted those that are older than so many seconds. */
export async function countEnds(sql: Sql, { seconds = 0 } = {}): Promise<void> {
  if (seconds > 0 && (await isFresh(sql, seconds))) return;
  for (let nth = 0; nth < STRIDES; nth++) if (await sql.begin("isolation level read committed", countNext)) return;
}

async function isFresh(sql: Sql, seconds: number): Promise<boolean> {
  const [row] = await sql<{ fresh: boolean }[]>`
    select until > now() - ${seconds}::float8 * interval '1 second' as fresh from end_horizon where id = 1`;
  return row?.fresh ?? false;
}

/** Whether there is nothing left to count. */
async function countNext(sql: TransactionSql): Promise<boolean> {
  const [lock] = await sql<{ mine: boolean }[]>`select pg_try_advisory_xact_lock(${COUNTING_LOCK}) as mine`;
  if (!lock?.mine) return true;
  await sql`insert into end_horizon (id, since, until) values (1, '-infinity', '-infinity') on conflict do nothing`;
  // Deletions of runs wait from here on: the database compares them with the new horizon.
  await sql`select from end_horizon where id = 1 for update`;
  await forgetMinutes(sql);
  const span = await nextSpan(sql);
  // A statement of its own: it has a later snapshot, with every transaction that was over by then.
  if (span) await countSpan(sql, span);
  return span?.last ?? true;
}

/** Once an hour, because it reads all counts: an index by minute would be chosen to read those of all workflows. */
async function forgetMinutes(sql: TransactionSql): Promise<void> {
  const moved = await sql`
    update end_horizon set since = date_trunc('hour', now() - ${FORGOTTEN_AFTER}::text::interval)
    where id = 1 and since < date_trunc('hour', now() - ${FORGOTTEN_AFTER}::text::interval)`;
  if (moved.count === 0) return;
  await sql`delete from run_end_counts where minute > '-infinity' and minute < (select since from end_horizon where id = 1)`;
}

async function nextSpan(sql: TransactionSql): Promise<Span | undefined> {
  const [span] = await sql<Span[]>`
    with open as materialized (
      select until as start, (
        select least(now(), min(xact_start)) - ${CLOSED_AFTER}::text::interval from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid() and xact_start is not null) as closed
      from end_horizon where id = 1
    ), next as (
      select start, closed, coalesce((
        select greatest(terminal_at, start + interval '1 ms') from runs
        where terminal_at >= start order by terminal_at offset ${STRIDE_RUNS} limit 1), closed) as until
      from open
    )
    select start::text as from, date_trunc('milliseconds', greatest(start, least(until, closed)))::text as to, until >= closed as last from next`;
  return span;
}

/**
 * What became visible late in the span itself is counted there. A run that is gone is taken off the total, and not off its minute: retention keeps
 * at least a day, so no window of a day would be without it.
 */
async function countSpan(sql: TransactionSql, { from, to }: Span): Promise<void> {
  await sql`
    with noted as (
      delete from run_end_changes where ended_at is null or ended_at < ${to}::text::timestamptz
      returning workflow_id, version, tenant_id, root, ended_as, change, ended_at, run_id
    ), found as materialized (
      select workflow_id, version, tenant_id, root, ended_as, change, ended_at, run_id from noted
      where ended_at is null or ended_at < ${from}::text::timestamptz
      union all
      select workflow_id, version, coalesce(tenant_id, ${NO_TENANT}::text::uuid), parent_run_id is null, state, 1, terminal_at, id from runs
      where terminal_at >= ${from}::text::timestamptz and terminal_at < ${to}::text::timestamptz
    ), placed as (
      select workflow_id, version, tenant_id, root, ended_as, false as dry, '-infinity'::timestamptz as minute, change from found
      union all
      select workflow_id, version, tenant_id, root, ended_as, root and ${isDry(sql, "found.run_id")}, date_trunc('minute', ended_at), change
      from found where ended_at >= (select since from end_horizon where id = 1)
    ), counted as (
      insert into run_end_counts (workflow_id, version, tenant_id, root, ended_as, dry, minute, count)
      select workflow_id, version, tenant_id, root, ended_as, dry, minute, sum(change) from placed group by 1, 2, 3, 4, 5, 6, 7
      on conflict (workflow_id, minute, version, tenant_id, root, ended_as, dry) do update set count = run_end_counts.count + excluded.count
    )
    update end_horizon set until = ${to}::text::timestamptz where id = 1`;
  // Kinds whose last run is deleted.
  await sql`delete from run_end_counts where minute = '-infinity' and count = 0`;
}

/** Looked up by the key of the start: a join was planned as a reading of all starts. `runId`: the column, with its table. */
export function isDry(sql: Sql | TransactionSql, runId: `${string}.${string}`) {
  return sql`coalesce((select (identity->>'dryRun')::bool from run_starts where run_starts.run_id = ${sql(runId)}), false)`;
}
