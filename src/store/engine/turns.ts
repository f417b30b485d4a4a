// Turns under rate limits: a function of the database (in the baseline migration) gives them in short transactions of their own, one for each
// key, as slots are granted (slots.ts). Tickets are written and deleted by the commits of their runs; the wait for a turn is a timer of its run.
import type { Sql } from "postgres";
import { NO_TENANT, type RunId, type SlotKey, slotTenant, type TurnQueue } from "../../../machines/index.js";
import { isEverything, OF_RUN, type Reach, withinReach } from "../lists/reach.js";
import type { SlotNews, WaitingKey } from "./slots.js";

/** Gives those that have asked for one their turn. `room`: how many may wait. */
export async function giveTurns(sql: Sql, key: SlotKey, room?: number): Promise<readonly SlotNews[]> {
  return sql<SlotNews[]>`
    select inbox_id as id, to_run as "to", sent as command
    from give_turns(${key.scope}, ${key.key}, ${slotTenant(key)}, ${room ?? null})`;
}

/** Whether so many wait for their turn of the key. Starts that come at once may exceed it by their number. */
export async function isTurnQueueFull(sql: Sql, key: SlotKey, room: number): Promise<boolean> {
  const rows = await sql`
    select 1 from rate_tickets t
    where scope = ${key.scope} and key = ${key.key} and tenant_id = ${slotTenant(key)} and ${waits(sql)} offset ${room - 1} limit 1`;
  return rows.length > 0;
}

/** The ticket `t` is of one that still waits. */
const waits = (sql: Sql) =>
  sql`not t.returned and (t.at_us is null or t.at_us > (extract(epoch from clock_timestamp()) * 1000000)::bigint)`;

/** The next keys with turns that were asked for or given back, found by skipping through the index. */
export async function openTurnKeys(
  sql: Sql,
  after: SlotKey | undefined,
  limit: number,
): Promise<readonly WaitingKey[]> {
  const { scope = "", key = "" } = after ?? {};
  const rows = await sql<{ scope: string; key: string; tenant_id: string }[]>`
    with recursive keys as (
      (select scope, key, tenant_id from rate_tickets
        where (at_us is null or returned) and (scope, key, tenant_id) > (${scope}, ${key}, ${slotTenant(after ?? {})}::uuid)
        order by scope, key, tenant_id limit 1)
      union all
      select next.* from keys cross join lateral (
        select t.scope, t.key, t.tenant_id from rate_tickets t
        where (t.at_us is null or t.returned) and (t.scope, t.key, t.tenant_id) > (keys.scope, keys.key, keys.tenant_id)
        order by t.scope, t.key, t.tenant_id limit 1
      ) next
    )
    select * from keys limit ${limit}`;
  return rows.map(({ tenant_id: tenantId, ...rest }) => ({
    ...{ ...rest, due: true },
    ...(tenantId !== NO_TENANT && { tenantId }),
  }));
}

/** Buckets that a sweep looks at. */
const SWEPT = 1_000;

/** Deletes buckets that are full again, some at a time, in the order of their keys. The last key; undefined: there are no more. */
export async function sweepBuckets(sql: Sql, after: SlotKey | undefined): Promise<SlotKey | undefined> {
  const { scope = "", key = "" } = after ?? {};
  const [last] = await sql<{ scope: string; key: string; tenant_id: string; looked: number }[]>`
    with page as materialized (
      select scope, key, tenant_id from rate_buckets
      where (scope, key, tenant_id) > (${scope}, ${key}, ${slotTenant(after ?? {})}::uuid) order by scope, key, tenant_id limit ${SWEPT}
    ), gone as (
      delete from rate_buckets b using page where b.scope = page.scope and b.key = page.key and b.tenant_id = page.tenant_id
        and b.full_us <= (extract(epoch from clock_timestamp()) * 1000000)::bigint
    )
    select *, (select count(*)::int from page) as looked from page order by scope desc, key desc, tenant_id desc limit 1`;
  if (!last || last.looked < SWEPT) return undefined;
  return { scope: last.scope, key: last.key, ...(last.tenant_id !== NO_TENANT && { tenantId: last.tenant_id }) };
}

export interface TurnCounts {
  readonly waiting: number;
  /** Tickets of runs that have ended or do not exist, and are not given back. It must be 0. */
  readonly leaked: number;
}

export async function countTurns(sql: Sql): Promise<TurnCounts> {
  const [row] = await sql<TurnCounts[]>`
    select count(*) filter (where ${waits(sql)})::int as waiting,
      count(*) filter (where not t.returned
        and not exists (select from runs r where r.id = t.run_id and r.terminal_at is null))::int as leaked
    from rate_tickets t`;
  return row ?? { waiting: 0, leaked: 0 };
}

/** How many runs of a workflow wait for their turn. */
export async function workflowTurns(sql: Sql, reach: Reach, workflowId: string): Promise<number> {
  const [row] = await sql<{ waiting: number }[]>`
    select count(*)::int as waiting from rate_tickets t
    where scope = ${`workflow:${workflowId}`} and ${waits(sql)} and ${ofTicket(sql, reach)}`;
  return row?.waiting ?? 0;
}

/** Counted no further, for an explanation. */
const AHEAD = 1_000;

/** Whether the run of the ticket `t` is within the reach. */
function ofTicket(sql: Sql, reach: Reach) {
  return isEverything(reach)
    ? sql`true`
    : sql`(select true from runs where runs.id = t.run_id and ${withinReach(sql, reach, OF_RUN)})`;
}

/** How many have their turn before one that waits, within the reach. Undefined: it has no ticket now. */
export async function turnQueue(sql: Sql, reach: Reach, runId: RunId, entry: number): Promise<TurnQueue | undefined> {
  const [row] = await sql<{ ahead: number }[]>`
    select (
      select count(*)::int from (
        select 1 from rate_tickets t where t.scope = own.scope and t.key = own.key and t.tenant_id = own.tenant_id
          and ${waits(sql)} and (coalesce(t.at_us, ${FAR}), t.ticket) < (coalesce(own.at_us, ${FAR}), own.ticket) and ${ofTicket(sql, reach)}
        limit ${AHEAD + 1}
      ) before
    ) as ahead
    from rate_tickets own where own.run_id = ${runId} and own.entry = ${entry} and not own.returned`;
  if (!row) return undefined;
  return row.ahead > AHEAD ? { ahead: AHEAD, atLeast: true } : { ahead: row.ahead };
}

/** Behind every moment: of one that does not know its turn yet. */
const FAR = "9223372036854775807";
