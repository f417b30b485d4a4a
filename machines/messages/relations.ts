// The relations of a commit: what a transition can write, as tables of named, typed columns. They are data: the store makes its statement and
// its encoders of them, and a row that lacks a column, or has a wrong one, does not compile. How rows are written is not here.
import type { Json } from "../values/json.js";

/** The type of a column in Postgres. `?`: it may be null. */
export type ColumnType = BaseType | `${BaseType}?`;
type Columns = Readonly<Record<string, ColumnType>>;
type BaseType = "uuid" | "int2" | "int4" | "int8" | "text" | "bool" | "timestamptz" | "json";

/** The columns of a run that every commit of it writes. With the next two: all columns of a run that commits write, a new one included. */
const CHANGING = {
  state: "text",
  step: "text?",
  last_seq: "int4",
  last_event_at: "timestamptz",
  terminal_at: "timestamptz?",
  review: "bool",
  awaited_signal: "text?",
  paused_reason: "text?",
  record: "json",
  output: "json?",
} as const satisfies Columns;

/** Those that a commit writes only when they change: large ones. */
const RARE = { call: "json?", frames: "json?", items: "json?" } as const satisfies Columns;

/** Those that its start writes, for good; but a run may move to another version. */
const FIXED = {
  shard: "int2",
  workflow_id: "text",
  version: "int4",
  definition_id: "uuid",
  tenant_id: "uuid?",
  business_key: "text?",
  trigger_id: "uuid?",
  parent_run_id: "uuid?",
  parent_step_id: "text?",
  parent_branch_id: "text?",
  parent_entry: "int4?",
  root_run_id: "uuid?",
  /** The run that a branch or an item is a part of. */
  family_run_id: "uuid?",
  started_at: "timestamptz",
} as const satisfies Columns;

/** The names of these columns. The statements that write and create runs are made of them. */
export const RUN_COLUMNS = { changing: namesOf(CHANGING), rare: namesOf(RARE), fixed: namesOf(FIXED) };
export type RareColumn = keyof typeof RARE;

function namesOf<C extends Columns>(columns: C): readonly (keyof C & string)[] {
  return Object.keys(columns);
}

/** Who asks for something of a key: a step entry of the run, or the whole run (`entry` 0). */
const OF_TICKET = {
  run_id: "uuid",
  entry: "int4",
  shard: "int2",
  tenant_id: "uuid",
  scope: "text",
  key: "text",
  step_id: "text?",
} as const satisfies Columns;

