// The roots that ended in each part of a window, by how they ended. Minutes that are counted (end-counts.ts) are added up; what ended in
// others is read by an index, a bounded number of rows. Dry runs do not count.
import type { Sql } from "postgres";
import { notDry, ofVersion, type PerformanceBounds, time, type Window } from "./window.js";

export interface Ends {
  succeeded: number;
  failed: number;
  cancelled: number;
}

interface Read {
  readonly parts: readonly Ends[];
  /** More runs ended than were read. */
  readonly cut: boolean;
}

/** From and to, in epoch milliseconds. */
type Span = readonly [low: number, high: number];

interface Row {
  readonly part: number;
  readonly state: keyof Ends;
  readonly count: number;
  readonly cut: boolean;
}

export async function countEndsByPart(sql: Sql, window: Window, bounds: PerformanceBounds): Promise<Read> {
  const kept = window.version === undefined ? await keptSpans(sql, window) : [];
  const rows = [
    ...(await readEnds(sql, window, spansOutside(window, kept), bounds.ends)),
    ...(kept.length > 0 ? await keptEnds(sql, window, kept) : []),
    ...(kept.length > 0 ? await cancelledIn(sql, window, kept, bounds.cancelled) : []),
  ];
  const parts = Array.from({ length: window.parts }, (): Ends => ({ succeeded: 0, failed: 0, cancelled: 0 }));
  for (const { part, state, count } of rows) {
    const ends = parts[part];
    if (ends && state in ends) ends[state] += count;
  }
  return { parts, cut: rows.some(({ cut }) => cut) };
}

const MINUTE_MS = 60_000;

/**
 * The spans of the window whose minutes are all counted. Counts are deleted by their age, so those from the first one on are complete;
 * minutes in which a run ended late are to be counted again.
 */
async function keptSpans(sql: Sql, { workflowId, from, to }: Window): Promise<readonly Span[]> {
  const [row] = await sql<{ since: Date | null; until: Date | null; late: Date[] }[]>`
    select (select min(minute) from run_end_counts where workflow_id = ${workflowId}) as since,
      (select until from end_horizon where id = 1) as until,
      array(select distinct minute from late_run_ends
        where workflow_id = ${workflowId} and minute >= ${time(from)}::text::timestamptz order by minute) as late`;
  if (!row?.since || !row.until) return [];
  const spans: Span[] = [];
  let low = Math.max(from, row.since.getTime());
  const high = Math.min(to, row.until.getTime());
  for (const minute of row.late.map((late) => late.getTime()).filter((late) => late >= low && late < high)) {
    spans.push([low, minute]);
    low = minute + MINUTE_MS;
  }
  return [...spans, [low, high] as const].filter(([first, end]) => first < end);
}

/** The rest of the window, each span within one part. */
function spansOutside({ from, partMs, parts }: Window, kept: readonly Span[]): readonly Span[] {
  const starts = Array.from({ length: parts }, (_, nth) => from + nth * partMs);
  return starts.flatMap((start) => without(kept, [start, start + partMs]));
}

/** What is left of a span. */
function without(others: readonly Span[], [start, end]: Span): readonly Span[] {
  const left: Span[] = [];
  let low = start;
  for (const [first, last] of others) {
    if (last <= low || first >= end) continue;
    if (first > low) left.push([low, first]);
    low = last;
  }
  return low < end ? [...left, [low, end]] : left;
}

/** A limit for each span, so that a busy one does not outweigh the others. It bounds what is read; what counts is chosen afterwards. */
function readEnds(sql: Sql, window: Window, spans: readonly Span[], most: number): Promise<readonly Row[]> {
  const each = Math.max(1, Math.floor(most / Math.max(1, spans.length)));
  return sql<Row[]>`
    select ${partOf(sql, window, sql`low`)} as part, state, (count(*) filter (where counts))::int as count,
      sum(count(*)) over (partition by low) > ${each}::int as cut
    from ${spansOf(sql, spans)}
    cross join lateral (
      select state, nth <= ${each}::int and parent_run_id is null and ${ofVersion(sql, window)} and ${notDry(sql)} as counts
      from (
        select id, state, parent_run_id, version, row_number() over () as nth from (
          select id, state, parent_run_id, version from runs
          where workflow_id = ${window.workflowId} and terminal_at >= low and terminal_at < high limit ${each + 1}) found
      ) r
    ) ended
    group by low, state`;
}

function keptEnds(sql: Sql, window: Window, spans: readonly Span[]): Promise<readonly Row[]> {
  return sql<Row[]>`
    select ${partOf(sql, window, sql`minute`)} as part, state, sum(count)::int as count, false as cut
    from ${spansOf(sql, spans)}
    cross join lateral (
      select minute, succeeded, failed from run_end_counts
      where workflow_id = ${window.workflowId} and minute >= low and minute < high) kept
    cross join lateral (values ('succeeded', succeeded), ('failed', failed)) ends (state, count)
    group by 1, 2`;
}

/** The latest to start: no index has their ends, and they are few. */
function cancelledIn(sql: Sql, window: Window, spans: readonly Span[], most: number): Promise<readonly Row[]> {
  return sql<Row[]>`
    with found as materialized (
      select id, state, parent_run_id, terminal_at, version from runs
      where workflow_id = ${window.workflowId} and ended_as = 'cancelled' order by started_at desc, id desc limit ${most + 1}
    )
    select ${partOf(sql, window, sql`terminal_at`)} as part, state, count(*)::int as count,
      (select count(*) > ${most}::int from found) as cut
    from found r
    where exists (select from ${spansOf(sql, spans)} where terminal_at >= low and terminal_at < high)
      and parent_run_id is null and ${notDry(sql)}
    group by 1, 2`;
}

/** As rows: `low` and `high`. */
function spansOf(sql: Sql, spans: readonly Span[]) {
  const [lows, highs] = [spans.map(([low]) => low), spans.map(([, high]) => high)];
  return sql`unnest(${list(lows)}::text::timestamptz[], ${list(highs)}::text::timestamptz[]) s(low, high)`;
}

/** The number of the part that a time is in. */
function partOf(sql: Sql, { from, partMs }: Window, column: ReturnType<Sql>) {
  return sql`floor(extract(epoch from ${column} - ${time(from)}::text::timestamptz) * 1000 / ${partMs}::float8)::int`;
}

const list = (times: readonly number[]) => `{${times.map(time).join(",")}}`;
