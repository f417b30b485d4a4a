// The runs that match a filter of the list, found so that the first page reads a bounded number of rows however many runs there are. What
// cannot be one range of one index is several sets, each read in the order of the list. Nothing here reads the runs themselves.
import { and, between, eq, gt, isNull, lt, or, type SQL, sql } from "drizzle-orm";
import type { PgColumn } from "drizzle-orm/pg-core";
import type { Sql } from "postgres";
import { asRunId, RUN_STATES, type RunId } from "../../../machines/index.js";
import { isUuid } from "../../ids.js";
import { query } from "../engine/query.js";
import { bulkTargets, definitions, forks, runLabels, runs } from "../schema.js";
import { type Range, SLICE_ROWS } from "./page.js";
import { isEverything, OF_RUN, ofJob, type Reach, within } from "./reach.js";

export interface RunFilter {
  readonly workflowId?: string;
  readonly version?: number;
  readonly states?: readonly string[];
  readonly tenantId?: string;
  readonly triggerId?: string;
  readonly parentRunId?: RunId;
  readonly parentStepId?: string;
  readonly rootOnly?: boolean;
  readonly businessKey?: string;
  readonly requiresManualReview?: boolean;
  readonly awaitedSignal?: string;
  readonly currentStep?: string;
  /** The run is paused for one of them. */
  readonly pausedReasons?: readonly string[];
  /** Whether the run stands at an incident. */
  readonly incident?: boolean;
  /** The run stands at an incident, and one of these is the root of its family, or the run itself. */
  readonly incidentIn?: readonly string[];
  /** The code of the error that ended the run, or of the incident that it is paused at. */
  readonly errorCode?: string;
  /** This bulk job has changed the run, or started it again. */
  readonly bulkId?: string;
  /** The run was forked from this one. */
  readonly forkedFrom?: RunId;
  /** Times as Postgres reads them; both bounds are exclusive. */
  readonly startedAfter?: string;
  readonly startedBefore?: string;
  /** The run has all of them. */
  readonly labels?: Readonly<Record<string, string>>;
  /** The beginning of an id or of a business key. */
  readonly q?: string;
}

/** Conditions on runs. No run meets two of them; together they are the filter. */
interface MatchingRuns {
  readonly sets: readonly SQL[];
  /** The sets hold for each of these workflows, one by one: `of_version.workflow_id`. */
  readonly workflows?: SQL;
  /** The filter asks for nothing. */
  readonly unfiltered: boolean;
  /** Rows that are as many as the runs that match, where those cost less to count. */
  readonly counted?: SQL;
}

export async function matchingRuns(database: Sql, reach: Reach, asked: RunFilter): Promise<MatchingRuns> {
  const filter = withoutOwnTenant(asked.incidentIn === undefined ? asked : atAnIncident(asked), reach);
  const looked = await lookUps(database, reach, filter);
  const conditions = and(...conditionsOf(filter), ...looked.conditions, within(reach, OF_RUN));
  const sets = setsOf(filter).map((set) => and(set, conditions) ?? ALL);
  const ofVersion = filter.workflowId === undefined ? filter.version : undefined;
  const asks = Object.values(filter).filter((value) => value !== undefined).length;
  const alone = isEverything(reach) && asks === 1;
  return {
    sets,
    unfiltered: asks === 0,
    ...(ofVersion !== undefined && { workflows: workflowsWith(ofVersion) }),
    ...(alone && looked.rows.length === 1 && { counted: looked.rows[0] }),
  };
}

/** Who reaches one tenant only and asks for it asks for nothing more. Postgres would compare each row of its count once more. */
function withoutOwnTenant(filter: RunFilter, { tenants }: Reach): RunFilter {
  const isOwn = tenants !== "*" && tenants.length === 1 && tenants[0] === filter.tenantId;
  if (!isOwn) return filter;
  const { tenantId: _, ...others } = filter;
  return others;
}

const ALL = sql`true`;
const NONE = sql`false`;

/** Every run of `incident_in` stands at an incident. The filter says so itself, because the list of incidents is short and the list of all runs is not; asked for runs without one, no run matches. */
function atAnIncident(filter: RunFilter): RunFilter {
  return filter.incident === false ? { ...filter, pausedReasons: [] } : { ...filter, incident: true };
}

