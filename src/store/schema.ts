// The tables, as drizzle knows them. What drizzle cannot say (partitions, fillfactor, autovacuum, the terminal guard)
// stands in the migration files beside this one; a test holds both against the database. Values are `json`, not `jsonb`:
// key order survives a reload (a replay must see what the first run saw), and the hot path is spared the conversion.
import { sql } from "drizzle-orm";
import {
  bigserial,
  boolean,
  index,
  integer,
  json,
  jsonb,
  pgTable,
  primaryKey,
  smallint,
  text,
  timestamp,
  unique,
  uuid,
} from "drizzle-orm/pg-core";

const time = (name: string) => timestamp(name, { withTimezone: true, precision: 3, mode: "date" });

/** Published and draft workflow documents, as they were posted. */
export const definitions = pgTable(
  "definitions",
  {
    definitionId: uuid("definition_id").primaryKey(),
    workflowId: text("workflow_id").notNull(),
    version: integer("version").notNull(),
    tenantId: text("tenant_id"),
    name: text("name").notNull(),
    published: boolean("published").notNull(),
    /** Once true for ever true: from then on the version is immutable, also after unpublish. */
    everPublished: boolean("ever_published").notNull(),
    document: json("document").notNull(),
    createdAt: time("created_at").notNull().defaultNow(),
    createdBy: text("created_by"),
  },
  (t) => [unique("definitions_version").on(t.workflowId, t.version)],
);

/** The hot row of a run: narrow, updated in place by every commit. Nothing indexed here changes before the run ends. */
export const runs = pgTable(
  "runs",
  {
    id: uuid("id").primaryKey(),
    shard: smallint("shard").notNull(),
    /** Counts updates; every update is a compare-and-set on it (law 1). */
    revision: integer("revision").notNull(),
    /** Numbers the audit rows, nothing else. */
    lastSeq: integer("last_seq").notNull(),
    state: text("state").notNull(),
    currentStep: text("current_step"),
    lastEventAt: time("last_event_at").notNull(),
    terminalAt: time("terminal_at"),
    requiresManualReview: boolean("requires_manual_review").notNull(),
    awaitedSignal: text("awaited_signal"),
    pausedReason: text("paused_reason"),
    /** What else the actor must know, in our own versioned format (machines/record.ts). Small. */
    record: json("record").notNull(),
    /** The action call in progress: its own column, so that an update that leaves it alone does not write it again. */
    call: json("call"),
    output: json("output"),
    /** The blocks that the token is in, and the items of the foreach in progress: columns of their own, as `call` is. */
    frames: json("frames"),
    items: json("items"),
    // Fixed at the start of the run.
    workflowId: text("workflow_id").notNull(),
    version: integer("version").notNull(),
    definitionId: uuid("definition_id").notNull(),
    tenantId: uuid("tenant_id"),
    businessKey: text("business_key"),
    triggerId: uuid("trigger_id"),
    parentRunId: uuid("parent_run_id"),
    parentStepId: text("parent_step_id"),
    parentBranchId: text("parent_branch_id"),
    /** The parent's step entry that made the run. */
    parentEntry: integer("parent_entry"),
    rootRunId: uuid("root_run_id"),
    /** Of a branch or an item: the run that it is a part of, which signals are addressed to. */
    familyRunId: uuid("family_run_id"),
    startedAt: time("started_at").notNull(),
  },
  (t) => [
    index("runs_by_start").on(t.startedAt, t.id),
    index("runs_by_workflow").on(t.workflowId, t.startedAt, t.id),
    index("runs_by_business_key").on(t.businessKey).where(sql`business_key is not null`),
    index("runs_by_parent").on(t.parentRunId, t.parentEntry).where(sql`parent_run_id is not null`),
    index("runs_by_family").on(t.familyRunId).where(sql`family_run_id is not null`),
    index("runs_in_flight").on(t.workflowId).where(sql`terminal_at is null`),
    index("runs_ended").on(t.workflowId, t.terminalAt).where(sql`terminal_at is not null`),
  ],
);

/** What a run was started with: wide and cold, so it stands apart from the hot row. */
export const runStarts = pgTable("run_starts", {
  runId: uuid("run_id").primaryKey(),
  /** Null: a branch or an item has those of its kept scope. */
  inputs: json("inputs"),
  /** entrypoint, features, dry run, delay, expiry: the rest of the run's identity (machines/record.ts). */
  identity: json("identity").notNull(),
  /** Hash of the request: a repeat with another body is a conflict. */
  requestHash: text("request_hash").notNull(),
});

/** Idempotency keys of starts. `scope` is tenant and workflow id. */
export const startKeys = pgTable(
  "start_keys",
  { scope: text("scope").notNull(), key: text("key").notNull(), runId: uuid("run_id").notNull() },
  (t) => [primaryKey({ columns: [t.scope, t.key] })],
);

