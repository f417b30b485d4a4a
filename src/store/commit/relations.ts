// The relations that the commit statement reads: a group's rows, by kind, as typed columns. Each column travels as one text parameter.
// input.ts fills them; fences.ts and writes.ts use them.
import type { ColumnType } from "./columns.js";

export const RELATIONS = {
  /** The compare-and-set of a run: `expected` and `expected_fence` are the revision and the token it is based on. */
  run_update: {
    id: "uuid",
    expected: "int4",
    expected_fence: "int8",
    fence: "int8",
    state: "text",
    step: "text",
    last_seq: "int4",
    last_event_at: "timestamptz",
    terminal_at: "timestamptz",
    review: "bool",
    awaited_signal: "text",
    paused_reason: "text",
    record: "json",
    set_call: "bool",
    call: "json",
    output: "json",
    set_frames: "bool",
    frames: "json",
    set_items: "bool",
    items: "json",
    version: "int4",
    definition_id: "uuid",
  },
  /** A run that stays as it is, if it is at the expected revision. */
  confirm: { id: "uuid", expected: "int4", expected_fence: "int8" },
  /** `made_by`: the run of the group that creates it; null: a start. `scope` and `key`: its idempotency key. */
  new_run: {
    id: "uuid",
    shard: "int2",
    fence: "int8",
    record: "json",
    workflow_id: "text",
    version: "int4",
    definition_id: "uuid",
    tenant_id: "uuid",
    business_key: "text",
    trigger_id: "uuid",
    parent_run_id: "uuid",
    parent_step_id: "text",
    parent_branch_id: "text",
    parent_entry: "int4",
    root_run_id: "uuid",
    family_run_id: "uuid",
    started_at: "timestamptz",
    inputs: "json",
    identity: "json",
    request_hash: "text",
    scope: "text",
    key: "text",
    made_by: "uuid",
  },
  label: { run_id: "uuid", name: "text", value: "text" },
  command: { run_id: "uuid", command_id: "uuid", answer: "json", keep: "bool", at: "timestamptz" },
  audit_event: {
    run_id: "uuid",
    seq: "int4",
    recorded_at: "timestamptz",
    event_type: "text",
    step_id: "text",
    attempt: "int4",
    from_state: "text",
    to_state: "text",
    actor: "text",
    metadata: "json",
    command_id: "uuid",
  },
  variable: { run_id: "uuid", name: "text", value: "json" },
  scope: { run_id: "uuid", entry: "int4", holder: "uuid", manifest: "json", manifest_hash: "uuid" },
  scope_value: { run_id: "uuid", holder: "uuid", hash: "uuid", value: "json" },
  wake: { run_id: "uuid", shard: "int2", due_at: "timestamptz" },
  wake_gone: { run_id: "uuid" },
  signal: {
    id: "uuid",
    run_id: "uuid",
    name: "text",
    payload: "json",
    at: "timestamptz",
    consumed: "bool",
    promised_to: "uuid",
  },
  /** `run_id` promises a signal of the name to `waiter`, which gets a new token. */
  promise: { run_id: "uuid", waiter: "uuid", name: "text", fence: "int8" },
  /** A recorded signal that the run takes. */
  signal_claim: { run_id: "uuid", id: "uuid", at: "timestamptz" },
  outbox_row: { id: "uuid", run_id: "uuid", shard: "int2", kind: "text", payload: "json", due_at: "timestamptz" },
  outbox_gone: { run_id: "uuid", id: "uuid" },
  /** `run_id` is the receiver. */
  inbox_row: {
    id: "uuid",
    from_run: "uuid",
    run_id: "uuid",
    shard: "int2",
    command: "json",
    due_at: "timestamptz",
  },
  inbox_gone: { run_id: "uuid", id: "uuid" },
  published_event: {
    id: "uuid",
    run_id: "uuid",
    tenant_id: "uuid",
    topic: "text",
    headers: "json",
    payload: "json",
  },
  /** `run_id` is the run of the event, which may be a child that `from_run` creates. Ordinals are given in the order of `position`. */
  outgoing_event: {
    id: "uuid",
    from_run: "uuid",
    run_id: "uuid",
    shard: "int2",
    topic: "text",
    payload: "json",
    position: "int4",
  },
  /** A published event that the run takes. */
  event_claim: { run_id: "uuid", event_id: "uuid" },
  event_wait: { run_id: "uuid", topic: "text", headers: "json", conditions: "json" },
  event_wait_gone: { run_id: "uuid" },
  opened_task: {
    id: "uuid",
    run_id: "uuid",
    step_id: "text",
    assignee: "text",
    title: "text",
    due_at: "timestamptz",
    form_schema: "json",
    at: "timestamptz",
  },
  closed_task: { run_id: "uuid", id: "uuid", at: "timestamptz", result: "json", submitted_by: "text" },
  /** `position` is the order of completion within the group: ordinals are given in it. */
  undo_entry: {
    run_id: "uuid",
    step_id: "text",
    entry: "int4",
    action: "text",
    inputs: "json",
    forward_key: "text",
    child_run_id: "uuid",
    owner: "uuid",
    state: "text",
    position: "int4",
  },
  undo_settled: { run_id: "uuid", ordinal: "int8", state: "text" },
  undo_passed: { run_id: "uuid", since: "int4", every: "bool" },
  undo_handed: { run_id: "uuid", heir: "uuid", entry: "int4" },
  /** A slot that the run, or a step entry of it, asks for. */
  ticket: {
    run_id: "uuid",
    entry: "int4",
    shard: "int2",
    tenant_id: "uuid",
    scope: "text",
    key: "text",
    step_id: "text",
    slot_limit: "int4",
    on_limit: "text",
    admitted: "bool",
  },
  ticket_gone: { run_id: "uuid", entry: "int4" },
  /** A ticket that gives its slot back, and waits again at its old place. */
  ticket_returned: { run_id: "uuid", entry: "int4" },
} as const satisfies Record<string, Record<string, ColumnType>>;

export type Relation = keyof typeof RELATIONS;

/** The FROM item of each relation: `unnest(…) as name(columns)`. */
export type From = Readonly<Record<Relation, string>>;

/** One CTE of the statement: `name as (…)`. */
export type Clause = (from: From) => string;

/**
 * Clauses that a group without rows for them does without: opening a table costs time even where nothing is written. There are
 * few sections, because each set of them is a statement of its own, planned once a connection.
 */
export interface Section {
  readonly relations: readonly Relation[];
  /** The fences that later clauses refer to. */
  readonly fences?: readonly Clause[];
  /** The same names with no rows: for statements without the section. */
  readonly withoutFences?: readonly Clause[];
  /** The clauses that write rows of the runs that have won. */
  readonly writes: readonly Clause[];
}
