// The messages that the store itself sends to runs, beside those of commits: notices of published events (src/store/engine/announcements.ts)
// of slots and of turns (the functions `grant_slots` and `give_turns` of Postgres). They are inbox rows, like those that runs send to each other.

import type { RunCommand } from "../messages/command.js";
import { shardNumber } from "../values/ids.js";
import { correlatedRuns } from "./facts.js";
import { type Bucket, keyOf, type Tables, type TicketRow, type TurnRow } from "./tables.js";

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

/** Gives each that has asked for one its turn, in the order of the asks. `every`: it has it at once. */
export function giveTurns(tables: Tables, now: number, every = false): void {
  const { rate_tickets: tickets } = tables;
  const ordered = [...tickets].sort((a, b) => a.ordinal - b.ordinal);
  for (const ticket of ordered.toReversed()) if (ticket.returned) takeBack(tables, ticket);
  for (const ticket of ordered) {
    if (ticket.returned || ticket.at !== undefined) continue;
    const moment = now * 1_000;
    const given = every ? { at: moment } : turnAt(tables, ticket, moment);
    tickets.put({ ...ticket, ...given });
    tell(tables, ticket.run_id, { type: "turn_given", entry: ticket.entry, at: Math.ceil(given.at / 1_000) }, now);
  }
}

/** The next token of the bucket. */
function turnAt(tables: Tables, ticket: TurnRow, moment: number) {
  const { tenant_id, scope, key, rate_limit: limit, per_ms, burst } = ticket;
  const step = Math.ceil((Number(per_ms) * 1_000) / limit);
  const known = tables.rate_buckets.get(keyOf(tenant_id, scope, key));
  const last = lastTurn(tables, ticket, moment);
  let full = known?.full ?? moment;
  if (known && (known.step !== step || known.burst !== burst))
    full =
      last > moment
        ? last + burst * step
        : Math.ceil(moment + Math.min(((full - moment) * step) / known.step, burst * step));
  const before = Math.min(Math.max(full, moment), last + burst * step);
  const after = before + step;
  tables.rate_buckets.put({ tenant_id, scope, key, full: after, step, burst });
  return { at: Math.max(moment, after - burst * step), before, after };
}

/** The last turn of the key that has not come yet; otherwise now. */
function lastTurn({ rate_tickets }: Tables, { tenant_id, scope, key }: TurnRow, moment: number): number {
  let last = moment;
  for (const { at = 0, ...ticket } of rate_tickets)
    if (ticket.tenant_id === tenant_id && ticket.scope === scope && ticket.key === key) last = Math.max(last, at);
  return last;
}

/** A turn that is not used: its token is there for the next one, unless others have theirs behind it. */
function takeBack({ rate_tickets, rate_buckets }: Tables, { run_id, entry, ...returned }: TurnRow): void {
  const { tenant_id, scope, key, before, after } = returned;
  rate_tickets.delete(keyOf(run_id, entry));
  if (before === undefined) return;
  const bucket = rate_buckets.get(keyOf(tenant_id, scope, key));
  if (bucket?.full === after) return rate_buckets.put({ ...bucket, full: before } as Bucket);
  for (const next of rate_tickets)
    if (next.scope === scope && next.key === key && next.before === after) rate_tickets.put({ ...next, before });
}

function tell({ inbox }: Tables, to: string, command: RunCommand, now: number, id = `told/${inbox.next()}`): void {
  inbox.putNew({ id, run_id: to, shard: shardNumber(to), command, due_at: now });
}
