// What a commit writes: one run's share of it as plain rows, and the parts of the statement's input that they are filled into.
// Not the statement (commit.ts), and not what the rows mean (run/batch.ts makes them).
import { Columns, type ColumnType } from "./arrays.js";

/** One run's share of a commit: all rows of the transitions it has taken since its last one. Times are epoch milliseconds, JSON is text. */
export interface RunCommit {
  readonly runId: string;
  readonly shard: number;
  /** The revision it is based on. Absent: the run is new. */
  readonly expected?: number;
  readonly create?: NewRunRow;
  /** Absent with `expected`: the revision is confirmed, and the run stays as it is (law 3). */
  readonly update?: RunRow;
  readonly commands?: readonly CommandRow[];
  readonly events: readonly EventRow[];
  readonly variables?: ReadonlyMap<string, string | undefined>;
  /** Due time of the wake row; null: no wake row; undefined: as it is. */
  readonly wake?: number | null;
  readonly signals?: readonly SignalRow[];
  readonly consumed?: readonly { readonly id: string; readonly at: number }[];
  readonly outbox?: readonly {
    readonly id: string;
    readonly kind: string;
    readonly payload?: string;
    readonly dueAt: number;
  }[];
  readonly settledOutbox?: readonly string[];
  readonly inbox?: readonly InboxRow[];
  readonly takenInbox?: readonly string[];
  readonly eventsPublished?: readonly PublishedRow[];
  readonly eventsTaken?: readonly string[];
  /** Whether the run waits for an event by the end of the commit; null: no longer; undefined: as it was. */
  readonly eventWait?: { readonly topic: string; readonly headers: string } | null;
  readonly tasksOpened?: readonly TaskRow[];
  readonly tasksClosed?: readonly ClosedTaskRow[];
  readonly undoOwed?: readonly UndoRow[];
  readonly undoSettled?: readonly { readonly ordinal: string; readonly state: string }[];
  /** Entries after a step entry that are passed over: those without an action, or all that are owed. */
  readonly undoPassed?: { readonly since: number; readonly every: boolean };
  /** Who takes over what the undo list still owes, and the step entry of theirs that it belongs to from then on. */
  readonly undoHanded?: { readonly to: string; readonly entry: number };
  readonly scopes?: readonly ScopeRow[];
  /** Runs that this one creates. */
  readonly children?: readonly ChildCommit[];
}

/** A run that another one creates, in that one's commit. */
export interface ChildCommit {
  readonly runId: string;
  readonly shard: number;
  readonly create: NewRunRow;
  readonly events: readonly EventRow[];
  readonly variables: ReadonlyMap<string, string | undefined>;
  readonly wake: number;
}

/** What branches or items see, once for all of a step entry. */
export interface ScopeRow {
  readonly entry: number;
  readonly inputs: string;
  readonly variables: string;
}

/** A command whose outcome the commit is. */
export interface CommandRow {
  readonly id: string;
  readonly answer: string;
  readonly keep: boolean;
  readonly at: number;
}

export interface RunRow {
  readonly state: string;
  readonly step?: string;
  readonly lastSeq: number;
  readonly lastEventAt: number;
  readonly terminalAt?: number;
  readonly review: boolean;
  readonly awaitedSignal?: string;
  readonly pausedReason?: string;
  readonly record: string;
  /** Of these three, undefined: the column stays as it is; null: there is none. */
  readonly call?: string | null;
  readonly frames?: string | null;
  readonly items?: string | null;
  readonly output?: string;
}

export interface NewRunRow {
  readonly record: string;
  readonly workflowId: string;
  readonly version: number;
  readonly definitionId: string;
  readonly tenantId?: string;
  readonly businessKey?: string;
  readonly triggerId?: string;
  readonly parentRunId?: string;
  readonly parentStepId?: string;
  readonly parentBranchId?: string;
  readonly parentEntry?: number;
  readonly rootRunId?: string;
  /** The run that a branch or an item is a part of. */
  readonly familyRunId?: string;
  readonly startedAt: number;
  /** Absent: those of the kept scope. */
  readonly inputs?: string;
  readonly identity: string;
  readonly requestHash: string;
  readonly key?: { readonly scope: string; readonly key: string };
}

export interface EventRow {
  readonly seq: number;
  readonly at: number;
  readonly type: string;
  readonly stepId?: string;
  readonly attempt: number;
  readonly from: string;
  readonly to: string;
  readonly actor: string;
  readonly metadata?: string;
}

export interface SignalRow {
  readonly id: string;
  readonly name: string;
  readonly payload: string;
  readonly at: number;
  readonly consumed: boolean;
}

