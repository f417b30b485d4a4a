// The tables. What drizzle cannot express (partitions, storage parameters, functions, triggers) is in the baseline, behind the statements
// that drizzle has written (migrations/0000_baseline.sql); a test compares both with the database. Values are `json`, not `jsonb`: key
// order survives a reload (a replay must see what the first run saw), and the hot path is spared the conversion.
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
  unique,
  uniqueIndex,
  uuid,
} from "drizzle-orm/pg-core";
import type { JsonObject, RetryPolicy } from "../../machines/index.js";
import { json, jsonb, runId, time, xid8 } from "./columns.js";
import { COMPARED, EXPECTED } from "./engine/correlation.js";

export * from "./schema-access.js";
export * from "./schema-kept.js";
export * from "./schema-tickets.js";

/** The common columns of versioned documents: see versions.ts. */
const versioned = (id: string, key: string) => ({
  id: uuid(id).primaryKey(),
  /** The name that all versions share. */
  key: text(key).notNull(),
  version: integer("version").notNull(),
  /** Whose it is, the same for all versions that were stored with access on. Null: the platform's, which every tenant may use. */
  tenantId: uuid("tenant_id"),
  /** The `tenant_id` of the document: the only tenant that may use it. */
  forTenant: text("for_tenant"),
  name: text("name").notNull(),
  published: boolean("published").notNull(),
  /** Never false again once it is true: from then on the version is immutable, also after it is unpublished. */
  everPublished: boolean("ever_published").notNull(),
  createdAt: time("created_at").notNull().defaultNow(),
  createdBy: text("created_by"),
});

const anyVersioned = () => pgTable("", versioned("", ""));
export type VersionedTable = ReturnType<typeof anyVersioned>;
export type VersionRow = VersionedTable["$inferSelect"];

/** Published and draft workflow documents, as they were posted. */
export const definitions = pgTable(
  "definitions",
  { ...versioned("definition_id", "workflow_id"), document: json("document").$type<JsonObject>().notNull() },
  (t) => [unique("definitions_version").on(t.key, t.version)],
);

const ENDED_WITH = sql`case when terminal_at is null then null when state = 'succeeded' then ''
  else coalesce(left(record->'ending'->'error'->>'code', 256), '') end`;
const HELD_AS = sql`case when terminal_at is null and paused_reason in ('incident', 'operator', 'concurrency') then paused_reason end`;