/**
 * The most that a page reads at once, written into the statement: Postgres keeps the plan of a list without a filter, which costs more to make than
 * to carry out. Of a limit that it does not know it expects a tenth of all runs. The list stops earlier, at the limit of the range.
 */
const KNOWN_LIMIT = sql.raw(`limit ${SLICE_ROWS + 1}`);

/** Each set gives no more than the range may need, so that one with many rows does not outweigh the others. */
export function idsInRange({ sets, workflows, unfiltered }: MatchingRuns, { after, order, limit, offset }: Range): SQL {
  const known = unfiltered && limit + offset <= SLICE_ROWS + 1;
  const needed = known ? KNOWN_LIMIT : sql`limit ${limit + offset}`;
  const ofSet = (set: SQL) => {
    const first = sql`select id, started_at from ${runs} where ${and(set, after)} order by ${order} ${needed}`;
    return workflows ? sql`(select runs.* from ${workflows} cross join lateral (${first}) runs)` : sql`(${first})`;
  };
  const found = sql.join(sets.map(ofSet), sql` union all `);
  return sql`select id from (${found}) found order by ${order} limit ${limit} offset ${offset}`;
}

/** A row for each run that matches. */
export function allOf(matching: MatchingRuns): SQL {
  return sql`(${matching.counted ?? columnsOf(matching, sql``)}) matching`;
}

/** These columns of each run that matches, in any order. */
export function columnsOf({ sets, workflows }: MatchingRuns, columns: SQL): SQL {
  const each = workflows ? sql`${workflows}, ${runs}` : sql`${runs}`;
  return sql.join(
    sets.map((set) => sql`select ${columns} from ${each} where ${set}`),
    sql` union all `,
  );
}

/** Written into the statement: some ends are rare, and a plan that is kept takes all values of a parameter as equally frequent. */
const ENDED_AS: ReadonlyMap<string, SQL> = new Map([
  ["succeeded", sql`${runs.endedAs} = 'succeeded'`],
  ["failed", sql`${runs.endedAs} = 'failed'`],
  ["cancelled", sql`${runs.endedAs} = 'cancelled'`],
]);
const UNFINISHED = isNull(runs.terminalAt);

/** The reasons that `held_as` notes (schema.ts). The others come and go with every wait. */
const HELD_AS: ReadonlyMap<string, SQL> = new Map([
  ["incident", sql`${runs.heldAs} = 'incident'`],
  ["operator", sql`${runs.heldAs} = 'operator'`],
  ["concurrency", sql`${runs.heldAs} = 'concurrency'`],
]);
/** What the filter `incident` means. */
const AT_INCIDENT = "incident";

/**
 * A state or a step is not indexed, because it changes. Runs that have not ended are few and read one by one; those that have ended are
 * found by how they ended.
 */
function setsOf(filter: RunFilter): readonly (SQL | undefined)[] {
  const { states, currentStep, awaitedSignal, errorCode } = filter;
  const open = and(inStates(states), equals(runs.currentStep, currentStep), equals(runs.awaitedSignal, awaitedSignal));
  const pauses = pausesOf(filter);
  if (errorCode !== undefined) return withCode(errorCode, filter).map((set) => and(set, open));
  if (pauses.length > 0) return pauses.map((set) => and(set, open));
  if (awaitedSignal !== undefined) return [and(UNFINISHED, open)];
  if (states === undefined && currentStep === undefined) return [undefined];
  const ended = equals(runs.endedIn, currentStep);
  const ends = [...new Set(states)].flatMap((state) => ENDED_AS.get(state) ?? []);
  const byEnd = states ? ends.map((end) => and(end, ended)) : [ended];
  const unfinished = (states ?? RUN_STATES).some((state) => !ENDED_AS.has(state)) ? [and(UNFINISHED, open)] : [];
  return [...unfinished, ...byEnd];
}

/** One set for each reason that is an exception, and one for all others. Empty: the filter does not ask for a pause. */
function pausesOf({ pausedReasons, incident }: RunFilter): readonly (SQL | undefined)[] {
  if (pausedReasons === undefined) return incident ? [HELD_AS.get(AT_INCIDENT)] : [];
  const asked = new Set(incident ? pausedReasons.filter((reason) => reason === AT_INCIDENT) : pausedReasons);
  const waits = [...asked].filter((reason) => !HELD_AS.has(reason));
  const held = [...asked].flatMap((reason) => HELD_AS.get(reason) ?? []);
  if (waits.length === 0) return held.length > 0 ? held : [NONE];
  return [...held, and(UNFINISHED, sql`${runs.pausedReason} = any(${sql.param(waits)}::text[])`)];
}

