// Concurrency slots: functions of the database (in the baseline migration) grant them in short transactions of their own, one for each
// key. So a key that many runs want makes no group commit wait, and two keys never wait for each other. Tickets themselves are
// written and deleted by the commits of their runs.
import type { Sql } from "postgres";
import {
  NO_TENANT,
  type RunCommand,
  type RunId,
  type SlotKey,
  type SlotQueue,
  slotTenant,
} from "../../../machines/index.js";
import { shardOf } from "../../ids.js";
import { isEverything, OF_RUN, type Reach, withinReach } from "../lists/reach.js";
import { urgency } from "./urgency.js";

/** A start that has not been committed by then loses its reservation, never its limit. */
const RESERVED_SECONDS = 60;

/** A command that the inbox of a run has got. */
export interface SlotNews {
  readonly id: string;
  readonly to: RunId;
  readonly command: RunCommand;
}

/** The function gives so many slots, and refuses or cancels so many runs, at once. */
export const NEWS_AT_ONCE = 200;

/** Gives free slots of the key to those that have waited longest. `room`: how many may wait; given when a new ticket waits. */
export async function grantSlots(sql: Sql, key: SlotKey, room?: number): Promise<readonly SlotNews[]> {
  return sql<SlotNews[]>`
    select inbox_id as id, to_run as "to", sent as command
    from grant_slots(${key.scope}, ${key.key}, ${slotTenant(key)}, ${room ?? null})`;
}

/** Reserves a slot for a start that is about to be committed. False: none is free. */
export async function reserveSlot(sql: Sql, key: SlotKey, limit: number, runId: RunId): Promise<boolean> {
  const [row] = await sql<{ reserved: boolean }[]>`
    select reserve_slot(${key.scope}, ${key.key}, ${slotTenant(key)}, ${limit}, ${runId}, ${shardOf(runId)}, ${RESERVED_SECONDS}) as reserved`;
  return row?.reserved === true;
}

/** The start was not committed. */
export async function dropReservation(sql: Sql, runId: RunId): Promise<void> {
  await sql`delete from concurrency_tickets where run_id = ${runId} and entry = 0 and reserved_until is not null`;
}

/** Whether so many wait for a slot of the key. Starts that come at once may exceed it by their number. */
export async function isQueueFull(sql: Sql, key: SlotKey, room: number): Promise<boolean> {
  const rows = await sql`
    select 1 from concurrency_tickets
    where scope = ${key.scope} and key = ${key.key} and tenant_id = ${slotTenant(key)} and granted_at is null
    order by ticket offset ${room - 1} limit 1`;
  return rows.length > 0;
}

/** A key with waiting tickets. `due`: there may be a slot for it. */
export interface WaitingKey extends SlotKey {
  readonly due: boolean;
}

/** The next keys that have waiting tickets, found by skipping through the index, however many wait for each. */
export async function waitingKeys(sql: Sql, after: SlotKey | undefined, limit: number): Promise<readonly WaitingKey[]> {
  const { scope = "", key = "" } = after ?? {};
  const rows = await sql<{ scope: string; key: string; tenant_id: string; due: boolean }[]>`
    with recursive keys as (
      (select scope, key, tenant_id from concurrency_tickets
        where granted_at is null and (scope, key, tenant_id) > (${scope}, ${key}, ${slotTenant(after ?? {})}::uuid)
        order by scope, key, tenant_id limit 1)
      union all
      select next.* from keys cross join lateral (
        select t.scope, t.key, t.tenant_id from concurrency_tickets t
        where t.granted_at is null and (t.scope, t.key, t.tenant_id) > (keys.scope, keys.key, keys.tenant_id)
        order by t.scope, t.key, t.tenant_id limit 1
      ) next
    )
    select page.*, coalesce(head.on_limit <> 'queue' or head.slot_limit > (
        select count(*) from (
          select 1 from concurrency_tickets t where t.scope = page.scope and t.key = page.key and t.tenant_id = page.tenant_id
            and t.granted_at is not null order by t.ticket limit head.slot_limit
        ) held
      ), false) as due
    from (select * from keys limit ${limit}) page left join lateral (
      select t.slot_limit, t.on_limit from concurrency_tickets t
      where t.scope = page.scope and t.key = page.key and t.tenant_id = page.tenant_id
        and t.granted_at is null and t.reserved_until is null and t.cancelled_at is null and not is_passed_over(t.run_id, t.on_limit)
      order by t.ticket limit 1
    ) head on true`;
  return rows.map(({ tenant_id: tenantId, ...rest }) => ({ ...rest, ...(tenantId !== NO_TENANT && { tenantId }) }));
}

