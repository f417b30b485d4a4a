// What is left to do once the keys of a tenant were destroyed: its unfinished runs are found, so that they end, and what was owed and cannot be read any
// more is dropped. In SQL: the statements look into sealed columns.
import type { Sql } from "postgres";
import type { RunId } from "../../../machines/index.js";
import type { DestroyedKey } from "./keyring.js";

/** Runs that are found at a time, once a second. */
const PAGE = 500;
/**
 * A node learns of it within seconds, and may start runs under the destroyed key until then. One that stood still for longer reads the table before it
 * goes on: what it had begun ends when the run is loaded.
 */
const SETTLED_AFTER_SECONDS = 30;

/** Unfinished runs whose inputs, or those of their family, were sealed under one of the keys. Runs that were started before encryption was on end when they are loaded. */
export async function openRunsUnder(sql: Sql, keys: readonly DestroyedKey[]): Promise<readonly RunId[]> {
  const { numbers, tenants } = namesOf(keys);
  const rows = await sql<{ id: RunId }[]>`
    select r.id from runs r join run_starts s on s.run_id = r.id left join run_starts f on f.run_id = r.family_run_id
    where r.terminal_at is null and r.tenant_id = any(${tenants}::text::uuid[])
      and coalesce(s.inputs, f.inputs) -> '$sealed' ->> 0 = any(${numbers}::text::text[])
    limit ${PAGE}`;
  return rows.map(({ id }) => id);
}

export interface Dropped {
  readonly webhooks: number;
  readonly events: number;
  readonly fires: number;
  readonly jobs: number;
}

/** What can no longer be sent or started. Commands to runs go when they are delivered (engine/poll.ts). */
export async function dropUnreadable(sql: Sql, keys: readonly DestroyedKey[]): Promise<Dropped> {
  const marks = `{${keys.map(({ number }) => `"%{\\"$sealed\\":[${number},%"`).join(",")}}`;
  const marked = (column: string) => sql`${sql.unsafe(column)}::text like any(${marks}::text::text[])`;
  const [dropped] = await sql<[Dropped]>`
    with webhook as (
      delete from outbox where id in (
        select id from outbox where kind <> 'action' and ${marked("payload")} order by id for update skip locked) returning 1
    ), event as (
      delete from outgoing_events where id in (
        select o.id from outgoing_events o left join events e on e.id = o.id and o.payload is null
        where ${marked("coalesce(o.payload, e.payload)")} order by o.id for update of o skip locked) returning 1
    ), fire as (
      update trigger_fires set due_at = null, inputs = null, error = 'the key of its inputs was destroyed'
      where id in (select id from trigger_fires where due_at is not null and ${marked("inputs")} for update skip locked) returning 1
    ), job as (
      update bulk_jobs set state = 'stopped', ended_at = now() where state = 'running' and ${marked("params")} returning 1
    )
    select (select count(*) from webhook)::int as webhooks, (select count(*) from event)::int as events,
      (select count(*) from fire)::int as fires, (select count(*) from job)::int as jobs`;
  return dropped;
}

/** Says that nothing is left to do for the keys. False: nodes may not know yet that they were destroyed. */
export async function settle(sql: Sql, keys: readonly DestroyedKey[]): Promise<boolean> {
  const { numbers } = namesOf(keys);
  const settled = await sql`
    update data_keys set settled_at = now(), changed_at = now()
    where number = any(${numbers}::text::int[]) and settled_at is null
      and destroyed_at < now() - make_interval(secs => ${SETTLED_AFTER_SECONDS})
    returning number`;
  return settled.length > 0;
}

function namesOf(keys: readonly DestroyedKey[]): { readonly numbers: string; readonly tenants: string } {
  const list = (items: Iterable<string | number>) => `{${[...items].join(",")}}`;
  return { numbers: list(keys.map(({ number }) => number)), tenants: list(new Set(keys.map((key) => key.tenantId))) };
}
