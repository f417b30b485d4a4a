// Whose a run is, for what is looked up beside a command to it. The command itself finds that out again: in its decision, and in its commit.
import type { Sql } from "postgres";
import type { RunId, RunIdentity } from "../../../machines/index.js";

export type RunOwner = Pick<RunIdentity, "tenantId" | "workflowId">;

/** Undefined: there is no such run. */
export async function runOwner(sql: Sql, runId: RunId): Promise<RunOwner | undefined> {
  const [row] = await sql<{ tenantId: string | null; workflowId: string }[]>`
    select tenant_id as "tenantId", workflow_id as "workflowId" from runs where id = ${runId}`;
  return row && { ...row, tenantId: row.tenantId ?? undefined };
}
