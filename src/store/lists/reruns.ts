// What starting a run again needs of it. Only runs without a parent have their own inputs for sure: the caller refuses the others.
import type { Sql } from "postgres";
import type { JsonObject, RunId, RunState, StoredIdentity } from "../../../machines/index.js";
import { asRead, readColumn } from "../sealed/sealing.js";

export interface FirstRun {
  readonly state: RunState;
  readonly ended: boolean;
  readonly workflowId: string;
  readonly tenantId: string | null;
  readonly businessKey: string | null;
  readonly parentRunId: RunId | null;
  /** The inputs as the start gave them. */
  readonly inputs: JsonObject | null;
  readonly identity: StoredIdentity;
}

/** Undefined: there is no such run. */
export async function firstRun(sql: Sql, runId: RunId): Promise<FirstRun | undefined> {
  const text = asRead(sql);
  const [row] = await sql<FirstRun[]>`
    select r.state, r.terminal_at is not null as ended, r.workflow_id as "workflowId", r.tenant_id as "tenantId",
      r.business_key as "businessKey", r.parent_run_id as "parentRunId", s.inputs${text} as inputs, s.identity${text} as identity
    from runs r join run_starts s on s.run_id = r.id where r.id = ${runId}`;
  if (!row) return undefined;
  const inputs = readColumn(sql, row.inputs, `run_starts.inputs/${runId}`);
  return { ...row, inputs, identity: readColumn(sql, row.identity, `run_starts.identity/${runId}`) };
}
