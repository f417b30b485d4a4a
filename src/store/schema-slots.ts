// The table of concurrency tickets: who holds a slot of a key, and who waits for one. What grants slots is in the baseline migration (`grant_slots`).
import { sql } from "drizzle-orm";
import {
  bigserial,
  boolean,
  doublePrecision,
  index,
  integer,
  pgTable,
  primaryKey,
  smallint,
  text,
  uuid,
} from "drizzle-orm/pg-core";
import { runId, time } from "./columns.js";

/** A slot that is held (`grantedAt`), reserved for a start (`reservedUntil`), or waited for. `entry` 0: the whole run's. */
export const concurrencyTickets = pgTable(
  "concurrency_tickets",
  {
    runId: runId("run_id").notNull(),
    entry: integer("entry").notNull(),
    shard: smallint("shard").notNull(),
    tenantId: uuid("tenant_id").notNull(),
    scope: text("scope").notNull(),
    key: text("key").notNull(),
    stepId: text("step_id"),
    /** The order of the queue. */
    ticket: bigserial("ticket", { mode: "bigint" }).notNull(),
    slotLimit: integer("slot_limit").notNull(),
    onLimit: text("on_limit", { enum: ["queue", "refuse", "cancel_oldest"] }).notNull(),
    admitted: boolean("admitted").notNull(),
    requestedAt: time("requested_at").notNull().defaultNow(),
    grantedAt: time("granted_at"),
    reservedUntil: time("reserved_until"),
    cancelledAt: time("cancelled_at"),
    /** With the next two, the precedence of its run, every default filled in; `fairness_key` is empty where there is none. Null: its run has none. */
    priority: smallint("priority"),
    fairnessKey: text("fairness_key"),
    fairnessWeight: doublePrecision("fairness_weight"),
    /** Of the first ticket of a fairness key: when the key has its turn, in the time of its level. Null: it has just come. */
    turn: doublePrecision("turn"),
    /** Of the ticket that has waited longest: the turn of a level that was taken last. */
    levelTurn: smallint("level_turn"),
  },
  (t) => [
    primaryKey({ columns: [t.runId, t.entry] }),
    index("concurrency_tickets_by_key").on(t.scope, t.key, t.tenantId, t.ticket),
    index("concurrency_tickets_waiting").on(t.scope, t.key, t.tenantId, t.ticket).where(sql`granted_at is null`),
    index("concurrency_tickets_held").on(t.scope, t.key, t.tenantId, t.ticket).where(sql`granted_at is not null`),
    index("concurrency_tickets_in_turn")
      .on(t.scope, t.key, t.tenantId, t.priority, t.fairnessKey, t.ticket)
      .where(sql`granted_at is null and priority is not null`),
    index("concurrency_tickets_reserved").on(t.scope, t.key, t.tenantId).where(sql`reserved_until is not null`),
    index("concurrency_tickets_refusable")
      .on(t.scope, t.key, t.tenantId)
      .where(sql`granted_at is null and on_limit = 'refuse'`),
  ],
);
