// Reads of runs for their inspection: which definition each began under, and its children. Inputs, variables and outputs are not read.
import type { Sql } from "postgres";
import type { RunId, RunState } from "../../../machines/index.js";
import { OF_RUN, type Reach, withinReach } from "./reach.js";

export interface InspectedRun {
  readonly id: RunId;
  readonly workflowId: string;
  readonly version: number;
  /** The id of the version under which the run began: it may have moved to another since. */
  readonly definitionId: string;
  readonly parentRunId: RunId | null;
  readonly parentStepId: string | null;
  /** The name of a branch, or the number of an item. */
  readonly parentBranchId: string | null;
  readonly state: RunState;
  readonly startedAt: Date;
  readonly lastSeq: number;
  readonly terminal: boolean;
}

/** A run whose first row is no longer kept is shown under its present version. */
const columns = (sql: Sql) => sql`
  id, workflow_id as "workflowId", version, parent_run_id as "parentRunId",
  parent_step_id as "parentStepId", parent_branch_id as "parentBranchId", state, started_at as "startedAt",
  last_seq as "lastSeq", terminal_at is not null as terminal,
  coalesce((
    select first.definition_id from run_events e
    join definitions first on first.workflow_id = runs.workflow_id and first.version = (e.metadata ->> 'version')::int
    where e.run_id = runs.id and e.seq = 1
  ), definition_id) as "definitionId"`;

/** Undefined: there is no such run. */
export async function inspectedRun(sql: Sql, reach: Reach, runId: RunId): Promise<InspectedRun | undefined> {
  const [run] = await sql<InspectedRun[]>`
    select ${columns(sql)} from runs where id = ${runId} and ${withinReach(sql, reach, OF_RUN)}`;
  return run;
}

/** Children of these parents, without those that are known, the oldest first. */
export function inspectedChildren(
  sql: Sql,
  reach: Reach,
  parents: readonly RunId[],
  { known, limit }: { readonly known: readonly RunId[]; readonly limit: number },
): Promise<readonly InspectedRun[]> {
  return sql<InspectedRun[]>`
    select ${columns(sql)} from runs
    where parent_run_id = any(${parents}::text[]::uuid[]) and not id = any(${known}::text[]::uuid[])
      and ${withinReach(sql, reach, OF_RUN)}
    order by started_at, id limit ${limit}`;
}

/** Undefined: there is no such version. It need not be published any more. */
export async function definitionOf(sql: Sql, workflowId: string, version: number): Promise<string | undefined> {
  const [row] = await sql<{ id: string }[]>`
    select definition_id as id from definitions where workflow_id = ${workflowId} and version = ${version}`;
  return row?.id;
}
