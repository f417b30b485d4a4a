// The data keys of a tenant as the platform sees them: how many there are, and how far the end of those is that were destroyed. Nothing of a key
// itself is in an answer.
import type { Sql } from "postgres";
import type { JsonObject } from "../../../machines/index.js";
import { present } from "./item.js";

/** Unfinished runs are counted up to here. */
const MOST_COUNTED = 10_000;

/** Undefined: the tenant has never had a key. */
export async function dataKeysItem(sql: Sql, tenantId: string): Promise<JsonObject | undefined> {
  const [row] = await sql<KeysRow[]>`
    with keys as materialized (
      select number, wrapped is not null as active, destroyed_at, settled_at from data_keys where tenant_id = ${tenantId}
    ), unsettled as (select number::text from keys where not active and settled_at is null)
    select count(*) filter (where active)::int as active, count(*) filter (where not active)::int as destroyed,
      max(destroyed_at) as "destroyedAt", count(*)::int as keys,
      (select count(*)::int from (
        select from runs r join run_starts s on s.run_id = r.id left join run_starts f on f.run_id = r.family_run_id
        where exists (select from unsettled) and r.terminal_at is null and r.tenant_id = ${tenantId}
          and coalesce(s.inputs, f.inputs) -> '$sealed' ->> 0 in (select number from unsettled)
        limit ${MOST_COUNTED}) open) as open
    from keys`;
  if (!row || row.keys === 0) return undefined;
  const { active, destroyed, destroyedAt, open } = row;
  return present({ tenant_id: tenantId, active, destroyed, destroyed_at: destroyedAt, unfinished_runs: open });
}

interface KeysRow {
  readonly keys: number;
  readonly active: number;
  readonly destroyed: number;
  readonly destroyedAt: Date | null;
  readonly open: number;
}
