// The runs of a workflow that could move to another version: their ids, oldest first. In SQL: the index of runs that have not ended is the
// only one of use.
import type { Sql } from "postgres";
import type { RunId } from "../../../machines/index.js";

export interface MovableQuery {
  readonly workflowId: string;
  /** Runs of this version are there already. */
  readonly version: number;
  /** Absent: of every other version. */
  readonly fromVersion?: number;
  /** Of these tenants; `*`: of any, and of none. */
  readonly tenants: readonly string[] | "*";
  readonly limit: number;
}

/** Branches and items are left out: they are of the version of the run that they belong to. */
export async function movableRuns(
  sql: Sql,
  { workflowId, version, fromVersion, tenants, limit }: MovableQuery,
): Promise<readonly RunId[]> {
  const rows = await sql<{ id: RunId }[]>`
    select id from (
      select id, started_at from runs
      where workflow_id = ${workflowId} and terminal_at is null and family_run_id is null and version <> ${version}
        and (${fromVersion ?? null}::int is null or version = ${fromVersion ?? null}::int)
        and (${tenants === "*"} or tenant_id = any(${tenants === "*" ? [] : [...tenants]}::text[]::uuid[]))
      limit ${limit}
    ) found order by started_at, id`;
  return rows.map(({ id }) => id);
}
