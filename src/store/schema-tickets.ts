// The tables of what runs and steps must have of a key before they go on: slots of concurrency keys; turns under rate limits, and the token buckets of their
// keys. The functions that grant both are in the baseline (migrations/0000_baseline.sql), because drizzle cannot express them.
import { sql } from "drizzle-orm";
import {
  bigint,
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

/** What a ticket says of the run, or of the step entry (`entry` 0: the whole run), that asks for something of a key. `ticket`: the order of the asks. */
const ofTicket = () => ({
  runId: runId("run_id").notNull(),
  entry: integer("entry").notNull(),
  shard: smallint("shard").notNull(),
  tenantId: uuid("tenant_id").notNull(),
  scope: text("scope").notNull(),
  key: text("key").notNull(),
  stepId: text("step_id"),
  ticket: bigserial("ticket", { mode: "bigint" }).notNull(),
});

/** A slot that is held (`grantedAt`), reserved for a start (`reservedUntil`), or waited for. `entry` 0: the whole run's. */
export const concurrencyTickets = pgTable(
  "concurrency_tickets",
  {
    ...ofTicket(),
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

/** A turn under a rate limit: asked for (no `atUs`), given, or to be given back. One that is used has no row. `entry` 0: the whole run's. Times are microseconds. */
export const rateTickets = pgTable(
  "rate_tickets",
  {
    ...ofTicket(),
    rateLimit: integer("rate_limit").notNull(),
    perMs: bigint("per_ms", { mode: "number" }).notNull(),
    burst: integer("burst").notNull(),
    admitted: boolean("admitted").notNull(),
    /** Its token is there from then on. */
    atUs: bigint("at_us", { mode: "bigint" }),
    /** When the bucket was to be full before it, and is with it. */
    beforeUs: bigint("before_us", { mode: "bigint" }),
    afterUs: bigint("after_us", { mode: "bigint" }),
    returned: boolean("returned").notNull().default(false),
  },
  (t) => [
    primaryKey({ columns: [t.runId, t.entry] }),
    index("rate_tickets_open").on(t.scope, t.key, t.tenantId, t.ticket).where(sql`at_us is null or returned`),
    index("rate_tickets_given").on(t.scope, t.key, t.tenantId, t.atUs).where(sql`at_us is not null`),
  ],
);

/** The token bucket of a key, while tokens are missing: when it is full if no more are taken, and what it was computed with. */
export const rateBuckets = pgTable(
  "rate_buckets",
  {
    tenantId: uuid("tenant_id").notNull(),
    scope: text("scope").notNull(),
    key: text("key").notNull(),
    fullUs: bigint("full_us", { mode: "bigint" }).notNull(),
    stepUs: bigint("step_us", { mode: "bigint" }).notNull(),
    burst: integer("burst").notNull(),
  },
  (t) => [primaryKey({ columns: [t.scope, t.key, t.tenantId] })],
);
