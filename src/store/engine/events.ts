// Published events: adding one, and the present moment of a topic. Waiting runs are notified of events in announcements.ts, and scan them in
// event-scan.ts; a run takes an event by a row in its own commit.
import { and, eq, isNull, sql } from "drizzle-orm";
import type { Sql } from "postgres";
import type { Json } from "../../../machines/index.js";
import { events } from "../schema.js";
import { sealedText } from "../sealed/sealing.js";
import { query } from "./query.js";

/** The time that the publisher's own node has to announce an event, before the poll of any node leases it. */
export const ANNOUNCED_FROM_MEMORY_SECONDS = 1;

export interface NewEvent {
  readonly id: string;
  readonly topic: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly payload: Json;
  /** Absent: it is of no tenant. */
  readonly tenantId?: string;
  /** Of this tenant, or of none. */
  readonly idempotencyKey?: string;
  /** The hash of topic, headers and payload: a repeat must have the same. */
  readonly hash: string;
}

/** Resolves with the event's id, which is another event's if the key was used before; undefined: that event has other content. */
export async function publishEvent(database: Sql, event: NewEvent): Promise<string | undefined> {
  const { id, topic, headers, tenantId, idempotencyKey, hash: requestHash } = event;
  const text = await sealedText(database, tenantId, event.payload, `events.payload/${id}`);
  const dueAt = sql`now() + make_interval(secs => ${ANNOUNCED_FROM_MEMORY_SECONDS})`;
  const inserted = await query(database)
    .insert(events)
    .values({
      ...{ id, topic, headers, tenantId, idempotencyKey, requestHash, dueAt },
      ...{ payload: sql`${text}::text::json`, size: Buffer.byteLength(text) },
    })
    .onConflictDoNothing()
    .returning({ id: events.id });
  if (inserted.length === 1 || idempotencyKey === undefined) return id;
  const ofTenant = tenantId === undefined ? isNull(events.tenantId) : eq(events.tenantId, tenantId);
  const [first] = await query(database)
    .select({ id: events.id, requestHash: events.requestHash })
    .from(events)
    .where(and(eq(events.idempotencyKey, idempotencyKey), ofTenant));
  // It was pruned a moment ago: the key is free again.
  if (!first) return publishEvent(database, event);
  return first.requestHash === requestHash ? first.id : undefined;
}

export interface PublishedEvent {
  readonly id: string;
  readonly topic: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly payload: Json;
  /** Only its runs and triggers see the event. */
  readonly tenantId?: string;
  readonly publishedAt: Date;
}

/** Undefined: it is past retention. */
export async function eventById(database: Sql, id: string): Promise<PublishedEvent | undefined> {
  const { topic, headers, payload, tenantId, publishedAt } = events;
  const columns = { id: events.id, topic, headers, payload, tenantId, publishedAt };
  const [row] = await query(database).select(columns).from(events).where(eq(events.id, id));
  return row && { ...row, headers: row.headers as PublishedEvent["headers"], tenantId: row.tenantId ?? undefined };
}

/**
 * The present moment, `<pg_snapshot>@<epoch milliseconds>`: a durable format. The column of an event's time keeps whole milliseconds, rounded,
 * hence one more.
 */
export async function presentMoment(database: Sql): Promise<string> {
  const [row] = await database<[{ moment: string }]>`
    select pg_current_snapshot()::text || '@' || ceil(extract(epoch from clock_timestamp()) * 1000 + 1)::int8 as moment`;
  return row.moment;
}