/** The hot row of a run: narrow, updated in place by every commit. Nothing indexed here changes before the run ends. */
export const runs = pgTable(
  "runs",
  {
    id: runId("id").primaryKey(),
    shard: smallint("shard").notNull(),
    /** Counts updates; every update is a compare-and-set on it (law 1). */
    revision: integer("revision").notNull(),
    /** The random token beside the revision, new with each update. */
    fence: bigint("fence", { mode: "bigint" }).notNull(),
    /** Numbers the audit rows, nothing else. */
    lastSeq: integer("last_seq").notNull(),
    state: text("state").notNull(),
    currentStep: text("current_step"),
    lastEventAt: time("last_event_at").notNull(),
    terminalAt: time("terminal_at"),
    /**
     * For the filters of the list: the state and the step in which the run ended, and the code of the error that it ended with, cut to what an index
     * has room for; empty: none. `state` and `current_step` change while a run works, so an index on them would make those updates leave their page.
     */
    endedAs: text("ended_as").generatedAlwaysAs(sql`case when terminal_at is not null then state end`),
    endedIn: text("ended_in").generatedAlwaysAs(sql`case when terminal_at is not null then current_step end`),
    endedWith: text("ended_with").generatedAlwaysAs(ENDED_WITH),
    /** `pausedReason` where it is an exception; the list filters by it, too. It changes with exceptions only, and not with every wait. */
    heldAs: text("held_as").generatedAlwaysAs(HELD_AS),
    requiresManualReview: boolean("requires_manual_review").notNull(),
    awaitedSignal: text("awaited_signal"),
    pausedReason: text("paused_reason"),
    /** The rest of the actor's state, in our own versioned format (machines/state/record.ts). Small. */
    record: json("record").$type<JsonObject>().notNull(),
    /** The action call in progress: a column of its own, so that an update that does not change it does not write it again. */
    call: json("call"),
    output: json("output"),
    /** The blocks that the token is in, and the items of the foreach in progress: columns of their own, like `call`. */
    frames: json("frames").$type<JsonObject[]>(),
    items: json("items"),
    // Fixed at the start of the run, but for the version and its definition: a run may move to another one.
    workflowId: text("workflow_id").notNull(),
    version: integer("version").notNull(),
    definitionId: uuid("definition_id").notNull(),
    tenantId: uuid("tenant_id"),
    businessKey: text("business_key"),
    triggerId: uuid("trigger_id"),
    parentRunId: runId("parent_run_id"),
    parentStepId: text("parent_step_id"),
    parentBranchId: text("parent_branch_id"),
    /** The parent's step entry that created the run. */
    parentEntry: integer("parent_entry"),
    rootRunId: uuid("root_run_id"),
    /** The run that a branch or an item is a part of. Signals are addressed to that run. */
    familyRunId: uuid("family_run_id"),
    startedAt: time("started_at").notNull(),
  },
  (t) => [
    index("runs_by_start").on(t.startedAt, t.id),
    index("runs_by_workflow").on(t.workflowId, t.startedAt, t.id),
    index("runs_by_version").on(t.workflowId, t.version, t.startedAt, t.id),
    index("runs_by_tenant").on(t.tenantId, t.startedAt, t.id).where(sql`tenant_id is not null`),
    index("runs_by_trigger").on(t.triggerId, t.startedAt, t.id).where(sql`trigger_id is not null`),
    index("runs_by_key").on(sql`${t.businessKey} collate "C"`, t.startedAt, t.id).where(sql`business_key is not null`),
    index("runs_of_roots").on(t.startedAt, t.id).where(sql`parent_run_id is null`),
    index("runs_in_review").on(t.startedAt, t.id).where(sql`requires_manual_review`),
    index("runs_unfinished").on(t.startedAt, t.id).where(sql`terminal_at is null`),
    index("runs_by_ended_as").on(t.endedAs, t.startedAt, t.id).where(sql`ended_as is not null`),
    index("runs_by_workflow_and_end").on(t.workflowId, t.endedAs, t.startedAt, t.id).where(sql`ended_as is not null`),
    index("runs_by_ended_in").on(t.endedIn, t.startedAt, t.id).where(sql`ended_in is not null`),
    index("runs_by_ended_with").on(t.endedWith, t.startedAt, t.id).where(sql`ended_with <> ''`),
    index("runs_held").on(t.heldAs, t.startedAt, t.id).where(sql`held_as is not null`),
    index("runs_by_parent").on(t.parentRunId, t.parentEntry).where(sql`parent_run_id is not null`),
    index("runs_by_family").on(t.familyRunId).where(sql`family_run_id is not null`),
    index("runs_in_flight").on(t.workflowId).where(sql`terminal_at is null`),
    index("runs_ended").on(t.workflowId, t.terminalAt).where(sql`terminal_at is not null`),
    index("runs_by_end").on(t.terminalAt, t.id).where(sql`terminal_at is not null`),
    // What retention deletes, which goes by the root of a family: those whose time differs do not stand between those that are past theirs.
    index("runs_expiring")
      .on(t.workflowId, t.endedAs, t.terminalAt, t.id)
      .where(sql`terminal_at is not null and parent_run_id is null`),
  ],
);

/** What runs that ended have in common. `tenantId`: all zeros for none. `root`: they have no parent. */
const endedKind = () => ({
  workflowId: text("workflow_id").notNull(),
  version: integer("version").notNull(),
  tenantId: uuid("tenant_id").notNull(),
  root: boolean("root").notNull(),
  endedAs: text("ended_as").notNull(),
});

/**
 * How many runs of a kind ended in a minute, of those that ended before the horizon (end-counts.ts). The row with the minute -infinity has all that the
 * store holds, old minutes and dry runs included.
 */
