// The tables of rate limits: turns that runs have asked for, and the token buckets of their keys. The function that gives turns is in the
// baseline (migrations/0000_baseline.sql), because drizzle cannot express it.
import { sql } from "drizzle-orm";
import {
  bigint,
  bigserial,
  boolean,
  index,
  integer,
  pgTable,
  primaryKey,
  smallint,
  text,
  uuid,
} from "drizzle-orm/pg-core";
import { runId } from "./columns.js";

/** A turn under a rate limit: asked for (no `atUs`), given, or to be given back. One that is used has no row. `entry` 0: the whole run's. Times are microseconds. */
export const rateTickets = pgTable(
  "rate_tickets",
  {
    runId: runId("run_id").notNull(),
    entry: integer("entry").notNull(),
    shard: smallint("shard").notNull(),
    tenantId: uuid("tenant_id").notNull(),
    scope: text("scope").notNull(),
    key: text("key").notNull(),
    stepId: text("step_id"),
    /** The order of the asks. */
    ticket: bigserial("ticket", { mode: "bigint" }).notNull(),
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