/** A run that stands at an incident may have an end in its record, too: of a rollback. Incidents are few, and read one by one. */
function withCode(code: string, { pausedReasons, incident }: RunFilter): readonly (SQL | undefined)[] {
  const ended = pausedReasons === undefined && incident !== true ? [endedWith(code)] : [];
  const stands = incident !== false && (pausedReasons?.includes(AT_INCIDENT) ?? true);
  const standing = and(
    HELD_AS.get(AT_INCIDENT),
    sql`left(${runs.record}->'wait'->'error'->>'code', 256) = ${cut(code)}`,
  );
  const sets = stands ? [...ended, standing] : ended;
  return sets.length > 0 ? sets : [NONE];
}

/** The code as it is stored. */
const cut = (code: string) => sql`left(${code}::text, 256)`;

const endedWith = (code: string) => sql`${runs.endedWith} <> '' and ${runs.endedWith} = ${cut(code)}`;

function inStates(states: RunFilter["states"]): SQL | undefined {
  return states && sql`${runs.state} = any(${sql.param([...states])}::text[])`;
}

/** The indexes on these columns are in the order of the list. The text of a condition has to imply that of a partial index. */
function conditionsOf(filter: RunFilter): readonly (SQL | undefined)[] {
  const { workflowId, version, businessKey, requiresManualReview: review, startedAfter, startedBefore } = filter;
  const ofVersion = workflowId === undefined && version !== undefined;
  return [
    ofVersion ? sql`${runs.workflowId} = of_version.workflow_id` : equals(runs.workflowId, workflowId),
    equals(runs.version, version),
    equals(runs.tenantId, filter.tenantId),
    equals(runs.triggerId, filter.triggerId),
    equals(runs.parentRunId, filter.parentRunId),
    equals(runs.parentStepId, filter.parentStepId),
    filter.rootOnly ? isNull(runs.parentRunId) : undefined,
    businessKey === undefined ? undefined : sql`${runs.businessKey} collate "C" = ${businessKey}`,
    review === undefined
      ? undefined
      : review
        ? sql`${runs.requiresManualReview}`
        : sql`not ${runs.requiresManualReview}`,
    filter.incidentIn && inFamilies(filter.incidentIn),
    filter.incident === false ? sql`${runs.heldAs} is distinct from ${AT_INCIDENT}` : undefined,
    startedAfter === undefined ? undefined : gt(runs.startedAt, sql`${startedAfter}::text::timestamptz`),
    startedBefore === undefined ? undefined : lt(runs.startedAt, sql`${startedBefore}::text::timestamptz`),
  ];
}

/** Read one by one, as all that stand at an incident. */
function inFamilies(roots: readonly string[]): SQL {
  const ids = sql.param([...roots]);
  return sql`(${runs.rootRunId} = any(${ids}::uuid[]) or ${runs.id} = any(${ids}::uuid[]))`;
}

function equals(column: PgColumn, value: string | number | boolean | undefined): SQL | undefined {
  return value === undefined ? undefined : eq(column, value);
}

/** Its own list, because a version is found within a workflow. */
function workflowsWith(version: number): SQL {
  const { key } = definitions;
  return sql`(select distinct ${key} as workflow_id from ${definitions} where ${definitions.version} = ${version}) of_version`;
}

/** Whose rows have no order that the list could follow. */
interface LookUp {
  /** One for each run that matches, with its id. */
  readonly rows: SQL;
  /** Tells whether one run matches. */
  readonly condition: SQL;
}

/** Up to this many runs are looked up one by one, 1 µs each, and sorted. If more match, the list is read in its order until enough have matched. */
const FEW = 10_000;

/** Runs of a tenant of so few are read themselves: what a lookup finds of others, row-level security reads one by one and shows none of. */
const FEW_OF_TENANT = 1_000;

