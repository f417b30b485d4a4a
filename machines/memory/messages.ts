// The messages that the store itself sends to runs, beside those of commits: notices of published events (src/store/engine/announcements.ts)
// and of slots (the function `grant_slots` of Postgres). They are inbox rows, like those that runs send to each other.

import type { RunCommand } from "../messages/command.js";
import { shardNumber } from "../values/ids.js";
import { correlatedRuns } from "./facts.js";
import { keyOf, type Tables, type TicketRow } from "./tables.js";

/** Offers each event that was not announced yet to the runs that wait for it. A run that begins to wait later looks for it itself. */
export function announce(tables: Tables, now: number): void {
  for (const event of tables.events) {
    if (event.announced) continue;
    tables.events.put({ ...event, announced: true });
    for (const runId of correlatedRuns(tables, event))
      tell(tables, runId, { type: "event", eventId: event.id }, now, `${event.id}/${runId}`);
  }
}

/** Gives the free slots of each key to those that have waited longest. `every`: there is a slot for each. */
export function grantSlots(tables: Tables, now: number, every = false): void {
  const { concurrency_tickets: tickets } = tables;
  const keys = new Set([...tickets].filter(({ granted }) => !granted).map(slotKeyOf));
  for (const key of keys) {
    const queue = [...tickets].filter((ticket) => slotKeyOf(ticket) === key).sort((a, b) => a.ordinal - b.ordinal);
    if (every) for (const ticket of queue) grant(tables, ticket, now);
    else grantKey(tables, queue, now);
  }
}

const slotKeyOf = ({ scope, key, tenant_id }: TicketRow) => JSON.stringify([scope, key, tenant_id]);

/** `queue`: all tickets of the key, the oldest first. */
function grantKey(tables: Tables, queue: readonly TicketRow[], now: number): void {
  const newest = queue.at(-1);
  let left = queue;
  if (newest?.on_limit === "cancel_oldest") left = cancelOldest(tables, queue, newest.slot_limit, now);
  let held = left.filter(({ granted }) => granted).length;
  for (const ticket of left) {
    if (ticket.granted || ticket.cancelled || isPassedOver(tables, ticket)) continue;
    if (held >= ticket.slot_limit) break;
    grant(tables, ticket, now);
    held++;
  }
  for (const { run_id, entry, on_limit } of left) {
    const ticket = tables.concurrency_tickets.get(keyOf(run_id, entry));
    if (!ticket || ticket.granted || on_limit !== "refuse") continue;
    tables.concurrency_tickets.delete(keyOf(run_id, entry));
    tell(tables, run_id, { type: "slot_refused", entry, reason: "refused" }, now);
  }
}

const REPLACED = "a newer run of its concurrency key has taken its place";

/** All but the newest, as many as there are slots, are cancelled. */
function cancelOldest(tables: Tables, queue: readonly TicketRow[], limit: number, now: number): readonly TicketRow[] {
  const kept = queue.filter(({ cancelled }) => !cancelled);
  const old = new Set(kept.slice(0, Math.max(0, kept.length - limit)));
  for (const { run_id } of old)
    tell(tables, run_id, { type: "cancel", reason: REPLACED, compensate: true, actor: "coordinator" }, now);
  return queue.map((ticket) => {
    if (!old.has(ticket)) return ticket;
    const cancelled = { ...ticket, cancelled: true };
    tables.concurrency_tickets.put(cancelled);
    return cancelled;
  });
}

function grant(tables: Tables, ticket: TicketRow, now: number): void {
  if (ticket.granted) return;
  tables.concurrency_tickets.put({ ...ticket, granted: true });
  tell(tables, ticket.run_id, { type: "slot_granted", entry: ticket.entry }, now);
}

/** A run that an operator has paused, or that is in quarantine, would hold its slot for nothing. */
function isPassedOver({ runs }: Tables, { run_id, on_limit }: TicketRow): boolean {
  const reason = runs.get(run_id)?.paused_reason;
  return on_limit !== "refuse" && (reason === "operator" || reason === "quarantine");
}

function tell({ inbox }: Tables, to: string, command: RunCommand, now: number, id = `told/${inbox.next()}`): void {
  inbox.putNew({ id, run_id: to, shard: shardNumber(to), command, due_at: now });
}
