// The tables of access: the keys that the service makes for itself, and the credentials that it knows.
import { sql } from "drizzle-orm";
import { bigint, boolean, index, pgTable, serial, text, uuid } from "drizzle-orm/pg-core";
import { json, runId, time } from "./columns.js";

/** Keys that the service has made for itself, for all of its nodes, where no setting gives them. */
export const serviceKeys = pgTable("service_keys", {
  purpose: text("purpose").primaryKey(),
  secret: text("secret").notNull(),
  createdAt: time("created_at").notNull().defaultNow(),
});

/** The keys that values are sealed with, for encryption at rest (sealed/keyring.ts): each is of one tenant, and wrapped by a master key that is not here. */
export const dataKeys = pgTable(
  "data_keys",
  {
    number: serial("number").primaryKey(),
    /** All zeros: of what belongs to no tenant. */
    tenantId: uuid("tenant_id").notNull(),
    masterKey: text("master_key").notNull(),
    /** Null: it was destroyed, and nothing reads its values any more. */
    wrapped: text("wrapped"),
    /** Values that nodes have reserved it for. */
    uses: bigint("uses", { mode: "number" }).notNull(),
    createdAt: time("created_at").notNull().defaultNow(),
    /** Nodes read what has changed since they read last. */
    changedAt: time("changed_at").notNull().defaultNow(),
    destroyedAt: time("destroyed_at"),
    /** When no run was unfinished any more that had its values under the destroyed key. */
    settledAt: time("settled_at"),
  },
  (t) => [index("data_keys_by_tenant").on(t.tenantId, t.number), index("data_keys_by_change").on(t.changedAt)],
);

/** API keys. The key itself is nowhere: `secretHash` is the SHA-256 of its secret, in Base64url. */
export const apiKeys = pgTable(
  "api_keys",
  {
    id: text("id").primaryKey(),
    secretHash: text("secret_hash").notNull(),
    name: text("name").notNull(),
    /** Null: the platform's. */
    tenantId: uuid("tenant_id"),
    roles: json("roles").$type<string[]>().notNull(),
    tenants: json("tenants").$type<string[]>(),
    workflows: json("workflows").$type<string[]>(),
    services: json("services").$type<string[]>(),
    secrets: json("secrets").$type<string[]>(),
    createdAt: time("created_at").notNull().defaultNow(),
    createdBy: text("created_by").notNull(),
    expiresAt: time("expires_at"),
    revokedAt: time("revoked_at"),
    /** Written at most once a minute. Not indexed: an update then stays in its page. */
    lastUsedAt: time("last_used_at"),
  },
  (t) => [
    index("api_keys_by_time").on(t.createdAt, t.id),
    index("api_keys_by_tenant").on(t.tenantId, t.createdAt, t.id),
    index("api_keys_by_end").on(sql`least(revoked_at, expires_at)`),
  ],
);

/** Sessions of browsers. The id itself is in the browser alone: `idHash` is its SHA-256, in Base64url. */
export const sessions = pgTable(
  "sessions",
  {
    idHash: text("id_hash").primaryKey(),
    /** Who acts, as audit rows have it. */
    actor: text("actor").notNull(),
    /** The API key that the session was opened with, and with which it ends. Null: a person has logged in. */
    keyId: text("key_id"),
    /** The subject and the rights, as the credential stated them. */
    stated: json("stated").$type<Readonly<Record<string, unknown>>>().notNull(),
    createdAt: time("created_at").notNull().defaultNow(),
    /** Written at most once a minute. Not indexed: an update then stays in its page. */
    seenAt: time("seen_at").notNull().defaultNow(),
    expiresAt: time("expires_at").notNull(),
  },
  (t) => [index("sessions_by_actor").on(t.actor, t.createdAt), index("sessions_by_end").on(t.expiresAt)],
);

/**
 * Runs that were erased: who did it, and when. Never deleted, but for those of children, which are there while rows of the family are left. Written
 * in the transaction that deletes the row of the run.
 */
export const erasedRuns = pgTable(
  "erased_runs",
  {
    runId: runId("run_id").primaryKey(),
    /** The run itself, or the root that its child was erased with. */
    rootRunId: runId("root_run_id").notNull(),
    tenantId: uuid("tenant_id"),
    workflowId: text("workflow_id").notNull(),
    /** The key of its start, as `start_keys` has it. Null: it had none. */
    keyHash: text("key_hash"),
    erasedBy: text("erased_by").notNull(),
    /** The bulk job that erased it. */
    bulkId: uuid("bulk_id"),
    erasedAt: time("erased_at").notNull().defaultNow(),
    /** It may still have children. */
    parent: boolean("parent").notNull().default(true),
    /** Rows of it may be left. */
    owed: boolean("owed").notNull().default(true),
  },
  (t) => [index("erased_runs_owed").on(t.rootRunId, t.runId).where(sql`owed`)],
);