export const runEndCounts = pgTable(
  "run_end_counts",
  {
    ...endedKind(),
    dry: boolean("dry").notNull(),
    minute: time("minute").notNull(),
    count: bigint("count", { mode: "number" }).notNull(),
  },
  (t) => [
    primaryKey({
      name: "run_end_counts_pk",
      columns: [t.workflowId, t.minute, t.version, t.tenantId, t.root, t.endedAs, t.dry],
    }),
    index("run_end_totals").on(t.workflowId, t.version).where(sql`minute = '-infinity'`),
  ],
);

/** One row: ends before `until` are counted, and minutes from `since` on have rows. */
export const endHorizon = pgTable("end_horizon", {
  id: smallint("id").primaryKey(),
  since: time("since").notNull(),
  until: time("until").notNull(),
});

/** Changes to add to the counts, written by the database: runs that ended late, with time and id, and runs that are gone, without them. */
export const runEndChanges = pgTable("run_end_changes", {
  ...endedKind(),
  change: integer("change").notNull(),
  endedAt: time("ended_at"),
  runId: runId("run_id"),
});

/** The start of a run: wide and cold, so it is not in the hot row. The row of a run that was erased stays, emptied: no start gets its id. */
export const runStarts = pgTable("run_starts", {
  runId: uuid("run_id").primaryKey(),
  /** Null: a branch or an item has the inputs of its kept scope. */
  inputs: json("inputs"),
  /** Entrypoint, features, dry run, delay, expiry: the rest of the run's identity (machines/state/record.ts). */
  identity: json("identity").$type<JsonObject>().notNull(),
  /** Hash of the request: a repeat with another body is a conflict. */
  requestHash: text("request_hash").notNull(),
});

/** Labels of runs, for the filters of the list. A run's own copy is in its identity. */
export const runLabels = pgTable(
  "run_labels",
  { runId: uuid("run_id").notNull(), name: text("name").notNull(), value: text("value").notNull() },
  (t) => [primaryKey({ columns: [t.runId, t.name] }), index("run_labels_by_value").on(t.name, t.value, t.runId)],
);

/** Idempotency keys of starts, hashed (engine/start-keys.ts). `scope` is tenant and workflow id. The row of a run that was erased stays. */
export const startKeys = pgTable(
  "start_keys",
  { scope: text("scope").notNull(), key: text("key").notNull(), runId: runId("run_id").notNull() },
  (t) => [primaryKey({ columns: [t.scope, t.key] })],
);

/**
 * The run that holds a business key, hashed as the keys of starts are: the last one that was started with a policy for conflicts. It holds nothing once it
 * has ended. `burst_at`: see the relation `held_key`.
 */
export const heldKeys = pgTable(
  "held_keys",
  {
    scope: text("scope").notNull(),
    key: text("key").notNull(),
    runId: runId("run_id").notNull(),
    burstAt: time("burst_at"),
  },
  (t) => [primaryKey({ columns: [t.scope, t.key] }), index("held_keys_by_run").on(t.runId)],
);

/** One row a variable: only what changed is written. A null value: the variable was removed. */
export const runVariables = pgTable(
  "run_variables",
  { runId: runId("run_id").notNull(), name: text("name").notNull(), value: json("value") },
  (t) => [primaryKey({ columns: [t.runId, t.name] })],
);

/** Audit rows: insert-only, partitioned by time. The id of one is derived from (run_id, seq): `eventId` in src/ids.ts. */
export const runEvents = pgTable(
  "run_events",
  {
    runId: runId("run_id").notNull(),
    seq: integer("seq").notNull(),
    recordedAt: time("recorded_at").notNull(),
    eventType: text("event_type").notNull(),
    stepId: text("step_id"),
    attempt: integer("attempt").notNull(),
    fromState: text("from_state").notNull(),
    toState: text("to_state").notNull(),
    actor: text("actor").notNull(),
    metadata: json("metadata"),
    /** The worker's answer that the row is the outcome of, if it named its dispatch: a repeat of it is no stale answer. */
    commandId: uuid("command_id"),
  },
  (t) => [primaryKey({ columns: [t.runId, t.seq, t.recordedAt] })],
);

