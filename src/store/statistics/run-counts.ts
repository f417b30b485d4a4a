// How many runs match a filter, by workflow, version, state and reason of a pause. Runs that have not ended are counted by an index of
// theirs; those that have ended are kept counts (end-counts.ts), if the filter asks for nothing that these do not know.
import { and, type SQL, sql } from "drizzle-orm";
import type { Sql } from "postgres";
import { isTerminal, RUN_STATES, type RunState } from "../../../machines/index.js";
import { query } from "../engine/query.js";
import { columnsOf, matchingRuns, type RunFilter } from "../lists/matching-runs.js";
import { OF_RUN, type Reach, within } from "../lists/reach.js";
import { runs } from "../schema.js";
import { NO_TENANT, OF_CHANGES, OF_COUNTS } from "./end-counts.js";

export interface RunCount {
  readonly workflow_id: string;
  readonly version: number;
  readonly state: string;
  readonly paused_reason?: string;
  readonly count: number;
  /** There are at least this many. Then other kinds of runs may be missing. */
  readonly count_is_lower_bound?: true;
}

export interface RunCounts {
  readonly items: readonly RunCount[];
  /** There are more kinds of runs. */
  readonly truncated?: true;
}

export interface CountBounds {
  /** Runs that match any other filter. */
  readonly matching: number;
  /** Runs that are read beside the kept counts, of those that have not ended and of those that ended last. */
  readonly beside: number;
  /** Kinds of runs in an answer. */
  readonly items: number;
}

const BOUNDS: CountBounds = { matching: 10_000, beside: 100_000, items: 10_000 };

export async function countRuns(
  database: Sql,
  reach: Reach,
  filter: RunFilter,
  { exact = false, bounds = BOUNDS }: { readonly exact?: boolean; readonly bounds?: CountBounds } = {},
): Promise<RunCounts> {
  const found = isKept(filter)
    ? keptCounts(reach, filter, exact ? undefined : bounds.beside)
    : matchingCounts(columnsOf(await matchingRuns(database, reach, filter), KIND), exact ? undefined : bounds.matching);
  const rows = await query(database).execute<CountRow>(sql`
    with ${found}
    select workflow_id, version, state, paused_reason, sum(count)::float8 as count, bool_or(cut) as cut
    from found group by 1, 2, 3, 4 having sum(count) > 0 order by 1, 2, 3, 4 limit ${bounds.items + 1}`);
  const items = rows.slice(0, bounds.items).map(itemOf);
  return { items, ...(rows.length > items.length && { truncated: true }) };
}

interface CountRow extends Record<string, unknown> {
  readonly workflow_id: string;
  readonly version: number;
  readonly state: string;
  readonly paused_reason: string | null;
  readonly count: number;
  readonly cut: boolean;
}

function itemOf({ workflow_id, version, state, paused_reason, count, cut }: CountRow): RunCount {
  return {
    ...{ workflow_id, version, state },
    ...(paused_reason !== null && { paused_reason }),
    count,
    ...(cut && { count_is_lower_bound: true }),
  };
}

/** What the kept counts know of a run. */
const KEPT: ReadonlySet<string> = new Set<keyof RunFilter>(["workflowId", "version", "states", "tenantId", "rootOnly"]);

function isKept(filter: RunFilter): boolean {
  return Object.entries(filter).every(([name, value]) => value === undefined || KEPT.has(name));
}

const KIND = sql`${runs.workflowId}, ${runs.version}, ${runs.state}, ${runs.pausedReason}`;

/** Relations of a `with`; the last one is `found`. `most`: the runs that are read. */
function matchingCounts(matching: SQL, most: number | undefined): SQL {
  return sql`read as materialized (${limited(matching, most)}), found as (${byKind("read", most)})`;
}

/**
 * In one statement: each run is in one of the parts. The runs to read are chosen by what the index is for, and compared with the rest of the
 * filter afterwards: no other index is of use, and the bound is one of rows that are read.
 */
function keptCounts(reach: Reach, filter: RunFilter, most: number | undefined): SQL {
  const [ofRuns, ofCounts, ofChanges] = [OF_RUN, OF_COUNTS, OF_CHANGES].map((of) => within(reach, of) ?? sql`true`);
  const part = sql`select workflow_id, version, state, paused_reason, tenant_id, parent_run_id is null as root from runs
    where ${filter.workflowId === undefined ? sql`true` : sql`workflow_id = ${filter.workflowId}`} and ${ofRuns}`;
  const asksFor = (terminal: boolean) =>
    sql.raw(String(statesOf(filter).some((state) => isTerminal(state) === terminal)));
  const unended = sql`${part} and ${asksFor(false)} and terminal_at is null`;
  const ended = sql`${part} and ${asksFor(true)} and terminal_at >= (select until from horizon)`;
  const kind = sql`workflow_id, version, ended_as, null::text, `;
  return sql`
    horizon as materialized (select coalesce((select until from end_horizon where id = 1), '-infinity') as until),
    unended as materialized (${limited(unended, most)}),
    ended as materialized (${limited(ended, most)}),
    found as (
      ${byKind("unended", most, conditionsOf(filter, sql`state`))}
      union all ${byKind("ended", most, conditionsOf(filter, sql`state`))}
      union all select ${kind} count, false from run_end_counts where minute = '-infinity' and ${conditionsOf(filter, sql`ended_as`)} and ${ofCounts}
      union all select ${kind} change, false from run_end_changes, horizon
        where (ended_at is null or ended_at < until) and ${conditionsOf(filter, sql`ended_as`)} and ${ofChanges}
    )`;
}

const statesOf = ({ states }: RunFilter) => (states ?? RUN_STATES) as readonly RunState[];

function limited(select: SQL, most: number | undefined): SQL {
  return most === undefined ? select : sql`${select} limit ${most + 1}`;
}

/** `cut`: there were more of them than were read. */
function byKind(relation: string, most: number | undefined, where: SQL = sql`true`): SQL {
  const from = sql.identifier(relation);
  const cut = most === undefined ? sql`false` : sql`(select count(*) > ${most}::int from ${from})`;
  return sql`select workflow_id, version, state, paused_reason, count(*) as count, ${cut} as cut
    from ${from} where ${where} group by 1, 2, 3, 4`;
}

/** The conditions on a row with these columns; no tenant is null in one table, and all zeros in another. */
function conditionsOf({ workflowId, version, states, tenantId, rootOnly }: RunFilter, state: SQL): SQL {
  const none = sql`${NO_TENANT}::text::uuid`;
  const conditions = [
    workflowId === undefined ? undefined : sql`workflow_id = ${workflowId}`,
    version === undefined ? undefined : sql`version = ${version}`,
    states === undefined ? undefined : sql`${state} = any(${sql.param([...states])}::text[])`,
    tenantId === undefined ? undefined : sql`coalesce(tenant_id, ${none}) = ${tenantId}::text::uuid`,
    rootOnly ? sql`root` : undefined,
  ];
  return and(...conditions) ?? sql`true`;
}
