// Announcements: that whoever waits for an event is told of it, owed by the event's own row until everybody has been. Not the
// telling itself, which is a durable command in the inbox of each run.
import type { Sql } from "postgres";
import { derivedUuid, shardOf } from "../ids.js";

/** How long whoever took an event has to announce it, before another one takes it up where that one stopped. */
const LEND_SECONDS = 10;
/** Runs told in one statement. */
const BITE = 500;

export interface DueEvent {
  readonly id: string;
  readonly topic: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly tenant_id: string | null;
  /** The last run that was told; they are told in the order of their ids. */
  readonly told_to: string | null;
}

const COLUMNS = "e.id, e.topic, e.headers, e.tenant_id, e.told_to";

/** Lends what is due; nobody waits for what another node has in hand. */
export function takeDueEvents(sql: Sql, limit: number): Promise<readonly DueEvent[]> {
  return sql<DueEvent[]>`
    update events e set due_at = now() + make_interval(secs => ${LEND_SECONDS})
    where e.id in (select id from events where due_at <= now() order by due_at limit ${limit} for update skip locked)
    returning ${sql.unsafe(COLUMNS)}`;
}

/** Those of them that are still owed: what was published here a moment ago. */
export function takeEvents(sql: Sql, ids: readonly string[]): Promise<readonly DueEvent[]> {
  return sql<DueEvent[]>`
    update events e set due_at = now() + make_interval(secs => ${LEND_SECONDS})
    where e.id in (
      select id from events where id = any(${[...ids]}::text[]::uuid[]) and due_at is not null order by id for update skip locked)
    returning ${sql.unsafe(COLUMNS)}`;
}

export interface Told {
  /** The id of the command, and of its inbox row. */
  readonly id: string;
  readonly runId: string;
}

export interface Announced {
  /** Who has been told by this call. */
  readonly told: readonly Told[];
  /** The event as it is now; undefined: everybody who waited when it was published has been told, or somebody else goes on with it. */
  readonly event: DueEvent | undefined;
  /** Nobody is left. */
  readonly over: boolean;
}

/**
 * Tells the next bite of those that wait for the event. Who begins to wait later need not be told: its own look, after its
 * commit, sees the event. Each run is told once: the rows and the place where to go on are written in one statement, by
 * whoever goes on from where the event was.
 */
export async function announceTo(sql: Sql, event: DueEvent): Promise<Announced> {
  const { id, topic, headers, tenant_id: tenant, told_to: from } = event;
  const waiting = await sql<{ run_id: string }[]>`
    select w.run_id from event_waits w join runs r on r.id = w.run_id
    where w.topic = ${topic} and w.headers <@ ${JSON.stringify(headers)}::text::jsonb
      and (${from}::uuid is null or w.run_id > ${from}::uuid)
      and (${tenant}::uuid is null or r.tenant_id = ${tenant}::uuid)
    order by w.run_id limit ${BITE}`;
  const last = waiting.at(-1)?.run_id;
  if (last === undefined) return { told: [], event, over: true };
  const told = waiting.map(({ run_id: runId }) => ({ runId, id: announcementId(id, runId) }));
  const moved = await sql`
    with moved as (
      update events set told_to = ${last}, due_at = now() + make_interval(secs => ${LEND_SECONDS})
      where id = ${id} and told_to is not distinct from ${from}::uuid and due_at is not null
      returning id
    ), sent as (
      insert into inbox (id, run_id, shard, command, due_at)
      select t.id, t.run_id, t.shard, ${JSON.stringify({ type: "event", eventId: id })}::text::json, now() + interval '1 second'
      from unnest(${told.map((one) => one.id)}::text[]::uuid[], ${told.map((one) => one.runId)}::text[]::uuid[],
        ${told.map((one) => shardOf(one.runId))}::text[]::int2[]) t(id, run_id, shard)
      where exists (select 1 from moved)
      on conflict (id) do nothing
    ) select id from moved`;
  // Somebody else has it in hand now, and goes on from there.
  if (moved.count === 0) return { told: [], event: undefined, over: false };
  return { told, event: { ...event, told_to: last }, over: false };
}

/** Nothing is owed for it any more. */
export async function announced(sql: Sql, ids: readonly string[]): Promise<void> {
  await sql`update events set due_at = null where id = any(${[...ids]}::text[]::uuid[])`;
}

/** An id of a command must never change: a repeat is recognised by it. */
function announcementId(eventId: string, runId: string): string {
  return derivedUuid(`${eventId}/${runId}/event`, shardOf(runId));
}