export const signals = pgTable(
  "signals",
  {
    id: uuid("id").primaryKey(),
    /** The order of receipt, by which a signal is the oldest. */
    ordinal: bigserial("ordinal", { mode: "bigint" }).notNull(),
    runId: runId("run_id").notNull(),
    signalName: text("signal_name").notNull(),
    payload: json("payload"),
    receivedAt: time("received_at").notNull(),
    consumedAt: time("consumed_at"),
    /** The branch or item that takes it: its sender was answered so. Void once that run has ended. */
    promisedTo: runId("promised_to"),
  },
  (t) => [index("signals_by_run").on(t.runId, t.signalName, t.ordinal)],
);

/** Published events, for runs that wait for them. Kept for a bounded time. */
export const events = pgTable(
  "events",
  {
    id: uuid("id").primaryKey(),
    /** The order in which events are scanned. */
    ordinal: bigserial("ordinal", { mode: "bigint" }).notNull(),
    /** Of the run or the principal that published the event: only runs and triggers of this tenant see it. */
    tenantId: uuid("tenant_id"),
    topic: text("topic").notNull(),
    headers: jsonb("headers").notNull(),
    payload: json("payload").notNull(),
    /** Bytes of the payload: a page of events is bounded by them. */
    size: integer("size").notNull(),
    /** Within its tenant. */
    idempotencyKey: text("idempotency_key"),
    requestHash: text("request_hash"),
    publishedAt: time("published_at").notNull().defaultNow(),
    /** The transaction that published the event. */
    xid: xid8("xid").notNull().default(sql`pg_current_xact_id()`),
    /** When the event is to be announced to waiting runs; null: all of them have been notified. */
    dueAt: time("due_at"),
    /** The last run that was notified. */
    toldTo: uuid("told_to"),
  },
  (t) => [
    uniqueIndex("events_by_key").on(t.idempotencyKey).where(sql`tenant_id is null and idempotency_key is not null`),
    uniqueIndex("events_by_tenant_and_key")
      .on(t.tenantId, t.idempotencyKey)
      .where(sql`tenant_id is not null and idempotency_key is not null`),
    index("events_by_topic").on(t.topic, t.ordinal),
    index("events_by_time").on(t.publishedAt, t.ordinal),
    index("events_due").on(t.dueAt).where(sql`due_at is not null`),
  ],
);

/** The events that runs have taken: each run each event at most once. */
export const eventTakes = pgTable(
  "event_takes",
  { runId: runId("run_id").notNull(), eventId: uuid("event_id").notNull() },
  (t) => [primaryKey({ columns: [t.runId, t.eventId] }), index("event_takes_by_event").on(t.eventId)],
);

/** The runs that wait for events, by topic. Not in `runs`, whose hot row must not have an index that changes. */
export const eventWaits = pgTable(
  "event_waits",
  {
    runId: runId("run_id").primaryKey(),
    topic: text("topic").notNull(),
    headers: jsonb("headers").notNull(),
    /** What an event must equal for its `match`, as far as that is known: {entry, equal: {path: value}}. */
    conditions: jsonb("conditions"),
  },
  (t) => [index("event_waits_by_correlation").on(t.topic, sql.raw(`(${COMPARED})`), sql.raw(`(${EXPECTED})`), t.runId)],
);

/** Commands whose outcome is committed, with their answers: a repeat conflicts here, loses, and gets this answer (law 6). */
export const runCommands = pgTable(
  "run_commands",
  {
    runId: runId("run_id").notNull(),
    commandId: uuid("command_id").notNull(),
    answer: json("answer").notNull(),
    /** Kept with the run if a client may repeat it (an idempotency key); else pruned after a day. */
    keep: boolean("keep").notNull(),
    at: time("at").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.runId, t.commandId] }),
    index("run_commands_expiring").on(t.at).where(sql`not keep`),
  ],
);

/** Durable commands from run to run. The row is deleted in the commit that answers it. */
export const inbox = pgTable(
  "inbox",
  {
    id: uuid("id").primaryKey(),
    runId: runId("run_id").notNull(),
    shard: smallint("shard").notNull(),
    command: json("command").notNull(),
    dueAt: time("due_at").notNull(),
    tries: smallint("tries").notNull().default(0),
    /** How often the run has ended or hung its trial process, alone. */
    trialDeaths: smallint("trial_deaths").notNull().default(0),
  },
  (t) => [index("inbox_due").on(t.shard, t.dueAt)],
);