export interface InboxRow {
  readonly id: string;
  readonly to: string;
  readonly shard: number;
  readonly command: string;
  readonly dueAt: number;
}

export interface PublishedRow {
  readonly id: string;
  readonly tenantId?: string;
  readonly topic: string;
  readonly headers: string;
  readonly payload: string;
}

export interface TaskRow {
  readonly id: string;
  readonly stepId: string;
  readonly assignee: string;
  readonly title?: string;
  readonly dueAt?: number;
  readonly formSchema?: string;
  readonly at: number;
}

/** A task that is open no more: submitted, or, without a `result`, left. */
export interface ClosedTaskRow {
  readonly id: string;
  readonly at: number;
  readonly result?: string;
  readonly by?: string;
}

export interface UndoRow {
  readonly stepId: string;
  readonly entry: number;
  readonly action?: string;
  readonly inputs?: string;
  readonly forwardKey: string;
  readonly childRunId?: string;
  /** Who has it in its list, if not the run itself: its parent, to whom it was handed over in the same commit. */
  readonly owner?: string;
  /** If it is owed no more by the end of the same commit. */
  readonly state?: "passed";
}

/** The parts of the input, each a set of columns of one length. */
export const PARTS = {
  u: {
    id: "uuid",
    expected: "int4",
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
  },
  c: { id: "uuid", expected: "int4" },
  n: {
    id: "uuid",
    shard: "int2",
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
  k: { run_id: "uuid", command_id: "uuid", answer: "json", keep: "bool", at: "timestamptz" },
  e: {
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
  },
  v: { run_id: "uuid", name: "text", value: "json" },
  z: { run_id: "uuid", entry: "int4", inputs: "json", variables: "json" },
  w: { run_id: "uuid", shard: "int2", due_at: "timestamptz" },
  wd: { run_id: "uuid" },
  s: { id: "uuid", run_id: "uuid", name: "text", payload: "json", at: "timestamptz", consumed: "bool" },
  sc: { run_id: "uuid", id: "uuid", at: "timestamptz" },
  o: { id: "uuid", run_id: "uuid", shard: "int2", kind: "text", payload: "json", due_at: "timestamptz" },
  od: { run_id: "uuid", id: "uuid" },
  i: { id: "uuid", from_run: "uuid", run_id: "uuid", shard: "int2", command: "json", due_at: "timestamptz" },
  it: { run_id: "uuid", id: "uuid" },
  p: { id: "uuid", run_id: "uuid", tenant_id: "uuid", topic: "text", headers: "json", payload: "json" },
  et: { run_id: "uuid", event_id: "uuid" },
  ew: { run_id: "uuid", topic: "text", headers: "json" },
  ewd: { run_id: "uuid" },
  t: {
    id: "uuid",
    run_id: "uuid",
    step_id: "text",
    assignee: "text",
    title: "text",
    due_at: "timestamptz",
    form_schema: "json",
    at: "timestamptz",
  },
  tc: { run_id: "uuid", id: "uuid", at: "timestamptz", result: "json", submitted_by: "text" },
  x: {
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
  xs: { run_id: "uuid", ordinal: "int8", state: "text" },
  xp: { run_id: "uuid", since: "int4", every: "bool" },
  xh: { run_id: "uuid", heir: "uuid", entry: "int4" },
} as const satisfies Record<string, Record<string, ColumnType>>;

export type Part = keyof typeof PARTS;
type Input = { readonly [P in Part]: Columns };

/** The group's rows, part by part. */
export function inputOf(group: readonly RunCommit[]): Input {
  const parts = Object.entries(PARTS).map(([name, types]) => [name, new Columns(types)]);
  const input = Object.fromEntries(parts) as Input;
  for (const commit of group) addRun(input, commit);
  return input;
}

function addRun(input: Input, commit: RunCommit): void {
  const { runId, expected, update, create } = commit;
  if (create) addCreate(input, commit, create, undefined);
  else if (update) addUpdate(input, runId, expected, update);
  else input.c.add(runId, expected);
  for (const { id, answer, keep, at } of commit.commands ?? []) input.k.add(runId, id, answer, keep, time(at));
  addHistory(input, commit);
  for (const child of commit.children ?? []) {
    addCreate(input, child, child.create, runId);
    addHistory(input, child);
    input.w.add(child.runId, child.shard, time(child.wake));
  }
  if (commit.wake === null) input.wd.add(runId);
  else if (commit.wake !== undefined) input.w.add(runId, commit.shard, time(commit.wake));
  addOwed(input, commit);
}

/** A variable without a value is gone: its row says so, for a branch must not find its parent's instead. */
function addHistory(
  input: Input,
  { runId, events, variables }: Pick<RunCommit, "runId" | "events" | "variables">,
): void {
  for (const e of events)
    input.e.add(runId, e.seq, time(e.at), e.type, e.stepId, e.attempt, e.from, e.to, e.actor, e.metadata);
  for (const [name, value] of variables ?? []) input.v.add(runId, name, value);
}

function addUpdate(input: Input, runId: string, expected: number | undefined, row: RunRow): void {
  input.u.add(
    runId,
    expected,
    row.state,
    row.step,
    row.lastSeq,
    time(row.lastEventAt),
    optionalTime(row.terminalAt),
    row.review,
    row.awaitedSignal,
    row.pausedReason,
    row.record,
    row.call !== undefined,
    row.call,
    row.output,
    row.frames !== undefined,
    row.frames,
    row.items !== undefined,
    row.items,
  );
}

function addCreate(
  input: Input,
  { runId, shard }: Pick<RunCommit, "runId" | "shard">,
  row: NewRunRow,
  madeBy: string | undefined,
): void {
  input.n.add(
    runId,
    shard,
    row.record,
    row.workflowId,
    row.version,
    row.definitionId,
    row.tenantId,
    row.businessKey,
    row.triggerId,
    row.parentRunId,
    row.parentStepId,
    row.parentBranchId,
    row.parentEntry,
    row.rootRunId,
    row.familyRunId,
    time(row.startedAt),
    row.inputs,
    row.identity,
    row.requestHash,
    row.key?.scope,
    row.key?.key,
    madeBy,
  );
}

/** What the transitions owe: rows of the smaller tables. */
function addOwed(input: Input, commit: RunCommit): void {
  const { runId, shard } = commit;
  for (const s of commit.signals ?? []) input.s.add(s.id, runId, s.name, s.payload, time(s.at), s.consumed);
  for (const { id, at } of commit.consumed ?? []) input.sc.add(runId, id, time(at));
  for (const o of commit.outbox ?? []) input.o.add(o.id, runId, shard, o.kind, o.payload, time(o.dueAt));
  for (const id of commit.settledOutbox ?? []) input.od.add(runId, id);
  for (const i of commit.inbox ?? []) input.i.add(i.id, runId, i.to, i.shard, i.command, time(i.dueAt));
  for (const id of commit.takenInbox ?? []) input.it.add(runId, id);
  addEvents(input, commit);
  for (const t of commit.tasksOpened ?? [])
    input.t.add(t.id, runId, t.stepId, t.assignee, t.title, optionalTime(t.dueAt), t.formSchema, time(t.at));
  for (const t of commit.tasksClosed ?? []) input.tc.add(runId, t.id, time(t.at), t.result, t.by);
  for (const x of commit.undoOwed ?? []) addUndo(input, runId, x);
  for (const { ordinal, state } of commit.undoSettled ?? []) input.xs.add(runId, ordinal, state);
  if (commit.undoPassed) input.xp.add(runId, commit.undoPassed.since, commit.undoPassed.every);
  if (commit.undoHanded) input.xh.add(runId, commit.undoHanded.to, commit.undoHanded.entry);
  for (const { entry, inputs, variables } of commit.scopes ?? []) input.z.add(runId, entry, inputs, variables);
}

function addEvents(input: Input, { runId, eventsPublished, eventsTaken, eventWait }: RunCommit): void {
  for (const p of eventsPublished ?? []) input.p.add(p.id, runId, p.tenantId, p.topic, p.headers, p.payload);
  for (const id of eventsTaken ?? []) input.et.add(runId, id);
  if (eventWait === null) input.ewd.add(runId);
  else if (eventWait) input.ew.add(runId, eventWait.topic, eventWait.headers);
}

function addUndo(input: Input, runId: string, row: UndoRow): void {
  const { stepId, entry, action, inputs, forwardKey, childRunId, owner = runId, state = "owed" } = row;
  input.x.add(runId, stepId, entry, action, inputs, forwardKey, childRunId, owner, state, input.x.length);
}

const optionalTime = (epochMs: number | undefined) => (epochMs === undefined ? null : time(epochMs));

/** The rows of one transition, and mostly of one batch, bear the same time: it is written out once. */
let written = { epochMs: Number.NaN, text: "" };

function time(epochMs: number): string {
  if (written.epochMs !== epochMs) written = { epochMs, text: new Date(epochMs).toISOString() };
  return written.text;
}
