// Workflow documents: their content, and figures about their runs. The rules of versions are in versions.ts; documents arrive validated,
// and are compiled elsewhere.
import { and, desc, eq, sql } from "drizzle-orm";
import type { Sql } from "postgres";
import { type JsonObject, MAX_VERSION } from "../../../machines/index.js";
import { query } from "../engine/query.js";
import { definitions } from "../schema.js";
import { isDry, OF_CHANGES, OF_COUNTS } from "../statistics/end-counts.js";
import { present } from "./item.js";
import { OF_RUN, type Reach, withinReach } from "./reach.js";
import { type VersionDraft, Versions } from "./versions.js";

/** A valid document on its way into the store; its key is the workflow's id. */
export interface WorkflowDraft extends VersionDraft {
  readonly document: JsonObject;
}

/** The members of a document about its own storage: they are not part of its content. */
const STORAGE = sql.raw("'{version,published,created_at,created_by}'::text[]");

export const workflowVersions = new Versions<WorkflowDraft, typeof definitions.$inferSelect>({
  noun: "workflow",
  table: definitions,
  isWorkflow: true,
  content: ({ document }, version) => ({ document: { ...document, version } }),
  equals: ({ document }) =>
    sql`${definitions.document}::jsonb - ${STORAGE} = ${JSON.stringify(document)}::text::jsonb - ${STORAGE}`,
  item({ key: id, version, published, createdAt: created_at, createdBy: created_by, document }) {
    return { ...document, ...present({ id, version, published, created_at, created_by }) };
  },
});

/** A definition, to be compiled. */
export interface DefinitionDocument {
  readonly id: string;
  readonly version: number;
  /** Whose it is. Null: the platform's. */
  readonly tenantId: string | null;
  readonly document: JsonObject;
}

const documentColumns = {
  ...{ id: definitions.id, version: definitions.version, tenantId: definitions.tenantId },
  document: definitions.document,
};

export async function definitionById(database: Sql, id: string): Promise<DefinitionDocument | undefined> {
  const [row] = await query(database).select(documentColumns).from(definitions).where(eq(definitions.id, id));
  return row;
}

/** The version if it is published; without `version` the latest published one. */
export async function publishedDefinition(
  database: Sql,
  workflowId: string,
  version?: number,
): Promise<DefinitionDocument | undefined> {
  if (version !== undefined && version > MAX_VERSION) return undefined;
  const which = version === undefined ? undefined : eq(definitions.version, version);
  const [row] = await query(database)
    .select(documentColumns)
    .from(definitions)
    .where(and(eq(definitions.key, workflowId), eq(definitions.published, true), which))
    .orderBy(desc(definitions.version))
    .limit(1);
  return row;
}

interface Owners {
  readonly tenantId: string | null;
  readonly workflowId: string;
  readonly definitionOwner: string | null;
}

/** Whose a run is, and of which workflow, and whose its definition is. Null: the platform's. Undefined: there is no such run. */
export async function ownersOf(database: Sql, runId: string): Promise<Owners | undefined> {
  const [row] = await database<Owners[]>`
    select r.tenant_id as "tenantId", r.workflow_id as "workflowId", d.tenant_id as "definitionOwner"
    from runs r join definitions d on d.definition_id = r.definition_id where r.id = ${runId}`;
  return row;
}

export interface WorkflowStats {
  /** 0 to 1, null if none ended. Cancelled, dry and child runs do not count. */
  readonly success_rate_24h: number | null;
  readonly last_run_at: string | null;
  /** Runs that have not ended. */
  readonly in_flight: number;
}

interface Counts {
  readonly succeeded: number;
  readonly ended: number;
  readonly last_run_at: Date | null;
  readonly in_flight: number;
}

/**
 * Three figures as of one moment, in SQL: each has an index of its own. Of a day's ends, the minutes that are counted are added up;
 * `offset 0` keeps the planner from reading all others before it compares their times.
 */
export async function workflowStats(database: Sql, reach: Reach, workflowId: string): Promise<WorkflowStats> {
  const ofRuns = withinReach(database, reach, OF_RUN);
  const ofCounts = withinReach(database, reach, OF_COUNTS);
  const ofChanges = withinReach(database, reach, OF_CHANGES);
  const [row] = await database<Counts[]>`
    with day as materialized (
      select since, first, greatest((select until from end_horizon where id = 1), first) as until
      from (select now() - interval '24 hours' as since, date_trunc('minute', now() - interval '24 hours') + interval '1 minute' as first) day
    ), uncounted (low, high) as (
      select since, first from day union all select until, 'infinity' from day
    ), ends (ended_as, count) as (
      select ended_as, count from day, run_end_counts
      where workflow_id = ${workflowId} and minute >= first and minute < until and root and not dry and ${ofCounts}
      union all
      select ended_as, change from day, run_end_changes
      where workflow_id = ${workflowId} and ended_at >= first and ended_at < until and root and not ${isDry(database, "run_end_changes.run_id")}
        and ${ofChanges}
      union all
      select r.ended_as, 1 from uncounted cross join lateral (
        select id, ended_as, parent_run_id from runs
        where workflow_id = ${workflowId} and terminal_at >= low and terminal_at < high and ${ofRuns} offset 0) r
      where parent_run_id is null and not ${isDry(database, "r.id")}
    ), counted as (
      select sum(count) filter (where ended_as = 'succeeded') as succeeded, sum(count) filter (where ended_as = 'failed') as failed from ends
    )
    select coalesce(succeeded, 0)::float8 as succeeded, (coalesce(succeeded, 0) + coalesce(failed, 0))::float8 as ended,
      (select started_at from runs where workflow_id = ${workflowId} and family_run_id is null and ${ofRuns}
        order by started_at desc limit 1) as last_run_at,
      (select count(*)::float8 from runs
        where workflow_id = ${workflowId} and terminal_at is null and family_run_id is null and ${ofRuns}) as in_flight
    from counted`;
  const { succeeded, ended, last_run_at, in_flight } = row as Counts;
  return {
    success_rate_24h: ended === 0 ? null : succeeded / ended,
    last_run_at: last_run_at?.toISOString() ?? null,
    in_flight,
  };
}