/** What nodes were deciding on when they died: the id of a run, or the id that is derived from the hash of a start. */
export const suspects = pgTable("suspects", {
  key: uuid("key").primaryKey(),
  /** Nodes that died. */
  deaths: smallint("deaths").notNull(),
  /** How often it has ended or hung its trial process, alone. */
  trialDeaths: smallint("trial_deaths").notNull().default(0),
  /** Until then it is tried before it is decided on. */
  until: time("until").notNull(),
});

/**
 * Durable effects owed outside. `kind` "action": the run's call is to be carried to a worker; its payload is the run's `call`. Any other
 * kind is a post (outbox.ts), which its run does not wait for.
 */
export const outbox = pgTable(
  "outbox",
  {
    id: uuid("id").primaryKey(),
    runId: runId("run_id").notNull(),
    shard: smallint("shard").notNull(),
    kind: text("kind").notNull(),
    payload: json("payload"),
    dueAt: time("due_at").notNull(),
    tries: smallint("tries").notNull().default(0),
  },
  (t) => [index("outbox_due").on(t.shard, t.dueAt)],
);

/** Events that runs owe to RabbitMQ: emitted ones, whose row is in `events`, and those of a run's lifecycle, which have a topic. */
export const outgoingEvents = pgTable(
  "outgoing_events",
  {
    id: uuid("id").primaryKey(),
    /** Given in the order of the commits of a run, and in the order of the events of one commit. */
    ordinal: bigserial("ordinal", { mode: "bigint" }).notNull(),
    runId: runId("run_id").notNull(),
    shard: smallint("shard").notNull(),
    topic: text("topic"),
    payload: json("payload"),
  },
  (t) => [index("outgoing_events_by_shard").on(t.shard, t.ordinal)],
);

/** When a run must be woken. One row for a run that is stepping or waits for a time; none if only the outside can move it. */
export const wakes = pgTable(
  "wakes",
  {
    runId: runId("run_id").primaryKey(),
    shard: smallint("shard").notNull(),
    dueAt: time("due_at").notNull(),
    tries: smallint("tries").notNull().default(0),
    /** How often the run has ended or hung its trial process, alone. */
    trialDeaths: smallint("trial_deaths").notNull().default(0),
  },
  (t) => [index("wakes_due").on(t.shard, t.dueAt)],
);

/** The undo list. `ordinal` comes from one global sequence in the commit of the forward step (law 10). */
export const undo = pgTable(
  "undo",
  {
    ordinal: bigserial("ordinal", { mode: "bigint" }).primaryKey(),
    /** The run that rolls it back: the run itself, or the parent that it was handed to. */
    ownerRunId: uuid("owner_run_id").notNull(),
    stepId: text("step_id").notNull(),
    entry: integer("entry").notNull(),
    /** "service.name@version", or without the version if it was not registered yet; null: there is nothing to call. */
    action: text("action"),
    inputs: json("inputs"),
    forwardIdempotencyKey: text("forward_idempotency_key").notNull(),
    /** The trace context of the attempt that it undoes; null: its spans are not recorded. */
    forwardTrace: text("forward_trace"),
    childRunId: runId("child_run_id"),
    /** owed, done, failed, passed */
    state: text("state").notNull(),
  },
  (t) => [index("undo_by_owner").on(t.ownerRunId, t.ordinal)],
);

export const actions = pgTable(
  "actions",
  {
    id: uuid("id").primaryKey(),
    service: text("service").notNull(),
    actionName: text("action_name").notNull(),
    version: integer("version").notNull(),
    description: text("description"),
    category: text("category"),
    compensable: boolean("compensable").notNull(),
    inputSchema: json("input_schema").$type<JsonObject>().notNull(),
    outputSchema: json("output_schema").$type<JsonObject>().notNull(),
    errorCodes: json("error_codes"),
    defaultRetry: json("default_retry").$type<Partial<RetryPolicy>>(),
    defaultTimeoutMs: bigint("default_timeout_ms", { mode: "number" }),
    deprecated: boolean("deprecated").notNull(),
    registeredAt: time("registered_at").notNull().defaultNow(),
    serviceVersion: text("service_version"),
    dryRunSupported: boolean("dry_run_supported").notNull(),
    licenseGroup: text("license_group"),
    transport: text("transport", { enum: ["grpc", "http", "rmq"] }).notNull(),
    address: text("address"),
    /** Whose the service is: the same for all of its actions. Null: the platform's, which every tenant may use. */
    tenantId: uuid("tenant_id"),
  },
  (t) => [unique("actions_identity").on(t.service, t.actionName, t.version)],
);