export const RELATIONS = {
  /**
   * The compare-and-set of a run: `expected` and `expected_fence` are the revision and the token that it is based on. `within`: the tenants that the
   * command may reach, an array literal of uuids. The run loses if it is of none of them. Null: it may be of any, or of none.
   */
  run_update: {
    id: "uuid",
    expected: "int4",
    expected_fence: "int8",
    within: "text?",
    fence: "int8",
    ...CHANGING,
    /** A rare column stays as it is unless it is set. */
    ...RARE,
    ...({ set_call: "bool", set_frames: "bool", set_items: "bool" } as const satisfies Record<
      `set_${RareColumn}`,
      ColumnType
    >),
    /** Set where the run has moved to another version. */
    version: "int4?",
    definition_id: "uuid?",
  },
  /** A run that stays as it is, if it is at the expected revision (law 3). */
  confirm: { id: "uuid", expected: "int4", expected_fence: "int8", within: "text?" },
  /** `made_by`: the run of the group that creates it; null: a start. `scope` and `key`: its idempotency key. */
  new_run: {
    id: "uuid",
    fence: "int8",
    ...FIXED,
    /** The run as it is created: `pending`, or as its first steps have left it. */
    ...CHANGING,
    ...RARE,
    /** Null: the inputs of the kept scope. */
    inputs: "json?",
    identity: "json",
    request_hash: "text",
    scope: "text?",
    key: "text?",
    made_by: "uuid?",
  },
  /**
   * A started run that holds its business key from now on: it loses unless `expected` holds it. Null: no run has held it. `burst_at`: when the first start
   * came that the run stands for, if a later one may take its place until it begins.
   */
  held_key: { run_id: "uuid", scope: "text", key: "text", expected: "uuid?", burst_at: "timestamptz?" },
  /**
   * `fork_id` begins where the step entry `since` of the run stood; it is the `entry`-th entry of that step. With `inherits`, the undo entries of earlier
   * step entries become those of the fork, and the run loses if they have become those of another one before.
   */
  fork: {
    run_id: "uuid",
    fork_id: "uuid",
    step: "text",
    entry: "int4",
    since: "int4",
    inherits: "bool",
    at: "timestamptz",
  },
  label: { run_id: "uuid", name: "text", value: "text" },
  /** A command that the commit answers. `keep`: with the run; else it is pruned after a day. */
  command: { run_id: "uuid", command_id: "uuid", answer: "json", keep: "bool", at: "timestamptz" },
  /** `command_id`: the worker's answer that the event is the outcome of. */
  audit_event: {
    run_id: "uuid",
    seq: "int4",
    recorded_at: "timestamptz",
    event_type: "text",
    step_id: "text?",
    attempt: "int4",
    from_state: "text",
    to_state: "text",
    actor: "text",
    metadata: "json?",
    command_id: "uuid?",
  },
  /** A variable without a value has been removed. It still has a row: without one, a branch would find its parent's variable. */
  variable: { run_id: "uuid", name: "text", value: "json?" },
  /** The variables that the branches or items of a step entry begin with. `holder`: the run at the top of the family, which shares kept values. */
  scope: { run_id: "uuid", entry: "int4", holder: "uuid", manifest: "json?", manifest_hash: "uuid?" },
  /** The variables with which a step at the top level is entered, for a fork from there. Their values are kept as those of scopes. */
  kept_entry: { run_id: "uuid", entry: "int4", step_id: "text", manifest: "json?", manifest_hash: "uuid?" },
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
    promised_to: "uuid?",
  },
  /** `run_id` promises a signal of the name to `waiter`, which gets a new token: what it is deciding now is lost (law 1). */
  promise: { run_id: "uuid", waiter: "uuid", name: "text", fence: "int8" },
  /** A recorded signal that the run takes. */
  signal_claim: { run_id: "uuid", id: "uuid", at: "timestamptz" },
  outbox_row: { id: "uuid", run_id: "uuid", shard: "int2", kind: "text", payload: "json?", due_at: "timestamptz" },
  outbox_gone: { run_id: "uuid", id: "uuid" },
  /** `run_id` is the receiver. */
  inbox_row: { id: "uuid", from_run: "uuid", run_id: "uuid", shard: "int2", command: "json", due_at: "timestamptz" },
  /** An inbox row that the commit answers. */
  inbox_gone: { run_id: "uuid", id: "uuid" },
  published_event: {
    id: "uuid",
    run_id: "uuid",
    tenant_id: "uuid?",
    topic: "text",
    headers: "json",
    payload: "json",
  },
  /** `run_id` is the run of the event, which may be a child that `from_run` creates. Without a topic, the published event with this id. */
  outgoing_event: {
    id: "uuid",
    from_run: "uuid",
    run_id: "uuid",
    shard: "int2",
    topic: "text?",
    payload: "json?",
  },
  /** A published event that the run takes. */
  event_claim: { run_id: "uuid", event_id: "uuid" },
  event_wait: { run_id: "uuid", topic: "text", headers: "json", conditions: "json?" },
  event_wait_gone: { run_id: "uuid" },
  opened_task: {
    id: "uuid",
    run_id: "uuid",
    step_id: "text",
    assignee: "text",
    title: "text?",
    due_at: "timestamptz?",
    form_schema: "json?",
    at: "timestamptz",
  },
  /** A task that is no longer open: submitted, or, without a result, left by its step. */
  closed_task: { run_id: "uuid", id: "uuid", at: "timestamptz", result: "json?", submitted_by: "text?" },
  /** `owner`: the run that has the entry in its list, which is the parent if the entry is handed over in the same commit. */
  undo_entry: {
    run_id: "uuid",
    step_id: "text",
    entry: "int4",
    action: "text?",
    inputs: "json?",
    forward_key: "text",
    forward_trace: "text?",
    child_run_id: "uuid?",
    owner: "uuid",
    state: "text",
  },
  undo_settled: { run_id: "uuid", ordinal: "int8", state: "text" },
  /** Entries of later step entries than `since` that are passed: those without an action, or, with `every`, all that are owed. */
  undo_passed: { run_id: "uuid", since: "int4", every: "bool" },
  /** The entries that are still owed become those of `heir`, as part of its step entry `entry`. */
  undo_handed: { run_id: "uuid", heir: "uuid", entry: "int4" },
  /** A slot that is asked for. `admitted`: the waiting list had room when its start was accepted. */
  ticket: {
    ...OF_TICKET,
    slot_limit: "int4",
    on_limit: "text",
    admitted: "bool",
    /** A Precedence. Null: as any other's. */
    precedence: "json?",
  },
  ticket_gone: { run_id: "uuid", entry: "int4" },
  /** A ticket that gives its slot back, and waits again at its old place. */
  ticket_returned: { run_id: "uuid", entry: "int4" },
  /** A turn that is asked for; anew, if one that was not used is given up for it. */
  turn: {
    ...OF_TICKET,
    rate_limit: "int4",
    per_ms: "int8",
    burst: "int4",
    admitted: "bool",
  },
  /** A turn that is used. */
  turn_taken: { run_id: "uuid", entry: "int4" },
  /** A turn that is not used, and goes back. */
  turn_returned: { run_id: "uuid", entry: "int4" },
} as const satisfies Readonly<Record<string, Columns>>;

export type Relation = keyof typeof RELATIONS;

interface Cells {
  readonly uuid: string;
  readonly int2: number;
  readonly int4: number;
  /** A number in text, because not every int8 is a number of JavaScript. */
  readonly int8: string;
  readonly text: string;
  readonly bool: boolean;
  /** Epoch milliseconds. */
  readonly timestamptz: number;
  readonly json: Json | object;
}

type Cell<Type> = Type extends `${infer Base extends BaseType}?`
  ? Cells[Base] | undefined
  : Type extends BaseType
    ? Cells[Type]
    : never;

/** A row of a relation: every column by its name. A column that may be null is named, too: `undefined` is null. */
export type Row<Of extends Relation> = {
  readonly [Column in keyof (typeof RELATIONS)[Of]]: Cell<(typeof RELATIONS)[Of][Column]>;
};

/** Rows, relation by relation. */
export type Rows = { readonly [Of in Relation]?: readonly Row<Of>[] };
