// The roots that ended in each part of a window, by how they ended. Minutes that are counted (end-counts.ts) are added up; what ended in
// others is read by an index, a bounded number of rows. Dry runs do not count.
import type { Sql } from "postgres";
import { OF_RUN, withinReach } from "../lists/reach.js";
import { isDry, OF_CHANGES, OF_COUNTS } from "./end-counts.js";
import { ofVersion, type PerformanceBounds, time, type Window } from "./window.js";

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

/** A span of time in epoch milliseconds. */
type Span = readonly [low: number, high: number];

interface Row {
  readonly part: number;
  readonly state: keyof Ends;
  readonly count: number;
  readonly cut: boolean;
}

export async function countEndsByPart(sql: Sql, window: Window, bounds: PerformanceBounds): Promise<Read> {
  const kept = await keptSpan(sql, window);
  const rows = [
    ...(await readEnds(sql, window, spansOutside(window, kept), bounds.ends)),
    ...(kept ? await keptEnds(sql, window, kept) : []),
  ];
  const parts = Array.from({ length: window.parts }, (): Ends => ({ succeeded: 0, failed: 0, cancelled: 0 }));
  for (const { part, state, count } of rows) {
    const ends = parts[part];
    if (ends && state in ends) ends[state] += count;
  }
  return { parts, cut: rows.some(({ cut }) => cut) };
}

/** The span of the window whose minutes are all counted. Undefined: there is none. The horizon may move on before they are read, within its minute. */
async function keptSpan(sql: Sql, { from, to }: Window): Promise<Span | undefined> {
  const [row] = await sql<{ since: number; until: number }[]>`
    select extract(epoch from since)::float8 * 1000 as since, extract(epoch from date_trunc('minute', until))::float8 * 1000 as until
    from end_horizon where id = 1`;
  const span = [Math.max(from, row?.since ?? to), Math.min(to, row?.until ?? from)] as const;
  return span[0] < span[1] ? span : undefined;
}

/** The rest of the window, each span within one part. */
function spansOutside({ from, to, partMs, parts }: Window, kept: Span = [to, to]): readonly Span[] {
  const starts = Array.from({ length: parts }, (_, nth) => from + nth * partMs);
  const spans = starts.flatMap((start): Span[] => [
    [start, Math.min(start + partMs, kept[0])],
    [Math.max(start, kept[1]), start + partMs],
  ]);
  return spans.filter(([low, high]) => low < high);
}

/** A limit for each span, so that a busy one does not outweigh the others. It bounds what is read; what counts is chosen afterwards. */
function readEnds(sql: Sql, window: Window, spans: readonly Span[], most: number): Promise<readonly Row[]> {
  const each = Math.max(1, Math.floor(most / Math.max(1, spans.length)));
  return sql<Row[]>`
    select ${partOf(sql, window, sql`low`)} as part, state, (count(*) filter (where counts))::int as count,
      sum(count(*)) over (partition by low) > ${each}::int as cut
    from ${spansOf(sql, spans)}
    cross join lateral (
      select state, nth <= ${each}::int and parent_run_id is null and ${ofVersion(sql, window)} and not ${isDry(sql, "r.id")} as counts
      from (
        select id, state, parent_run_id, version, row_number() over () as nth from (
          select id, state, parent_run_id, version from runs
          where workflow_id = ${window.workflowId} and terminal_at >= low and terminal_at < high
            and ${withinReach(sql, window.reach, OF_RUN)} limit ${each + 1}) found
      ) r
    ) ended
    group by low, state`;
}

function keptEnds(sql: Sql, window: Window, [low, high]: Span): Promise<readonly Row[]> {
  const within = (column: ReturnType<Sql>) =>
    sql`workflow_id = ${window.workflowId} and ${column} >= ${time(low)}::text::timestamptz and ${column} < ${time(high)}::text::timestamptz`;
  return sql<Row[]>`
    select ${partOf(sql, window, sql`at`)} as part, state, sum(count)::int as count, false as cut
    from (
      select minute as at, ended_as as state, count from run_end_counts
      where ${within(sql`minute`)} and root and not dry and ${ofVersion(sql, window)}
        and ${withinReach(sql, window.reach, OF_COUNTS)}
      union all
      select ended_at, ended_as, change from run_end_changes
      where ${within(sql`ended_at`)} and root and not ${isDry(sql, "run_end_changes.run_id")} and ${ofVersion(sql, window)}
        and ${withinReach(sql, window.reach, OF_CHANGES)}
    ) kept
    group by 1, 2`;
}

/** The spans as rows with the columns `low` and `high`. */
function spansOf(sql: Sql, spans: readonly Span[]) {
  const [lows, highs] = [spans.map(([low]) => low), spans.map(([, high]) => high)];
  return sql`unnest(${list(lows)}::text::timestamptz[], ${list(highs)}::text::timestamptz[]) s(low, high)`;
}

/** The number of the part that a time is in. */
function partOf(sql: Sql, { from, partMs }: Window, column: ReturnType<Sql>) {
  return sql`floor(extract(epoch from ${column} - ${time(from)}::text::timestamptz) * 1000 / ${partMs}::float8)::int`;
}

const list = (times: readonly number[]) => `{${times.map(time).join(",")}}`;
