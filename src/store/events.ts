// Events: publishing one, and what a run that waits may take. Not who is told of them (announcements.ts), and not taking one:
// that is a row in the commit of the run that takes it.
import type { Fragment, Sql } from "postgres";
import type { EventFact, Facts, Json, Need, RunIdentity } from "../../machines/index.js";

/** Events that a decision looks at in one go, and about how many bytes of payload it holds meanwhile. */
const PAGE = 50;
const PAGE_BYTES = 4 * 1024 * 1024;
/** How long the publisher's own node has to tell those who wait, before the poll of any node takes it up. */
export const TOLD_FROM_MEMORY_SECONDS = 1;
/**
 * Ordinals are given in nearly the order of their times: two that were given at once may be the other way round for as long as a
 * statement may take, which is half of this.
 */
const ORDER_SLACK_SECONDS = 60;

export interface NewEvent {
  readonly id: string;
  readonly topic: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly payload: Json;
  readonly idempotencyKey?: string;
  /** Of topic, headers and payload: what a repeat must have in common with the first. */
  readonly hash: string;
}

/** Answers the id of the event, which is another one's if the key was used before; undefined: with another event. */
export async function publishEvent(sql: Sql, event: NewEvent): Promise<string | undefined> {
  const { id, topic, idempotencyKey = null, hash } = event;
  const [headers, payload] = [JSON.stringify(event.headers), JSON.stringify(event.payload)];
  const made = await sql`
    insert into events (id, topic, headers, payload, size, idempotency_key, request_hash, due_at)
    values (${id}, ${topic}, ${headers}::text::jsonb, ${payload}::text::json, ${Buffer.byteLength(payload)},
      ${idempotencyKey}, ${hash}, now() + make_interval(secs => ${TOLD_FROM_MEMORY_SECONDS}))
    on conflict (idempotency_key) do nothing`;
  if (made.count === 1) return id;
  const [first] = await sql<{ id: string; request_hash: string }[]>`
    select id, request_hash from events where idempotency_key = ${idempotencyKey}`;
  // It was pruned this very moment: the key is free again.
  if (!first) return publishEvent(sql, event);
  return first.request_hash === hash ? first.id : undefined;
}

/** The newest ordinal of a topic; "0": there is none. */
export async function newestEvent(sql: Sql, topic: string): Promise<string> {
  const [row] = await sql<{ newest: string }[]>`
    select coalesce(max(ordinal), 0)::text as newest from events where topic = ${topic}`;
  return row?.newest ?? "0";
}

/** A page of the events that a run may take; those that came before it began, or that it took, are none. */
export async function eventsFor(
  sql: Sql,
  run: Pick<RunIdentity, "id" | "family" | "tenantId">,
  need: Extract<Need, { kind: "events" }>,
): Promise<NonNullable<Facts["events"]>> {
  const may = mayTake(sql, run, need);
  const { after, since, named } = need;
  const above = after ?? since;
  const floor = above === undefined ? beforeTheRun(sql, run) : sql`${above}::int8`;
  const rows = await sql<(EventFact & { readonly found: number })[]>`
    with page as materialized (
      select e.* from events e where ${may} and e.ordinal > ${floor} order by e.ordinal limit ${PAGE + 1}
    ), sized as (
      select p.*, sum(p.size) over (order by p.ordinal) - p.size as before, count(*) over ()::int as found from page p
    ), bounded as (select * from sized where before < ${PAGE_BYTES} order by ordinal limit ${PAGE})
    select id, ordinal::text, topic, headers, payload, found from bounded
    union all
    select e.id, e.ordinal::text, e.topic, e.headers, e.payload, 0 from events e
    where e.id = ${named ?? null}::uuid and ${may} and e.id not in (select id from bounded)`;
  const page = rows.map(({ found: _, ...event }) => event).sort(byOrdinal);
  const listed = rows.filter(({ found }) => found > 0);
  return { page, more: (listed[0]?.found ?? 0) > listed.length };
}

function mayTake(
  sql: Sql,
  { id, family, tenantId }: Pick<RunIdentity, "id" | "family" | "tenantId">,
  { topic, headers, since }: Extract<Need, { kind: "events" }>,
): Fragment {
  const recent =
    since === undefined
      ? sql`e.published_at >= (select r.started_at from runs r where r.id = ${family?.at(-1) ?? id})`
      : sql`e.ordinal > ${since}::int8`;
  return sql`e.topic = ${topic} and e.headers @> ${JSON.stringify(headers)}::text::jsonb and ${recent}
    and (e.tenant_id is null or e.tenant_id = ${tenantId ?? null}::uuid)
    and not exists (select 1 from event_takes t where t.run_id = ${id} and t.event_id = e.id)`;
}

/** An ordinal below those of all events since the run (of a branch or an item: the run that it is a part of) began. */
function beforeTheRun(sql: Sql, { id, family }: Pick<RunIdentity, "id" | "family">): Fragment {
  return sql`coalesce((
    select b.ordinal from events b
    where b.published_at < (select r.started_at from runs r where r.id = ${family?.at(-1) ?? id})
      - make_interval(secs => ${ORDER_SLACK_SECONDS})
    order by b.published_at desc, b.ordinal desc limit 1), 0)`;
}

function byOrdinal(left: EventFact, right: EventFact): number {
  return BigInt(left.ordinal) < BigInt(right.ordinal) ? -1 : 1;
}
