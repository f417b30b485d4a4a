// Events that runs owe to RabbitMQ: read in their order, shard by shard, and removed when the broker has them. In SQL: the read is bounded
// in bytes, and its plan is chosen. There is no lease: two nodes that publish the same event publish it twice under one id.
import type { Sql } from "postgres";
import type { RunId } from "../../../machines/index.js";
import type { ShardId } from "../../ids.js";
import { sealingOf } from "../sealed/sealing.js";

/** The most events of a page, and about how many bytes of payload it holds. */
const PAGE = 200;
const PAGE_BYTES = 4 * 1024 * 1024;

export interface OutgoingEvent {
  readonly id: string;
  readonly runId: RunId;
  /** Null, with the payload: the published event is gone. */
  readonly topic: string | null;
  readonly headers: Readonly<Record<string, string>> | null;
  /** Of the run that owes it. */
  readonly tenantId: string | null;
  /** JSON as it was stored. */
  readonly payload: string | null;
}

/** The payload is that of the row, or of the published event with its id. */
const PAYLOADS: ReadonlySet<string> = new Set(["outgoing_events.payload/", "events.payload/"]);

export interface OutgoingPage {
  readonly events: readonly OutgoingEvent[];
  /** There may be more. */
  readonly more: boolean;
}

/**
 * The first events of these shards. An event is on the page only if all earlier ones of its run are: a run has one shard, and its
 * ordinals are in the order of its commits.
 */
export async function firstOutgoing(sql: Sql, shards: readonly ShardId[]): Promise<OutgoingPage> {
  if (shards.length === 0) return { events: [], more: false };
  const rows = await sql<(OutgoingEvent & { readonly found: number })[]>`
    with near as materialized (
      select o.* from unnest(${`{${shards.join(",")}}`}::text::int2[]) s(shard) cross join lateral (
        select id, ordinal, run_id, topic, payload from outgoing_events where shard = s.shard order by ordinal limit ${PAGE}
      ) o order by o.ordinal limit ${PAGE}
    ), named as materialized (
      select near.id, near.ordinal, near.run_id, coalesce(near.topic, e.topic) as topic, e.headers,
        coalesce(near.payload, e.payload) as payload, coalesce(e.size, octet_length(near.payload::text), 0) as size
      from near left join lateral (
        select topic, headers, payload, size from events where events.id = near.id and near.topic is null limit 1) e on true
    ), sized as (
      select *, sum(size) over (order by ordinal) - size as before, count(*) over ()::int as found from named
    )
    select id, run_id as "runId", topic, headers, payload::text as payload, found,
      (select r.tenant_id from runs r where r.id = sized.run_id) as "tenantId"
    from sized where before < ${PAGE_BYTES} order by ordinal`;
  const found = rows[0]?.found ?? 0;
  const events = readable(sql, rows);
  return { events, more: events.length > 0 && (found === PAGE || found > rows.length) };
}

/** With encryption on. An event that cannot be read waits, and with it the later ones of its run: other runs go on. */
function readable(sql: Sql, rows: readonly (OutgoingEvent & { readonly found: number })[]): readonly OutgoingEvent[] {
  const sealing = sealingOf(sql);
  const waiting = new Set<RunId>();
  return rows.flatMap(({ found: _, ...event }) => {
    const { id, runId, payload } = event;
    if (payload === null || !sealing) return [event];
    if (waiting.has(runId)) return [];
    const isIts = (identity: string) => PAYLOADS.has(identity.slice(0, -id.length)) && identity.endsWith(id);
    try {
      return [{ ...event, payload: JSON.stringify(sealing.read(payload, isIts)) }];
    } catch {
      waiting.add(runId);
      return [];
    }
  });
}

/** Removes rows in key order, like the commits that add them. */
export async function removeOutgoing(sql: Sql, ids: readonly string[]): Promise<void> {
  await sql`
    delete from outgoing_events where id = any (array(
      select id from outgoing_events where id = any(${`{${ids.join(",")}}`}::text::uuid[]) order by id for update))`;
}

export async function countOutgoing(sql: Sql): Promise<number> {
  const [row] = await sql<{ count: number }[]>`select count(*)::int as count from outgoing_events`;
  return row?.count ?? 0;
}