/** One row a variable: what is written is what changed. A null value: the variable is gone. */
export const runVariables = pgTable(
  "run_variables",
  { runId: uuid("run_id").notNull(), name: text("name").notNull(), value: json("value") },
  (t) => [primaryKey({ columns: [t.runId, t.name] })],
);

/** What the branches or items of one step entry began with: kept once for all of them. */
export const runScopes = pgTable(
  "run_scopes",
  {
    runId: uuid("run_id").notNull(),
    entry: integer("entry").notNull(),
    inputs: json("inputs").notNull(),
    variables: json("variables").notNull(),
  },
  (t) => [primaryKey({ columns: [t.runId, t.entry] })],
);

/** Audit rows: insert-only, partitioned by time. An event's id is derived from (run_id, seq): see events.ts. */
export const runEvents = pgTable(
  "run_events",
  {
    runId: uuid("run_id").notNull(),
    seq: integer("seq").notNull(),
    recordedAt: time("recorded_at").notNull(),
    eventType: text("event_type").notNull(),
    stepId: text("step_id"),
    attempt: integer("attempt").notNull(),
    fromState: text("from_state").notNull(),
    toState: text("to_state").notNull(),
    actor: text("actor").notNull(),
    metadata: json("metadata"),
  },
  (t) => [primaryKey({ columns: [t.runId, t.seq, t.recordedAt] })],
);

export const signals = pgTable(
  "signals",
  {
    id: uuid("id").primaryKey(),
    /** Receipt order; "oldest unconsumed" is by it. */
    ordinal: bigserial("ordinal", { mode: "bigint" }).notNull(),
    runId: uuid("run_id").notNull(),
    signalName: text("signal_name").notNull(),
    payload: json("payload"),
    receivedAt: time("received_at").notNull(),
    consumedAt: time("consumed_at"),
  },
  (t) => [index("signals_by_run").on(t.runId, t.signalName, t.ordinal)],
);

/** What happened, for whoever waits for it. Kept for a bounded time. */
export const events = pgTable(
  "events",
  {
    id: uuid("id").primaryKey(),
    /** The order in which they are looked at. */
    ordinal: bigserial("ordinal", { mode: "bigint" }).notNull(),
    /** Of an event that a run published: only runs of this tenant may take it. */
    tenantId: uuid("tenant_id"),
    topic: text("topic").notNull(),
    headers: jsonb("headers").notNull(),
    payload: json("payload").notNull(),
    /** Bytes of the payload: a page of events is bounded by them. */
    size: integer("size").notNull(),
    idempotencyKey: text("idempotency_key").unique(),
    requestHash: text("request_hash"),
    publishedAt: time("published_at").notNull().defaultNow(),
    /** When it is to be announced to those that wait; null: they have been told. */
    dueAt: time("due_at"),
    /** The last run that was told. */
    toldTo: uuid("told_to"),
  },
  (t) => [
    index("events_by_topic").on(t.topic, t.ordinal),
    index("events_by_time").on(t.publishedAt, t.ordinal),
    index("events_due").on(t.dueAt).where(sql`due_at is not null`),
  ],
);

/** Which run took which event: each at most once. */
export const eventTakes = pgTable(
  "event_takes",
  { runId: uuid("run_id").notNull(), eventId: uuid("event_id").notNull() },
  (t) => [primaryKey({ columns: [t.runId, t.eventId] }), index("event_takes_by_event").on(t.eventId)],
);

/** Who waits for events of which topic. Apart from `runs`, whose hot row must have no index that changes. */
export const eventWaits = pgTable(
  "event_waits",
  { runId: uuid("run_id").primaryKey(), topic: text("topic").notNull(), headers: jsonb("headers").notNull() },
  (t) => [index("event_waits_by_topic").on(t.topic, t.runId)],
);

/** Commands whose outcome is committed, with their answers: a repeat conflicts here, loses, and gets this answer (law 6). */
export const runCommands = pgTable(
  "run_commands",
  {
    runId: uuid("run_id").notNull(),
    commandId: uuid("command_id").notNull(),
    answer: json("answer").notNull(),
    /** Kept with the run where a client may repeat it (an idempotency key); else pruned after a day. */
    keep: boolean("keep").notNull(),
    at: time("at").notNull(),
  },
  (t) => [primaryKey({ columns: [t.runId, t.commandId] }), index("run_commands_by_time").using("brin", t.at)],
);

/** Durable commands from run to run. The row is deleted in the commit that answers it. */
export const inbox = pgTable(
  "inbox",
  {
    id: uuid("id").primaryKey(),
    runId: uuid("run_id").notNull(),
    shard: smallint("shard").notNull(),
    command: json("command").notNull(),
    dueAt: time("due_at").notNull(),
    tries: smallint("tries").notNull().default(0),
  },
  (t) => [index("inbox_due").on(t.shard, t.dueAt)],
);

/**
 * Durable effects owed outside. `kind` "action": the run's call wants carriage; its payload is the run's `call`. Any other is
 * a post (posts.ts), which its run does not wait for.
 */