async function lookUps(database: Sql, reach: Reach, { labels = {}, q, bulkId, forkedFrom }: RunFilter) {
  const others = [
    q === undefined ? [] : byBeginning(q),
    bulkId === undefined ? [] : byBulk(reach, bulkId),
    forkedFrom === undefined ? [] : byOrigin(forkedFrom),
  ].flat();
  const all = [...Object.entries(labels).map(byLabel), ...others];
  const own = all.length > 0 && within({ tenants: reach.tenants }, OF_RUN);
  if (own) {
    const ids = sql`select id from runs where ${own}`;
    const [count = 0] = await countsOf(database, [ids], FEW_OF_TENANT);
    const ofTenant = sql`${runs.id} = any(array(${ids}))`;
    if (count <= FEW_OF_TENANT) return { rows: [], conditions: [ofTenant, ...all.map(({ condition }) => condition)] };
  }
  const rows = all.map((lookUp) => lookUp.rows);
  const counts = rows.length === 0 ? [] : await countsOf(database, rows);
  const fewest = Math.min(...counts);
  const driver = fewest > FEW ? -1 : counts.indexOf(fewest);
  const conditions = all.map(({ rows, condition }, index) =>
    index === driver ? sql`${runs.id} = any(array(${rows}))` : condition,
  );
  return { rows, conditions };
}

/** The number of rows of each select, up to one more than `most`. */
async function countsOf(database: Sql, selects: readonly SQL[], most = FEW): Promise<readonly number[]> {
  const counts = selects.map((rows) => sql`(select count(*)::int from (${rows} limit ${most + 1}) counted)`);
  const [row] = await query(database).execute<{ counts: number[] }>(
    sql`select array[${sql.join(counts, sql`, `)}] as counts`,
  );
  return row?.counts ?? [];
}

function byLabel([name, value]: readonly [string, string]): LookUp {
  const { runId, name: label, value: text } = runLabels;
  const matches = sql`${label} = ${name} and ${text} = ${value}`;
  return {
    rows: sql`select ${runId} from ${runLabels} where ${matches}`,
    condition: sql`(select true from ${runLabels} where ${runId} = ${runs.id} and ${matches})`,
  };
}

/** A target outlives its run, which is deleted by retention. */
function byBulk(reach: Reach, id: string): LookUp {
  const { bulkId, runId, state } = bulkTargets;
  const matches = and(sql`${bulkId} = ${id} and ${state} = 'done'`, ofJob(reach, sql`${id}`));
  const done = sql`select ${runId} from ${bulkTargets} where ${matches}`;
  return {
    rows: sql`select ${runs.id} from ${runs} where ${runs.id} = any(array(${done}))`,
    condition: sql`${runs.id} in (${done})`,
  };
}

/** A run is forked a few times. Whether its forks may be seen, their own rows say. */
function byOrigin(id: RunId): LookUp {
  const of = sql`select ${forks.forkId} from ${forks} where ${forks.originId} = ${id}`;
  return {
    rows: sql`select ${runs.id} from ${runs} where ${runs.id} = any(array(${of}))`,
    condition: sql`${runs.id} in (${of})`,
  };
}

const NIL = "00000000-0000-0000-0000-000000000000";
/** No text goes on with it: it is not a character. */
const LAST_CODE_POINT = "\u{10ffff}";

/** The keys with a beginning are a range of the index by their bytes, and so are ids. `starts_with` is no range: it leaves the order to the list. */
function byBeginning(q: string): LookUp {
  const key = sql`${runs.businessKey} collate "C"`;
  const byKey = sql`${key} >= ${q} and ${key} < ${q + LAST_CODE_POINT}`;
  const startsWith = sql`coalesce(starts_with(${runs.businessKey}, ${q}), false)`;
  const byId = idsFrom(q);
  const keys = sql`select ${runs.id} from ${runs} where ${byKey}`;
  if (!byId) return { rows: keys, condition: startsWith };
  const rows = sql`select ${runs.id} from ${runs} where ${byId} union all ${keys} and not ${byId}`;
  return { rows, condition: sql`${or(byId, startsWith)}` };
}

function idsFrom(q: string): SQL | undefined {
  const low = q.toLowerCase() + NIL.slice(q.length);
  if (q.length > NIL.length || !isUuid(low)) return undefined;
  return between(runs.id, asRunId(low), asRunId(q.toLowerCase() + NIL.replaceAll("0", "f").slice(q.length)));
}
