// How long the runs of a workflow take, and their steps: read from the newest runs that ended in a window, and from their audit rows. It is
// a sample, never all of them.
import type { Sql } from "postgres";
import { present } from "../lists/item.js";
import { OF_RUN, withinReach } from "../lists/reach.js";
import { isDry } from "./end-counts.js";
import { ofVersion, type PerformanceBounds, time, type Window } from "./window.js";

/** Absent: there is nothing to measure. */
export interface Percentiles {
  readonly p50?: number;
  readonly p90?: number;
  readonly p99?: number;
}

export interface StepDurations {
  readonly step_id: string;
  readonly count: number;
  readonly failed: number;
  readonly p50_ms?: number;
  readonly p90_ms?: number;
  readonly p99_ms?: number;
}

export interface Durations {
  readonly run_ms: { readonly count: number } & Percentiles;
  readonly steps: readonly StepDurations[];
  readonly runs_read: number;
  readonly is_sample?: true;
}

interface Sampled {
  readonly id: string;
  readonly state: string;
  readonly ms: number;
  readonly started_at: Date;
}

export async function readDurations(sql: Sql, window: Window, bounds: PerformanceBounds): Promise<Durations> {
  // Branches and items have steps of the workflow, too, and there may be many of them.
  const roots = await newest(sql, window, { where: sql`parent_run_id is null`, bounds });
  const children = await newest(sql, window, { where: sql`parent_run_id is not null`, bounds });
  const left = [roots, children].some(({ length }) => length > bounds.sample) || (await isLarger(sql, window, bounds));
  const read = [roots, children].map((runs) => runs.slice(0, bounds.sample));
  const { steps, cut } = await stepsOf(sql, inTurn(read), bounds.auditRows);
  const finished = (read[0] ?? []).filter(({ state }) => state !== "cancelled").map(({ ms }) => Math.round(ms));
  return {
    run_ms: { count: finished.length, ...percentiles(finished) },
    steps,
    runs_read: read.flat().length,
    ...((left || cut) && { is_sample: true }),
  };
}

/** The newest that ended, and one more than the sample if there is one. */
function newest(
  sql: Sql,
  window: Window,
  { where, bounds: { looked, sample } }: { readonly where: ReturnType<Sql>; readonly bounds: PerformanceBounds },
): Promise<readonly Sampled[]> {
  return sql<Sampled[]>`
    select id, state, (extract(epoch from terminal_at - started_at) * 1000)::float8 as ms, started_at
    from (${endedIn(sql, window, looked)}) r
    where ${where} and ${ofVersion(sql, window)} and not ${isDry(sql, "r.id")} order by terminal_at desc limit ${sample + 1}`;
}

/** Whether more runs ended than are looked through. */
async function isLarger(sql: Sql, window: Window, { looked }: PerformanceBounds): Promise<boolean> {
  const [row] = await sql<{ larger: boolean }[]>`
    select count(*) > ${looked}::int as larger from (${endedIn(sql, window, looked + 1)}) r`;
  return row?.larger ?? false;
}

function endedIn(sql: Sql, { reach, workflowId, from, to }: Window, most: number) {
  return sql`
    select id, state, parent_run_id, version, started_at, terminal_at from runs
    where workflow_id = ${workflowId} and terminal_at >= ${time(from)}::text::timestamptz and terminal_at < ${time(to)}::text::timestamptz
      and ${withinReach(sql, reach, OF_RUN)}
    order by terminal_at desc limit ${most}`;
}

/** The first of each, the second of each, and so on: the rows that are read may not suffice for all. */
function inTurn(groups: readonly (readonly Sampled[])[]): readonly Sampled[] {
  const longest = Math.max(...groups.map(({ length }) => length));
  return Array.from({ length: longest }, (_, nth) => groups.flatMap((group) => group[nth] ?? [])).flat();
}

interface StepRow {
  readonly step_id: string;
  readonly count: number;
  readonly failed: number;
  readonly ms: readonly (number | null)[] | null;
  readonly cut: boolean;
}

const MAX_STEPS = 1_000;
/** The most rows that are read of one run, its last ones: a loop does not use up the rows of all others. */
const ROWS_OF_RUN = 1_000;
/** Bytes of metadata as stored. The text of a large output is not searched for the duration beside it. */
const METADATA_BYTES = 16_384;

/** Rows of steps, not of their undos, and without the attempts that are followed by another. */
async function stepsOf(sql: Sql, runs: readonly Sampled[], most: number) {
  const rows = await sql<StepRow[]>`
    with read as materialized (
      select found.* from unnest(${`{${runs.map(({ id }) => id).join(",")}}`}::text::uuid[],
        ${`{${runs.map(({ started_at }) => started_at.toISOString()).join(",")}}`}::text::timestamptz[]) run(id, started_at)
      cross join lateral (
        select step_id, event_type, to_state, case when pg_column_size(metadata) <= ${METADATA_BYTES}::int then metadata end as metadata
        from run_events where run_id = run.id and recorded_at >= run.started_at - interval '1 minute'
        order by seq desc limit ${ROWS_OF_RUN}) found
      limit ${most + 1}
    )
    select step_id, count(*)::int as count, (count(*) filter (where event_type = 'step.failed'))::int as failed,
      percentile_disc(array[0.5, 0.9, 0.99]) within group (order by (metadata->>'duration_ms')::float8) as ms,
      (select count(*) > ${most}::int from read) as cut
    from read
    where event_type in ('step.succeeded', 'step.failed') and step_id is not null and to_state <> 'compensating'
      and metadata->>'phase' is null and (event_type = 'step.succeeded' or metadata->>'will_retry' is distinct from 'true')
    group by step_id order by step_id limit ${MAX_STEPS}`;
  return { steps: rows.map(stepItem), cut: rows[0]?.cut ?? false };
}

function stepItem({ step_id, count, failed, ms }: StepRow): StepDurations {
  const [p50_ms, p90_ms, p99_ms] = ms ?? [];
  return present({ step_id, count, failed, p50_ms, p90_ms, p99_ms }) as unknown as StepDurations;
}

function percentiles(values: readonly number[]): Percentiles {
  if (values.length === 0) return {};
  const sorted = [...values].sort((one, other) => one - other);
  const at = (share: number) => sorted[Math.ceil(share * sorted.length) - 1] ?? 0;
  return { p50: at(0.5), p90: at(0.9), p99: at(0.99) };
}
