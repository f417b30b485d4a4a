// Announcements: every run that waits for an event is notified, by a durable command in its inbox. The event's own row owes these
// notices until all waiting runs have theirs. In SQL: a batch of inbox rows and the place to continue from are one statement.
import type { Sql } from "postgres";
import type { RunId } from "../../../machines/index.js";
import { derivedUuid, shardOf } from "../../ids.js";
import { type CorrelatedEvent, correlatedRuns } from "./correlation.js";

/** The time that a node has to announce an event before another one continues where it stopped. */
const LEASE_SECONDS = 10;
/** Runs notified in one statement. */
const BATCH = 500;

export interface DueEvent extends CorrelatedEvent {
  /**
   * Until when it is leased, as the store has it: the token of the node that announces it. Another node, and a standby that took over without the last
   * seconds, have another one.
   */
  readonly lease: string;
  /** The last run that was notified; runs are notified in the order of their ids. */
  readonly told_to: string | null;
}

const COLUMNS = "e.id, e.topic, e.headers, e.tenant_id, e.told_to, e.due_at::text as lease";

/** Leases events that are due, without waiting for rows that another node has locked. */
export function leaseDueEvents(sql: Sql, limit: number): Promise<readonly DueEvent[]> {
  return sql<DueEvent[]>`
    update events e set due_at = now() + make_interval(secs => ${LEASE_SECONDS})
    where e.id = any (array(select id from events where due_at <= now() order by due_at limit ${limit} for update skip locked))
    returning ${sql.unsafe(COLUMNS)}`;
}

/**
 * Leases those of the events that are still to be announced: events that this node published a moment ago. With `is not null`, a plan could walk
 * through the index of all that are due.
 */
export function leaseEvents(sql: Sql, ids: readonly string[]): Promise<readonly DueEvent[]> {
  return sql<DueEvent[]>`
    update events e set due_at = now() + make_interval(secs => ${LEASE_SECONDS})
    where e.id = any (array(
      select id from events where id = any(${[...ids]}::text[]::uuid[]) and coalesce(due_at, 'infinity') < 'infinity'
      order by id for update skip locked))
    returning ${sql.unsafe(COLUMNS)}`;
}

/** The command that notifies a run of an event. */
export interface Notice {
  /** The id of the command, and of its inbox row. */
  readonly id: string;
  readonly runId: RunId;
}

export interface Announced {
  /** The notices that this call has sent. */
  readonly notices: readonly Notice[];
  /** The event to continue with; undefined: another node continues with it. */
  readonly event: DueEvent | undefined;
  /** No waiting run is left. */
  readonly complete: boolean;
}

/**
 * Notifies the next batch of runs that wait for the event. A run that begins to wait later needs no notice: it scans the events after its
 * own commit, and sees this one. Each run is notified once: its row and the place to continue from are written in one statement, and only
 * under the event's present lease.
 */
export async function announceTo(
  sql: Sql,
  event: DueEvent,
  options: { readonly tenantsApart?: boolean } = {},
): Promise<Announced> {
  const waiting = await correlatedRuns(sql, event, event.told_to, BATCH, options);
  const last = waiting.at(-1);
  if (last === undefined) return { notices: [], event, complete: true };
  const notices = waiting.map((runId) => ({ runId, id: noticeId(event.id, runId) }));
  const lease = await send(sql, event, notices, last);
  if (lease === undefined) return { notices: [], event: undefined, complete: false };
  return { notices, event: { ...event, lease, told_to: last }, complete: false };
}

/** The event's new lease. Undefined: it has another one than this node knows. */
async function send(
  sql: Sql,
  { id, lease }: DueEvent,
  notices: readonly Notice[],
  last: string,
): Promise<string | undefined> {
  const command = JSON.stringify({ type: "event", eventId: id });
  const [moved] = await sql<{ lease: string }[]>`
    with moved as (
      update events set told_to = ${last}, due_at = now() + make_interval(secs => ${LEASE_SECONDS})
      where id = ${id} and due_at = ${lease}::timestamptz
      returning due_at::text as lease
    ), sent as (
      insert into inbox (id, run_id, shard, command, due_at)
      select t.id, t.run_id, t.shard, ${command}::text::json, now() + interval '1 second'
      from unnest(${notices.map((notice) => notice.id)}::text[]::uuid[], ${notices.map(({ runId }) => runId)}::text[]::uuid[],
        ${notices.map(({ runId }) => shardOf(runId))}::text[]::int2[]) t(id, run_id, shard)
      where exists (select 1 from moved)
      on conflict (id) do nothing
    ) select lease from moved`;
  return moved?.lease;
}

/** Another lease of the event, which the store has only if it also has all that was written under this one. Undefined: it has another one by now. */
export async function leaseAgain(sql: Sql, event: DueEvent): Promise<DueEvent | undefined> {
  const [found] = await sql<{ lease: string }[]>`
    update events set due_at = now() + make_interval(secs => ${LEASE_SECONDS})
    where id = ${event.id} and due_at = ${event.lease}::timestamptz
    returning due_at::text as lease`;
  return found && { ...event, lease: found.lease };
}

/** Nothing is owed any more for those of the events that still have these leases. */
export async function markAnnounced(sql: Sql, events: readonly DueEvent[]): Promise<void> {
  const ids = events.map(({ id }) => id);
  const leases = events.map(({ lease }) => lease);
  await sql`
    update events e set due_at = null
    from unnest(${ids}::text[]::uuid[], ${leases}::text[]::timestamptz[]) done (id, lease)
    where e.id = any (array[done.id]) and e.due_at is not distinct from done.lease`;
}

/** The derivation of a command's id must never change: a repeat is recognised by it. */
function noticeId(eventId: string, runId: RunId): string {
  return derivedUuid(`${eventId}/${runId}/event`, shardOf(runId));
}
