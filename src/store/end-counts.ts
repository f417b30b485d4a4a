// Counts the runs that succeed and fail, minute by minute, once a minute is over: off the path of commits, on one node at a time, so that
// statistics need not count a day's runs. Nothing here answers clients: workflowStats (definitions.ts) adds what is not counted yet.
//
// A count must never miss a run. Each transaction that ends a run either began within ten seconds of the end, and then the minute is not closed
// before the transaction has ended; or it leaves a row in `late_run_ends`, with the run (note_run_end in migration 0026), and the
// minute is counted anew. Until then a reader counts such a minute itself.
import type { Sql, TransactionSql } from "postgres";

/** The advisory lock of a count: "ends" in ASCII. Must never change: releases that run side by side have to agree on it. */
export const COUNTING_LOCK = 0x656e6473;
/** A transaction that ends a run began no later than this after the end, or its end is noted as late. Migrations know it, too. */
export const CLOSED_AFTER = "10 seconds";
/** What one statement counts, so that it ends before the statement timeout. */
const STRIDE = "10 minutes";
/** In one call: more than a day, which takes 3 s for a million runs. A node that stops waits for it. */
const STRIDES = 150;

interface Span {
  readonly from: string;
  readonly to: string;
  /** All that is closed lies before `to`. */
  readonly last: boolean;
}

/** All minutes that are over, unless another node counts. */
export async function countEnds(sql: Sql): Promise<void> {
  for (let nth = 0; nth < STRIDES; nth++) if (await sql.begin("isolation level read committed", countNext)) return;
}

/** Whether there is nothing left to count. */
async function countNext(sql: TransactionSql): Promise<boolean> {
  const [lock] = await sql<{ mine: boolean }[]>`select pg_try_advisory_xact_lock(${COUNTING_LOCK}) as mine`;
  if (!lock?.mine) return true;
  // A statement of its own: the count has a later snapshot, with every transaction that was over by now.
  const [span] = await sql<Span[]>`
    select start::text as from, least(closed, start + ${STRIDE}::text::interval)::text as to, closed <= start + ${STRIDE}::text::interval as last
    from (
      select date_trunc('minute', least(now(), min(xact_start)) - ${CLOSED_AFTER}::text::interval) as closed,
        coalesce((select until from end_horizon where id = 1), date_trunc('minute', now() - interval '1 day')) as start
      from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and xact_start is not null
    ) open`;
  if (span) await countSpan(sql, span);
  return span?.last ?? true;
}

/** Old counts are read once an hour: an index by time would be chosen to read those of all workflows. */
async function countSpan(sql: TransactionSql, { from, to }: Span): Promise<void> {
  await sql`
    with late as (
      delete from late_run_ends where minute < ${to}::text::timestamptz returning workflow_id, minute
    ), again as (
      select distinct workflow_id, minute from late where minute < ${from}::text::timestamptz
    ), ended as (
      select workflow_id, date_trunc('minute', terminal_at) as minute, state, id, parent_run_id from runs
      where terminal_at >= ${from}::text::timestamptz and terminal_at < ${to}::text::timestamptz
      union all
      select found.* from again cross join lateral (
        select workflow_id, again.minute, state, id, parent_run_id from runs where workflow_id = again.workflow_id
          and terminal_at >= again.minute and terminal_at < again.minute + interval '1 minute' offset 0) found
    ), forgotten as (
      delete from run_end_counts where minute < ${from}::text::timestamptz - interval '25 hours'
        and date_trunc('hour', ${from}::text::timestamptz) < date_trunc('hour', ${to}::text::timestamptz)
    ), counted as (
      insert into run_end_counts (workflow_id, minute, succeeded, failed)
      select workflow_id, minute, count(*) filter (where state = 'succeeded'), count(*) filter (where state = 'failed')
      from ended where ${countsForRate(sql, "ended")} group by workflow_id, minute
      on conflict (workflow_id, minute) do update set succeeded = excluded.succeeded, failed = excluded.failed
    )
    insert into end_horizon (id, until) values (1, ${to}::text::timestamptz)
    on conflict (id) do update set until = greatest(end_horizon.until, excluded.until)`;
}

/** Cancelled, dry and child runs do not count. The start is looked up by its key: a join was planned as a reading of all starts. */
export function countsForRate(sql: Sql | TransactionSql, run: string) {
  const { parent, state, id } = {
    parent: sql(`${run}.parent_run_id`),
    state: sql(`${run}.state`),
    id: sql(`${run}.id`),
  };
  return sql`${parent} is null and ${state} in ('succeeded', 'failed')
    and coalesce((select (identity->>'dryRun')::bool from run_starts where run_id = ${id}), false) is false`;
}
