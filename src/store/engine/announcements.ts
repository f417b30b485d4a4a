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
  /** The last run that was notified; runs are notified in the order of their ids. */
  readonly told_to: string | null;
}

const COLUMNS = "e.id, e.topic, e.headers, e.tenant_id, e.told_to";

/** Leases events that are due, without waiting for rows that another node has locked. */
export function leaseDueEvents(sql: Sql, limit: number): Promise<readonly DueEvent[]> {
  return sql<DueEvent[]>`
    update events e set due_at = now() + make_interval(secs => ${LEASE_SECONDS})
    where e.id in (select id from events where due_at <= now() order by due_at limit ${limit} for update skip locked)
    returning ${sql.unsafe(COLUMNS)}`;
}

/** Leases those of the events that are still to be announced: events that this node published a moment ago. */
export function leaseEvents(sql: Sql, ids: readonly string[]): Promise<readonly DueEvent[]> {
  return sql<DueEvent[]>`
    update events e set due_at = now() + make_interval(secs => ${LEASE_SECONDS})
    where e.id in (
      select id from events where id = any(${[...ids]}::text[]::uuid[]) and due_at is not null order by id for update skip locked)
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
 * by the node that continues from the event's current place.
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
  const moved = await send(sql, event, notices, last);
  if (!moved) return { notices: [], event: undefined, complete: false };
  return { notices, event: { ...event, told_to: last }, complete: false };
}

/** False: another node has moved the event on in the meantime. */
async function send(
  sql: Sql,
  { id, told_to: from }: DueEvent,
  notices: readonly Notice[],
  last: string,
): Promise<boolean> {
  const command = JSON.stringify({ type: "event", eventId: id });
  const moved = await sql`
    with moved as (
      update events set told_to = ${last}, due_at = now() + make_interval(secs => ${LEASE_SECONDS})
      where id = ${id} and told_to is not distinct from ${from}::uuid and due_at is not null
      returning id
    ), sent as (
      insert into inbox (id, run_id, shard, command, due_at)
      select t.id, t.run_id, t.shard, ${command}::text::json, now() + interval '1 second'
      from unnest(${notices.map((notice) => notice.id)}::text[]::uuid[], ${notices.map(({ runId }) => runId)}::text[]::uuid[],
        ${notices.map(({ runId }) => shardOf(runId))}::text[]::int2[]) t(id, run_id, shard)
      where exists (select 1 from moved)
      on conflict (id) do nothing
    ) select id from moved`;
  return moved.count > 0;
}

/** Nothing is owed for these events any more. */
export async function markAnnounced(sql: Sql, ids: readonly string[]): Promise<void> {
  await sql`update events set due_at = null where id = any(${[...ids]}::text[]::uuid[])`;
}

/** The derivation of a command's id must never change: a repeat is recognised by it. */
function noticeId(eventId: string, runId: RunId): string {
  return derivedUuid(`${eventId}/${runId}/event`, shardOf(runId));
}
