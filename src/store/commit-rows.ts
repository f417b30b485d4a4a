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
  readonly command?: { readonly id: string; readonly answer: string; readonly keep: boolean; readonly at: number };
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
  readonly takenInbox?: string;
  readonly undoOwed?: readonly UndoRow[];
  readonly undoSettled?: readonly { readonly ordinal: string; readonly state: string }[];
  readonly undoPassed?: boolean;
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
  /** undefined: the call column stays as it is; null: there is none. */
  readonly call?: string | null;
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
  readonly rootRunId?: string;
  readonly startedAt: number;
  readonly inputs: string;
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

export interface UndoRow {
  readonly stepId: string;
  readonly entry: number;
  readonly action?: string;
  readonly inputs?: string;
  readonly forwardKey: string;
  readonly childRunId?: string;
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
    root_run_id: "uuid",
    started_at: "timestamptz",
    inputs: "json",
    identity: "json",
    request_hash: "text",
    scope: "text",
    key: "text",
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
  vd: { run_id: "uuid", name: "text" },
  w: { run_id: "uuid", shard: "int2", due_at: "timestamptz" },
  wd: { run_id: "uuid" },
  s: { id: "uuid", run_id: "uuid", name: "text", payload: "json", at: "timestamptz", consumed: "bool" },
  sc: { run_id: "uuid", id: "uuid", at: "timestamptz" },
  o: { id: "uuid", run_id: "uuid", shard: "int2", kind: "text", payload: "json", due_at: "timestamptz" },
  od: { run_id: "uuid", id: "uuid" },
  i: { id: "uuid", from_run: "uuid", run_id: "uuid", shard: "int2", command: "json", due_at: "timestamptz" },
  it: { run_id: "uuid", id: "uuid" },
  x: {
    run_id: "uuid",
    step_id: "text",
    entry: "int4",
    action: "text",
    inputs: "json",
    forward_key: "text",
    child_run_id: "uuid",
    position: "int4",
  },
  xs: { run_id: "uuid", ordinal: "int8", state: "text" },
  xp: { run_id: "uuid" },
} as const satisfies Record<string, Record<string, ColumnType>>;

export type Part = keyof typeof PARTS;
type Input = { readonly [P in Part]: Columns };

/** The group as the statement's parameters, in the order of PARTS. */
export function parametersOf(group: readonly RunCommit[]): string[] {
  const input = Object.fromEntries(
    Object.entries(PARTS).map(([name, types]) => [name, new Columns(types)]),
  ) as unknown as Input;
  for (const commit of group) addRun(input, commit);
  return Object.values(input).flatMap((columns) => columns.parameters());
}

function addRun(input: Input, commit: RunCommit): void {
  const { runId, expected, update, create, command } = commit;
  if (create) addCreate(input, commit, create);
  else if (update) addUpdate(input, runId, expected, update);
  else input.c.add(runId, expected);
  if (command) input.k.add(runId, command.id, command.answer, command.keep, time(command.at));
  for (const e of commit.events)
    input.e.add(runId, e.seq, time(e.at), e.type, e.stepId, e.attempt, e.from, e.to, e.actor, e.metadata);
  for (const [name, value] of commit.variables ?? [])
    value === undefined ? input.vd.add(runId, name) : input.v.add(runId, name, value);
  if (commit.wake === null) input.wd.add(runId);
  else if (commit.wake !== undefined) input.w.add(runId, commit.shard, time(commit.wake));
  addOwed(input, commit);
}

function addUpdate(input: Input, runId: string, expected: number | undefined, row: RunRow): void {
  input.u.add(
    runId,
    expected,
    row.state,
    row.step,
    row.lastSeq,
    time(row.lastEventAt),
    row.terminalAt === undefined ? null : time(row.terminalAt),
    row.review,
    row.awaitedSignal,
    row.pausedReason,
    row.record,
    row.call !== undefined,
    row.call,
    row.output,
  );
}

function addCreate(input: Input, { runId, shard }: RunCommit, row: NewRunRow): void {
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
    row.rootRunId,
    time(row.startedAt),
    row.inputs,
    row.identity,
    row.requestHash,
    row.key?.scope,
    row.key?.key,
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
  if (commit.takenInbox !== undefined) input.it.add(runId, commit.takenInbox);
  for (const x of commit.undoOwed ?? [])
    input.x.add(runId, x.stepId, x.entry, x.action, x.inputs, x.forwardKey, x.childRunId, input.x.length);
  for (const { ordinal, state } of commit.undoSettled ?? []) input.xs.add(runId, ordinal, state);
  if (commit.undoPassed) input.xp.add(runId);
}

/** The rows of one transition, and mostly of one batch, bear the same time: it is written out once. */
let written = { epochMs: Number.NaN, text: "" };

function time(epochMs: number): string {
  if (written.epochMs !== epochMs) written = { epochMs, text: new Date(epochMs).toISOString() };
  return written.text;
}