/** Reservations of starts that were never committed. */
export async function sweepReservations(sql: Sql): Promise<void> {
  await sql`
    with void as materialized (
      select run_id, entry from concurrency_tickets where reserved_until is not null and reserved_until < now() limit 1000
      for update skip locked
    )
    delete from concurrency_tickets t using void where t.run_id = any (array[void.run_id]) and t.entry = void.entry`;
}

export interface SlotCounts {
  readonly waiting: number;
  readonly held: number;
  /** Tickets of runs that have ended or do not exist, beyond the time of a reservation. It must be 0. */
  readonly leaked: number;
}

export async function countSlots(sql: Sql): Promise<SlotCounts> {
  const [row] = await sql<SlotCounts[]>`
    select count(*) filter (where t.granted_at is null)::int as waiting,
      count(*) filter (where t.granted_at is not null)::int as held,
      count(*) filter (where (t.reserved_until is null or t.reserved_until < now() - interval '10 seconds')
        and not exists (select from runs r where r.id = t.run_id and r.terminal_at is null))::int as leaked
    from concurrency_tickets t`;
  return row ?? { waiting: 0, held: 0, leaked: 0 };
}

/** The tickets of the runs of a workflow. Undefined: there are none. */
export async function workflowSlots(
  sql: Sql,
  reach: Reach,
  workflowId: string,
): Promise<Omit<SlotCounts, "leaked"> | undefined> {
  const [row] = await sql<Omit<SlotCounts, "leaked">[]>`
    select count(*) filter (where granted_at is null)::int as waiting, count(*) filter (where granted_at is not null)::int as held
    from concurrency_tickets t where scope = ${`workflow:${workflowId}`} and ${ofTicket(sql, reach)} having count(*) > 0`;
  return row;
}

/** Counted no further, for an explanation. */
const AHEAD = 1_000;
const HOLDERS = 3;

/** Whether the run of the ticket `t` is within the reach. A start that reserves a slot has no run yet. */
function ofTicket(sql: Sql, reach: Reach) {
  return isEverything(reach)
    ? sql`true`
    : sql`(select true from runs where runs.id = t.run_id and ${withinReach(sql, reach, OF_RUN)})`;
}

/**
 * What there is before one that waits, of its priority or a higher one, within the reach: the slots of a key may be shared by all tenants. Holders that need a person come first:
 * they hold up all others. Holders of another tenant are not shown. Undefined: it has no ticket now.
 */
export async function slotQueue(sql: Sql, reach: Reach, runId: RunId, entry: number): Promise<SlotQueue | undefined> {
  const [row] = await sql<{ slot_limit: number; ahead: number; holders: string[] | null }[]>`
    select own.slot_limit, (
      select count(*)::int from (
        select 1 from concurrency_tickets t where t.scope = own.scope and t.key = own.key and t.tenant_id = own.tenant_id
          and t.granted_at is null and t.ticket < own.ticket and coalesce(t.priority, 3) <= coalesce(own.priority, 3) and not is_passed_over(t.run_id, t.on_limit) and ${ofTicket(sql, reach)} order by t.ticket limit ${AHEAD + 1}
      ) before
    ) as ahead, (
      select array_agg(held.run_id::text order by held.urgency, held.ticket) from (
        select t.run_id, t.ticket, ${urgency(sql, "r.paused_reason")} as urgency from concurrency_tickets t join runs r on r.id = t.run_id
        where t.scope = own.scope and t.key = own.key and t.tenant_id = own.tenant_id and t.granted_at is not null
          and r.tenant_id is not distinct from (select tenant_id from runs where id = own.run_id) and ${ofTicket(sql, reach)}
        order by urgency, t.ticket limit ${HOLDERS}
      ) held
    ) as holders
    from concurrency_tickets own where own.run_id = ${runId} and own.entry = ${entry} and own.granted_at is null`;
  if (!row) return undefined;
  const counted = row.ahead > AHEAD ? ({ ahead: AHEAD, atLeast: true } as const) : { ahead: row.ahead };
  return { ...counted, limit: row.slot_limit, holders: row.holders ?? [] };
}
