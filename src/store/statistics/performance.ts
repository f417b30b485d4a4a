// How a workflow does over a time: the runs that end in each part of it, and how long the newest of them and their steps took. Every
// statement reads a bounded number of rows; whatever is beyond a bound is said.
import type { Sql } from "postgres";
import type { Reach } from "../lists/reach.js";
import { countEndsByPart } from "./ends-by-part.js";
import { type Percentiles, readDurations, type StepDurations } from "./step-durations.js";
import type { PerformanceBounds, Window } from "./window.js";

/** So many minutes make a part as the window has hours. */
const PARTS = 60;
const MINUTE_MS = 60_000;

export interface PerformanceQuery {
  readonly workflowId: string;
  readonly version?: number;
  readonly hours: number;
}

const BOUNDS: PerformanceBounds = {
  ...{ ends: 100_000, looked: 50_000, sample: 500, auditRows: 20_000 },
};

export interface Performance {
  readonly workflow_id: string;
  readonly version?: number;
  readonly from: string;
  readonly to: string;
  readonly bucket_ms: number;
  readonly buckets: readonly object[];
  readonly count_is_lower_bound?: true;
  readonly run_ms: { readonly count: number } & Percentiles;
  readonly steps: readonly StepDurations[];
  readonly runs_read: number;
  readonly is_sample?: true;
}

export async function workflowPerformance(
  sql: Sql,
  reach: Reach,
  { workflowId, version, hours }: PerformanceQuery,
  bounds: Partial<PerformanceBounds> = {},
): Promise<Performance> {
  const within = { ...BOUNDS, ...bounds };
  const window = { reach, ...(await windowOf(sql, { workflowId, version, hours })) };
  const { parts, cut } = await countEndsByPart(sql, window, within);
  const durations = await readDurations(sql, window, within);
  return {
    workflow_id: workflowId,
    ...(version !== undefined && { version }),
    ...{ from: instant(window.from), to: instant(window.to), bucket_ms: window.partMs },
    buckets: parts.map((ends, nth) => ({ at: instant(window.from + nth * window.partMs), ...ends })),
    ...(cut && { count_is_lower_bound: true }),
    ...durations,
  };
}

/** The window by the clock of the database, which gave the runs their times. */
async function windowOf(sql: Sql, { hours, ...asked }: PerformanceQuery): Promise<Omit<Window, "reach">> {
  const [row] = await sql<
    { minute: number }[]
  >`select (extract(epoch from date_trunc('minute', now())) * 1000)::float8 as minute`;
  const to = (row?.minute ?? 0) + MINUTE_MS;
  const partMs = (hours * 60 * MINUTE_MS) / PARTS;
  return { ...asked, from: to - PARTS * partMs, to, partMs, parts: PARTS };
}

const instant = (ms: number) => new Date(ms).toISOString();