/** Actions of another tenant's service that a tenant has registered as they are: its own workers carry them out for it. */
export const sharedActions = pgTable(
  "shared_actions",
  { actionId: uuid("action_id").notNull(), tenantId: uuid("tenant_id").notNull() },
  (t) => [primaryKey({ columns: [t.actionId, t.tenantId] })],
);

/** Output schemas that a registration has replaced: calls that were made with them are checked by them. By `schemaHash` in registry.ts. */
export const replacedSchemas = pgTable("replaced_schemas", {
  hash: uuid("hash").primaryKey(),
  schema: json("schema").$type<JsonObject>().notNull(),
});

/** Nodes that are alive: a heartbeat every second, stale after five. */
export const nodes = pgTable("nodes", {
  nodeId: uuid("node_id").primaryKey(),
  startedAt: time("started_at").notNull(),
  heartbeatAt: time("heartbeat_at").notNull(),
  /** The newest run record format that the node reads (law 13). */
  recordFormat: smallint("record_format").notNull(),
  host: text("host").notNull(),
  processId: integer("process_id").notNull(),
  /** Its mode of access: nodes of different modes do not run side by side. */
  access: text("access").$type<"on" | "off">().notNull().default("off"),
});

/** Published and draft rules. */
export const rules = pgTable(
  "rules",
  {
    ...versioned("id", "rule_id"),
    ruleType: text("rule_type").notNull(),
    spec: json("spec").$type<JsonObject>().notNull(),
  },
  (t) => [unique("rules_version").on(t.key, t.version)],
);

/** `nextFireAt`: of an enabled cron trigger. `failing`: its latest fire ended with an error. `paused…`: of one that was disabled, until it is enabled. */
export const triggers = pgTable(
  "triggers",
  {
    id: uuid("id").primaryKey(),
    shard: smallint("shard").notNull(),
    triggerType: text("trigger_type").notNull(),
    workflowId: text("workflow_id").notNull(),
    version: integer("version"),
    config: json("config").$type<JsonObject>().notNull(),
    enabled: boolean("enabled").notNull(),
    tenantId: uuid("tenant_id"),
    createdAt: time("created_at").notNull().defaultNow(),
    createdBy: text("created_by"),
    nextFireAt: time("next_fire_at"),
    lastFiredAt: time("last_fired_at"),
    requestHash: text("request_hash"),
    failing: boolean("failing").notNull().default(false),
    pausedAt: time("paused_at"),
    pausedBy: text("paused_by"),
    pausedReason: text("paused_reason"),
  },
  (t) => [
    index("triggers_due").on(t.shard, t.nextFireAt),
    index("triggers_by_transition")
      .on(sql`(config->>'record_type')`, sql`(config->>'from_state')`, sql`(config->>'to_state')`)
      .where(sql`trigger_type = 'record_transition' and enabled`),
  ],
);

/**
 * A fire, a skip or an error. `dueAt`: the row owes a run; with `inTurn` that is started when the trigger's earlier ones of this kind are, and no run of it
 * goes on. The id follows from the trigger and from what fired it.
 */
