// Which waits an event correlates with, found by an index: an event costs its matches, and not all waits of its topic. Waits differ in
// what they compare: the names of headers, and the paths of conditions. For each such comparison that waits of the topic have, of which
// there are few, the event has one value, and the index has the waits that expect it.
import type { Sql } from "postgres";
import type { Json, RunId } from "../../../machines/index.js";
import { asRead, readIfThere, sealingOf } from "../sealed/sealing.js";

/** What a wait compares, and the values that it expects: as in the index `event_waits_by_correlation`, which must not change. */
export const COMPARED = `md5(jsonb_path_query_array(headers, '$.keyvalue().key')::text
  || coalesce(jsonb_path_query_array(conditions, '$.equal.keyvalue().key')::text, ''))::uuid`;
export const EXPECTED = "md5(headers::text || coalesce((conditions -> 'equal')::text, ''))::uuid";

export interface CorrelatedEvent {
  readonly id: string;
  readonly topic: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly tenant_id: string | null;
}

const FIRST_ID = "00000000-0000-0000-0000-000000000000";

/**
 * Runs that wait for the event, in the order of their ids, from the one after `from` on. The comparisons of a topic are found by skipping
 * through the index. A run of them may still refuse the event: its `match` has the last word. An event with secret values goes to every wait of its topic
 * whose headers it has: the marks hide its values from the index. `tenantsApart`: an event of no tenant is for runs of no
 * tenant only; otherwise it is for every run.
 */
export async function correlatedRuns(
  sql: Sql,
  { id, topic, headers, tenant_id: tenant }: CorrelatedEvent,
  from: string | null,
  limit: number,
  { tenantsApart = false }: { readonly tenantsApart?: boolean } = {},
): Promise<readonly RunId[]> {
  // With encryption on the database cannot read the column.
  const value = await openedPayload(sql, id);
  const payload = value === undefined ? sql`payload::jsonb` : sql`${value}::text::jsonb`;
  const [compared, expected, has] = [sql.unsafe(COMPARED), sql.unsafe(EXPECTED), JSON.stringify(headers)];
  const isForRun = sql`(${tenant === null && !tenantsApart}
    or (select runs.tenant_id from runs where runs.id = event_waits.run_id) is not distinct from ${tenant}::uuid)`;
  // The payload is looked through only if a wait compares something of it, and the waits only if it has a secret value.
  const hasHidden = sql`(case when exists (select 1 from comparison where conditions is not null)
    then (select (value -> 'payload')::text like '%"$secret"%' from event) else false end)`;
  const rows = await sql<{ run_id: RunId }[]>`
    with recursive comparison as (
      (select ${compared} as by, headers, conditions from event_waits where topic = ${topic} order by 1 limit 1)
      union all
      select next.by, next.headers, next.conditions from comparison cross join lateral (
        select ${compared} as by, headers, conditions from event_waits
        where topic = ${topic} and ${compared} > comparison.by order by 1 limit 1
      ) next
    ), event as materialized (
      select jsonb_build_object('headers', headers, 'payload', ${payload}) as value from events where id = ${id}
    ), wanted as (
      select by, md5(has.headers::text || coalesce(has.conditions::text, ''))::uuid as value from comparison cross join lateral (
        select
          (select coalesce(jsonb_object_agg(name, ${has}::text::jsonb -> name), '{}') from jsonb_object_keys(comparison.headers) name) as headers,
          (select coalesce(jsonb_object_agg(path, (select value from event) #> array(select jsonb_array_elements_text(path::jsonb))),
            comparison.conditions -> 'equal') from jsonb_object_keys(comparison.conditions -> 'equal') path) as conditions
      ) has
    )
    select waiting.run_id from wanted cross join lateral (
      select run_id from event_waits
      where topic = ${topic} and ${compared} = wanted.by and ${expected} = wanted.value and run_id > ${from ?? FIRST_ID}
        and ${isForRun}
      order by run_id limit ${limit}
    ) waiting
    union (
      select run_id from event_waits
      where ${hasHidden} and conditions is not null and topic = ${topic} and run_id > ${from ?? FIRST_ID}
        and ${has}::text::jsonb @> headers and ${isForRun}
      order by run_id limit ${limit}
    )
    order by 1 limit ${limit}`;
  return rows.map(({ run_id }) => run_id);
}

/** The payload as JSON. Undefined: encryption is off. */
async function openedPayload(sql: Sql, id: string): Promise<string | undefined> {
  if (!sealingOf(sql)) return undefined;
  const [event] = await sql<{ payload: Json }[]>`select payload${asRead(sql)} as payload from events where id = ${id}`;
  const payload = event && readIfThere(sql, event.payload, `events.payload/${id}`);
  return JSON.stringify(payload ?? null);
}