export const outbox = pgTable(
  "outbox",
  {
    id: uuid("id").primaryKey(),
    runId: uuid("run_id").notNull(),
    shard: smallint("shard").notNull(),
    kind: text("kind").notNull(),
    payload: json("payload"),
    dueAt: time("due_at").notNull(),
    tries: smallint("tries").notNull().default(0),
  },
  (t) => [index("outbox_due").on(t.shard, t.dueAt)],
);

/** When a run must be looked at. One row a run that is stepping or waits for a time; none where only the outside can move it. */
export const wakes = pgTable(
  "wakes",
  {
    runId: uuid("run_id").primaryKey(),
    shard: smallint("shard").notNull(),
    dueAt: time("due_at").notNull(),
    tries: smallint("tries").notNull().default(0),
  },
  (t) => [index("wakes_due").on(t.shard, t.dueAt)],
);

/** The undo list. `ordinal` comes from one global sequence in the commit of the forward step (law 10). */
export const undo = pgTable(
  "undo",
  {
    ordinal: bigserial("ordinal", { mode: "bigint" }).primaryKey(),
    /** The run that rolls it back: the run itself, or the parent it was handed to. */
    ownerRunId: uuid("owner_run_id").notNull(),
    stepId: text("step_id").notNull(),
    entry: integer("entry").notNull(),
    /** "service.name@version", or without the version where it was not registered yet; null: nothing to call. */
    action: text("action"),
    inputs: json("inputs"),
    forwardIdempotencyKey: text("forward_idempotency_key").notNull(),
    childRunId: uuid("child_run_id"),
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
    inputSchema: json("input_schema").notNull(),
    outputSchema: json("output_schema").notNull(),
    errorCodes: json("error_codes"),
    defaultRetry: json("default_retry"),
    defaultTimeoutMs: integer("default_timeout_ms"),
    deprecated: boolean("deprecated").notNull(),
    registeredAt: time("registered_at").notNull().defaultNow(),
    serviceVersion: text("service_version"),
    dryRunSupported: boolean("dry_run_supported").notNull(),
    licenseGroup: text("license_group"),
    transport: text("transport").notNull(),
    address: text("address"),
  },
  (t) => [unique("actions_identity").on(t.service, t.actionName, t.version)],
);

/** Nodes alive: a heartbeat every second, stale after five. */
export const nodes = pgTable("nodes", {
  nodeId: uuid("node_id").primaryKey(),
  startedAt: time("started_at").notNull(),
  heartbeatAt: time("heartbeat_at").notNull(),
  /** The newest run record format this node reads (law 13). */
  recordFormat: smallint("record_format").notNull(),
});

/** Rules, triggers and fires of the interface: their rooms are built later, their rows have a place. */
export const rules = pgTable(
  "rules",
  {
    id: uuid("id").primaryKey(),
    ruleId: text("rule_id").notNull(),
    version: integer("version").notNull(),
    tenantId: text("tenant_id"),
    name: text("name").notNull(),
    ruleType: text("rule_type").notNull(),
    spec: json("spec").notNull(),
    published: boolean("published").notNull(),
    everPublished: boolean("ever_published").notNull(),
    createdAt: time("created_at").notNull().defaultNow(),
    createdBy: text("created_by"),
  },
  (t) => [unique("rules_version").on(t.ruleId, t.version)],
);

export const triggers = pgTable(
  "triggers",
  {
    id: uuid("id").primaryKey(),
    shard: smallint("shard").notNull(),
    triggerType: text("trigger_type").notNull(),
    workflowId: text("workflow_id").notNull(),
    version: integer("version"),
    config: json("config").notNull(),
    enabled: boolean("enabled").notNull(),
    tenantId: uuid("tenant_id"),
    createdAt: time("created_at").notNull().defaultNow(),
    createdBy: text("created_by"),
    nextFireAt: time("next_fire_at"),
    lastFiredAt: time("last_fired_at"),
  },
  (t) => [index("triggers_due").on(t.shard, t.nextFireAt)],
);

export const triggerFires = pgTable(
  "trigger_fires",
  {
    id: uuid("id").primaryKey(),
    triggerId: uuid("trigger_id").notNull(),
    workflowId: text("workflow_id").notNull(),
    scheduledAt: time("scheduled_at").notNull(),
    firedAt: time("fired_at").notNull(),
    resultingRunId: uuid("resulting_run_id"),
    error: text("error"),
  },
  (t) => [unique("trigger_fires_once").on(t.triggerId, t.scheduledAt)],
);

/** What people were asked for. A task is open until its step has its result or is left otherwise (`closed_at`). */
export const userTasks = pgTable(
  "user_tasks",
  {
    id: uuid("id").primaryKey(),
    runId: uuid("run_id").notNull(),
    stepId: text("step_id").notNull(),
    assignee: text("assignee").notNull(),
    title: text("title"),
    dueAt: time("due_at"),
    formSchema: json("form_schema"),
    openedAt: time("opened_at").notNull().defaultNow(),
    /** Submitted, or the step was left without: nobody can submit it any more. */
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