export const triggerFires = pgTable(
  "trigger_fires",
  {
    id: uuid("id").primaryKey(),
    triggerId: uuid("trigger_id").notNull(),
    workflowId: text("workflow_id").notNull(),
    scheduledAt: time("scheduled_at").notNull(),
    firedAt: time("fired_at").notNull(),
    resultingRunId: runId("resulting_run_id"),
    error: text("error"),
    inputs: json("inputs"),
    dueAt: time("due_at"),
    /** The hash of what a fire by hand with an idempotency key asked for: a repeat must ask for the same. */
    requestHash: text("request_hash"),
    backfilled: boolean("backfilled").notNull().default(false),
    inTurn: boolean("in_turn").notNull().default(false),
  },
  (t) => [
    index("trigger_fires_by_trigger").on(t.triggerId, t.firedAt, t.id),
    index("trigger_fires_due").on(t.dueAt).where(sql`due_at is not null`),
    index("trigger_fires_by_time").on(t.firedAt),
  ],
);

/** The form of `PlainReach` in `access`, which this layer does not know. */
export interface StoredReach {
  readonly tenants: readonly string[] | "*";
  /** Ids, or prefixes and `*`. */
  readonly workflows?: readonly string[];
}

/** An act on all runs that matched a filter when the job was created. `done` and `refused` count its targets. */
export const bulkJobs = pgTable(
  "bulk_jobs",
  {
    id: uuid("id").primaryKey(),
    shard: smallint("shard").notNull(),
    action: text("action").notNull(),
    filter: json("filter").$type<JsonObject>().notNull(),
    params: json("params").$type<JsonObject>().notNull(),
    state: text("state", { enum: ["running", "done", "stopped"] }).notNull(),
    matched: integer("matched").notNull(),
    done: integer("done").notNull().default(0),
    refused: integer("refused").notNull().default(0),
    startedAt: time("started_at").notNull().defaultNow(),
    endedAt: time("ended_at"),
    /** Who created it: its acts are this one's. */
    actor: text("actor").notNull(),
    /** Of its creator. Null: the platform's. */
    tenantId: uuid("tenant_id"),
    /** Whose runs its acts may reach: what its creator may reach, however that changes. */
    reach: json("reach").$type<StoredReach>().notNull(),
    /** The API key of its creator was revoked: it is stopped for good. */
    revoked: boolean("revoked").notNull().default(false),
    requestHash: text("request_hash").notNull(),
  },
  (t) => [
    index("bulk_jobs_by_time").on(t.startedAt, t.id),
    index("bulk_jobs_running").on(t.shard, t.startedAt).where(sql`state = 'running'`),
    index("bulk_jobs_by_end").on(t.endedAt, t.id).where(sql`ended_at is not null`),
  ],
);

/** A run that a bulk job acts on. */
export const bulkTargets = pgTable(
  "bulk_targets",
  {
    bulkId: uuid("bulk_id").notNull(),
    nth: integer("nth").notNull(),
    runId: runId("run_id").notNull(),
    /** open, done, unchanged, refused */
    state: text("state").notNull().default("open"),
    /** Why it was refused. */
    message: text("message"),
  },
  (t) => [
    primaryKey({ columns: [t.bulkId, t.nth] }),
    index("bulk_targets_open").on(t.bulkId, t.nth).where(sql`state = 'open'`),
    index("bulk_targets_refused").on(t.bulkId, t.nth).where(sql`state = 'refused'`),
    index("bulk_targets_told").on(t.runId).where(sql`message is not null`),
  ],
);

/** Tasks for people. A task is open until it is submitted, or its step is left otherwise (`closed_at`). */
export const userTasks = pgTable(
  "user_tasks",
  {
    id: uuid("id").primaryKey(),
    runId: runId("run_id").notNull(),
    stepId: text("step_id").notNull(),
    assignee: text("assignee").notNull(),
    title: text("title"),
    dueAt: time("due_at"),
    formSchema: json("form_schema"),
    openedAt: time("opened_at").notNull().defaultNow(),
    /** Submitted, or the step was left without a submit: the task cannot be submitted any more. */
    closedAt: time("closed_at"),
    submittedAt: time("submitted_at"),
    submittedBy: text("submitted_by"),
    result: json("result"),
  },
  (t) => [
    index("user_tasks_by_run").on(t.runId),
    index("user_tasks_by_time").on(t.openedAt, t.id),
    index("user_tasks_by_assignee").on(t.assignee, t.openedAt, t.id),
    index("user_tasks_open").on(t.assignee, t.openedAt, t.id).where(sql`closed_at is null`),
  ],
);
