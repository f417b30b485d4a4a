// Business keys that runs hold. Who holds one is decided by the commit of a start (commit/general.ts); here it is looked up before.
import type { Sql } from "postgres";
import type { StartedRow } from "./load.js";
import { hashOfKey } from "./start-keys.js";

/** The run that holds a business key. */
export interface Holder {
  readonly runId: string;
  /** Null: it was not started for a burst of starts. */
  readonly burstAt: Date | null;
  /** Undefined: it has ended, or is gone, and holds nothing any more. */
  readonly active: StartedRow | undefined;
}

/** Undefined: no run has held the key. */
export async function holderOf(
  sql: Sql,
  { scope, key }: { readonly scope: string; readonly key: string },
): Promise<Holder | undefined> {
  type Found = { run_id: string; burst_at: Date | null } & (StartedRow | { id: null });
  const [found] = await sql<Found[]>`
    select k.run_id, k.burst_at, r.id, r.workflow_id, r.version, r.definition_id, r.state, '' as request_hash
    from held_keys k left join runs r on r.id = k.run_id and r.business_key = ${key} and r.terminal_at is null
    where k.scope = ${scope} and k.key = ${hashOfKey(key)}`;
  return found && { runId: found.run_id, burstAt: found.burst_at, active: found.id === null ? undefined : found };
}
