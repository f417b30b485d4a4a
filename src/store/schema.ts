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
    rootRunId: uuid("root_run_id"),
    startedAt: time("started_at").notNull(),
  },
  (t) => [
    index("runs_by_start").on(t.startedAt, t.id),
    index("runs_by_workflow").on(t.workflowId, t.startedAt, t.id),
    index("runs_by_business_key").on(t.businessKey).where(sql`business_key is not null`),
    index("runs_by_parent").on(t.parentRunId).where(sql`parent_run_id is not null`),
    index("runs_in_flight").on(t.workflowId).where(sql`terminal_at is null`),
    index("runs_ended").on(t.workflowId, t.terminalAt).where(sql`terminal_at is not null`),
  ],
);

/** What a run was started with: wide and cold, so it stands apart from the hot row. */
export const runStarts = pgTable("run_starts", {
  runId: uuid("run_id").primaryKey(),
  inputs: json("inputs").notNull(),
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

/** One row a variable: what is written is what changed. */
export const runVariables = pgTable(
  "run_variables",
  { runId: uuid("run_id").notNull(), name: text("name").notNull(), value: json("value").notNull() },
  (t) => [primaryKey({ columns: [t.runId, t.name] })],
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

/** Durable effects owed outside. `kind` "action": the run's call wants carriage; its payload is the run's `call`. */
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

/** Rules, triggers, fires and user tasks of the interface: their rooms are built later, their rows have a place. */
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

export const userTasks = pgTable(
  "user_tasks",
  {
    id: uuid("id").primaryKey(),
    runId: uuid("run_id").notNull(),
    stepId: text("step_id").notNull(),
    assignee: text("assignee").notNull(),
    dueAt: time("due_at"),
    formSchema: json("form_schema"),
    submittedAt: time("submitted_at"),
    submittedBy: text("submitted_by"),
    result: json("result"),
  },
  (t) => [index("user_tasks_by_run").on(t.runId), index("user_tasks_by_assignee").on(t.assignee)],
);
