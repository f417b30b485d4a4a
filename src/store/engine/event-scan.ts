// The scan of published events for a run that waits: the events that it may take, page by page. In SQL: a decision waits for it, and a page
// is bounded in bytes.
import type { Fragment, Sql } from "postgres";
import type { EventFact, Facts, Need, RunIdentity } from "../../../machines/index.js";
import { asRead, readIfThere } from "../sealed/sealing.js";

/** The most events of a page, and about how many bytes of payload it holds. */
const PAGE = 50;
const PAGE_BYTES = 4 * 1024 * 1024;
/**
 * Ordinals are nearly in the order of their times: two that were assigned at once may be reversed, by at most the time that a statement
 * may take, which is half of this.
 */
const ORDER_SLACK_SECONDS = 60;

/**
 * The next page. An event that was published before the run began, or that the run has taken, is not among them. `tenantsApart`: an event of no
 * tenant is for runs of no tenant only; otherwise it is for every run.
 */
export async function scanEvents(
  sql: Sql,
  run: Pick<RunIdentity, "id" | "family" | "tenantId">,
  need: Extract<Need, { kind: "events" }>,
  { tenantsApart = false }: { readonly tenantsApart?: boolean } = {},
): Promise<NonNullable<Facts["events"]>> {
  const may = mayTake(sql, run, need, tenantsApart);
  const { after, since, named } = need;
  const floor = after === undefined ? before(sql, beginning(sql, run, since)) : sql`${after}::int8`;
  const text = asRead(sql);
  const rows = await sql<(EventFact & { readonly found: number })[]>`
    with page as materialized (
      select e.* from events e where ${may} and e.ordinal > ${floor} order by e.ordinal limit ${PAGE + 1}
    ), sized as (
      select p.*, sum(p.size) over (order by p.ordinal) - p.size as before, count(*) over ()::int as found from page p
    ), bounded as (select * from sized where before < ${PAGE_BYTES} order by ordinal limit ${PAGE})
    select id, ordinal::text, topic, headers, payload${text} as payload, found from bounded
    union all
    select e.id, e.ordinal::text, e.topic, e.headers, e.payload${text}, 0 from events e
    where e.id = ${named ?? null}::uuid and ${may} and e.id not in (select id from bounded)`;
  // An event whose key was destroyed is for no run any more.
  const page = rows
    .flatMap(({ found: _, ...event }) => {
      const payload = readIfThere(sql, event.payload, `events.payload/${event.id}`);
      return payload === undefined ? [] : [{ ...event, payload }];
    })
    .sort(byOrdinal);
  const listed = rows.filter(({ found }) => found > 0);
  return { page, more: (listed[0]?.found ?? 0) > listed.length };
}

function mayTake(
  sql: Sql,
  run: Pick<RunIdentity, "id" | "family" | "tenantId">,
  need: Extract<Need, { kind: "events" }>,
  tenantsApart: boolean,
): Fragment {
  const { id, tenantId = null } = run;
  const { topic, headers } = need;
  return sql`e.topic = ${topic} and e.headers @> ${JSON.stringify(headers)}::text::jsonb and ${recent(sql, run, need)}
    and (e.tenant_id = ${tenantId}::uuid or (e.tenant_id is null and ${!tenantsApart || tenantId === null}))
    and not exists (select 1 from event_takes t where t.run_id = ${id} and t.event_id = e.id)`;
}

/**
 * An event is earlier than a moment if its transaction is visible in the moment's snapshot and its time is not after it: a restored database
 * hands out transaction ids again, but not times. One whose time is long before is earlier in any case: after a dump its id may be higher.
 */
function recent(
  sql: Sql,
  run: Pick<RunIdentity, "id" | "family">,
  { since }: Extract<Need, { kind: "events" }>,
): Fragment {
  const begun = beginning(sql, run, since);
  if (since === undefined) return sql`e.published_at >= ${begun}`;
  return sql`e.published_at > ${begun} - make_interval(secs => ${ORDER_SLACK_SECONDS})
    and not (e.published_at <= ${begun} and pg_visible_in_snapshot(e.xid, ${since.split("@")[0] ?? ""}::text::pg_snapshot))`;
}

/** When the wait's events begin: at its moment, or with the run; for a branch or an item, with the run that it is a part of. */
function beginning(sql: Sql, { id, family }: Pick<RunIdentity, "id" | "family">, since: string | undefined): Fragment {
  if (since === undefined) return sql`(select r.started_at from runs r where r.id = ${family?.at(-1) ?? id})`;
  return sql`to_timestamp(${since.split("@")[1] ?? "0"}::text::float8 / 1000)`;
}

/** An ordinal below those of all events since that time. */
function before(sql: Sql, begun: Fragment): Fragment {
  return sql`coalesce((
    select b.ordinal from events b where b.published_at < ${begun} - make_interval(secs => ${ORDER_SLACK_SECONDS})
    order by b.published_at desc, b.ordinal desc limit 1), 0)`;
}

function byOrdinal(left: EventFact, right: EventFact): number {
  return BigInt(left.ordinal) < BigInt(right.ordinal) ? -1 : 1;
}
