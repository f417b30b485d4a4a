// The unit of a run: the transitions since its last commit, as the rows of the next one. A unit numbers the audit rows, adds the run's own row, its
// due time and its tokens (law 1), and folds what cancels out. Random tokens, hashes and the time come in from its host; nothing is committed here.

import { auditRow, type CommittedEvent } from "../messages/audit.js";
import { type Answer, answersDispatch, isRefusal, type RunCommand } from "../messages/command.js";
import { CARRIED_MS, type FencedChild, type NewChild, type Owed, type Send, type Write } from "../messages/owed.js";
import { type RareColumn, type Relation, type Row, type Rows, RUN_COLUMNS } from "../messages/relations.js";
import type { Transition, VersionOf } from "../messages/transition.js";
import { type RunContext, wakeAt } from "../state/context.js";
import type { ForkedFrom, RunIdentity } from "../state/identity.js";
import type { CommandReach } from "../state/reach.js";
import { newRun, type RecordFormats } from "../state/record.js";
import { isOwedByRun } from "../state/wait.js";
import { type RunId, shardNumber } from "../values/ids.js";
import type { JsonObject } from "../values/json.js";
import { changedVariables, newRunRow, type StartMark, tenantsWithin, updateRow } from "./run-row.js";

/**
 * One run's share of a commit. The rows name the run: one row of `run_update`, `confirm` or `new_run` decides whether it wins, and all others are
 * written if it does. A column of type json has the value, not its text.
 */
export interface RunCommit {
  readonly runId: RunId;
  /** Of the run, and of those that it creates and writes to. A store that seals values does so for this tenant. */
  readonly tenantId?: string | undefined;
  readonly rows: Rows;
}

/** What a unit cannot compute, and what differs between stores. */
export interface UnitHost {
  /** A token that no other commit has: an int8 as text. */
  readonly newFence: () => string;
  /** The record of a context, in the format to write. */
  readonly recordOf: (context: RunContext) => ReturnType<RecordFormats["encode"]>;
  /** How the variables of a fork are kept. */
  readonly keptScope: (
    scope: Pick<Row<"scope">, "run_id" | "entry" | "holder">,
    variables: JsonObject,
  ) => { readonly scope: Row<"scope">; readonly values: readonly Row<"scope_value">[] };
  /** The rows of what a broker gets. `from`: the run whose commit has them, if it is another one. Absent: there is no broker. */
  readonly outgoing?: (
    run: RunIdentity,
    publishable: readonly Publishable[],
    from?: RunId,
  ) => readonly Row<"outgoing_event">[];
}

/** What a broker may get, in the order of the transitions: emitted events, and audit events. */
export type Publishable = Row<"published_event"> | CommittedEvent;

/** A stored run, which the commit is based on. */
export interface Based {
  /** After the transitions. */
  readonly context: RunContext;
  readonly revision: number;
  readonly fence: string;
  /** The due time of the stored wake row; null: there is none; absent: unknown, or the poll has leased the row. */
  readonly wake?: number | null;
  /** Whose runs the command of the commit may change. The store compares it with the run once more. */
  readonly reach: Pick<CommandReach, "tenants">;
}

/** A command as a run receives it. */
export interface ReceivedCommand {
  readonly command: RunCommand;
  /** Recorded with the outcome, so that a repeat of the command gets the same answer. Absent for hints. */
  readonly id?: string;
  /** Keep the recorded answer as long as the run, because a client holds the id; otherwise for a day. */
  readonly keep: boolean;
  /** What a repeat of the id must have in common with the first. */
  readonly requestHash?: string;
  /** The inbox row that carried the command. The commit of the outcome deletes it. */
  readonly inboxId?: string;
}

export class Unit {
  readonly events: CommittedEvent[] = [];
  readonly sends: Send[] = [];
  transitions = 0;
  /** It creates a run under an idempotency key: a commit creates one such run at most. */
  createsKeyedRun = false;
  /** What the store says of the undo list is no longer right: the rows to come, or to go, are in this unit. */
  changesUndoList = false;
  /** The token that the commit writes beside its revision (law 1). */
  readonly fence: string;
  private lastSeq: number;
  private lastEventAt: number;
  /** The run is one of another version from this commit on. */
  private moved: VersionOf | undefined;
  private readonly variables = new Set<string>();
  private readonly columns = new Set<RareColumn>();
  private readonly owed: OwedRows;
  private readonly answers: Omit<Row<"command">, "run_id" | "at">[] = [];
  /** The worker's answer that the first event is the outcome of. */
  private workersAnswer: string | undefined;
  private readonly inboxGone: string[] = [];

  constructor(
    last: { readonly lastSeq: number; readonly lastEventAt: number },
    private readonly host: UnitHost,
  ) {
    this.lastSeq = last.lastSeq;
    this.lastEventAt = last.lastEventAt;
    this.fence = host.newFence();
    this.owed = new OwedRows(host);
  }

  add(run: RunIdentity, { patch, stored, audit, writes, sends, moved }: Transition): void {
    this.transitions++;
    this.moved = moved ?? this.moved;
    const first = this.events.length;
    // Written out member by member: events are many and read often, and this gives them all one shape.
    for (const { at, type, stepId, attempt, from, to, actor, metadata } of audit) {
      this.events.push({ runId: run.id, seq: ++this.lastSeq, at, type, stepId, attempt, from, to, actor, metadata });
      this.lastEventAt = at;
    }
    this.createsKeyedRun ||= writes.some(({ to, row }) => to === "new_run" && row.idempotencyKey !== undefined);
    this.changesUndoList ||= writes.some(changesUndoList);
    this.sends.push(...sends, ...this.owed.add(run, writes));
    if (this.host.outgoing) this.owed.publish(run, this.events.slice(first));
    for (const name of stored) this.variables.add(name);
    for (const column of RUN_COLUMNS.rare) if (column in patch) this.columns.add(column);
  }

  /** Makes the command's outcome part of this commit: its id and answer are recorded, its inbox row is deleted. */
  recordAnswer(received: ReceivedCommand, answer: Answer): void {
    const { id, keep, inboxId, requestHash } = received;
    const counted = answer.type === "report" && !answer.stale && this.events.length > 0;
    if (counted && namesItsDispatch(received)) this.workersAnswer = id;
    else if (id !== undefined && !isOfStranger(answer))
      this.answers.push({ command_id: id, answer: recorded(answer, requestHash), keep });
    if (inboxId !== undefined) this.inboxGone.push(inboxId);
  }

  /** Whether the command is part of this commit already: it can arrive twice, from memory and from the poll. */
  hasAnswerOf({ id }: Pick<ReceivedCommand, "id">): boolean {
    return this.answers.some((command) => command.command_id === id);
  }

  get seq(): number {
    return this.lastSeq;
  }

  /** The commit of these transitions. `now`: database time. */
  toCommit(based: Based, now: number): RunCommit {
    const { context } = based;
    const { id: runId } = context.run;
    const { lastSeq, lastEventAt, moved, fence, columns: changed } = this;
    const record = this.host.recordOf(context);
    const { revision, fence: expectedFence, reach } = based;
    const about = { revision, expectedFence, reach, fence, lastSeq, lastEventAt, record, changed, moved };
    const owed = this.owed.rows;
    const { wake, wake_gone } = wakeRows(runId, wakeChange(context, now, based.wake));
    const own: Rows = {
      run_update: [updateRow(context, about)],
      audit_event: together(this.eventRows(), owed.audit_event),
      variable: together(changedVariables(context, this.variables), owed.variable),
      wake: together(wake, owed.wake),
      wake_gone,
      command: this.answers.map((command) => ({ run_id: runId, at: now, ...command })),
      inbox_gone: this.inboxGone.map((id) => ({ run_id: runId, id })),
    };
    // Not a spread: on Node 20 each member that is added to one costs 2 µs.
    return { runId, tenantId: context.run.tenantId, rows: Object.assign({}, owed, own) };
  }

  private eventRows(): Row<"audit_event">[] {
    return this.events.map((event, nth) =>
      auditRow(event.runId, event.seq, event, nth === 0 ? this.workersAnswer : undefined),
    );
  }
}

function changesUndoList({ to, row }: Write): boolean {
  return to.startsWith("undo_") && !(to === "undo_passed" && !row.every);
}

function together<T>(own: readonly T[] = [], others: readonly T[] = []): readonly T[] {
  return others.length === 0 ? own : [...own, ...others];
}

/** A decision that leaves the run as it is. */
export interface Unchanged extends Based {
  readonly received: ReceivedCommand;
  readonly answer: Answer;
  readonly owed: Owed;
}

/** The commit of a refusal or a no-op: it confirms the revision that the decision was based on (law 3). */
export function confirmation(unchanged: Unchanged, now: number, host: UnitHost): RunCommit {
  return confirmationOf(unchanged, now, host).commit;
}

/** `begin`: the runs that it creates begin after the commit. */
export function confirmationOf(
  unchanged: Unchanged,
  now: number,
  host: UnitHost,
): { readonly commit: RunCommit; readonly begin: readonly Send[] } {
  const { context, wake, received, answer, owed } = unchanged;
  const { id, keep, inboxId, command, requestHash } = received;
  const runId = context.run.id;
  const leavesNothing = isRefusal(answer) || isOfStranger(answer) || namesItsDispatch(received);
  const isRecorded = id !== undefined && !leavesNothing;
  const owing = new OwedRows(host);
  const begin = owing.add(context.run, owed.writes ?? []);
  const rows = {
    ...owing.rows,
    ...confirmed(unchanged).rows,
    ...(command.type === "advance" && wakeRows(runId, wakeChange(context, now, wake))),
    command: isRecorded
      ? [{ run_id: runId, command_id: id, answer: recorded(answer, requestHash), keep, at: now }]
      : [],
    inbox_gone: inboxId === undefined ? [] : [{ run_id: runId, id: inboxId }],
  };
  return { commit: { runId, tenantId: context.run.tenantId, rows }, begin };
}

/** The commit that confirms a revision, and no more. */
export function confirmed({ context, revision, fence, reach }: Based): RunCommit {
  const { id, tenantId } = context.run;
  const confirm = [{ id, expected: revision, expected_fence: fence, within: tenantsWithin(reach) }];
  return { runId: id, tenantId, rows: { confirm } };
}

/** A report on another service's or tenant's dispatch leaves no row at a run that its worker has nothing to do with. */
const isOfStranger = (answer: Answer) => answer.type === "report" && answer.reason !== undefined;

/** A worker's answer that names its dispatch needs no row of its own. A client's idempotency key does need one. */
export function namesItsDispatch({ command, keep, requestHash }: ReceivedCommand): boolean {
  return answersDispatch(command) && !keep && requestHash === undefined;
}

/** A storage format: members may be added, never changed. */
function recorded(answer: Answer, requestHash: string | undefined): object {
  return requestHash === undefined ? answer : { ...answer, request_hash: requestHash };
}

// ---- What decisions owe

type GrowingRows = { -readonly [Of in Relation]?: Row<Of>[] };
type CompleteWrite = Exclude<Write, { to: "new_run" | "promise" | "scope" | "kept_entry" }>;

/**
 * The rows that decisions of a run owe. Tokens, and the rows of new runs, are added here. What is owed and settled in one commit becomes no row, and a row
 * that the commit would write and change at once is changed before it is written: a statement does not see the rows that it inserts.
 */
export class OwedRows {
  private readonly grown: GrowingRows = {};

  constructor(private readonly host: Pick<UnitHost, "newFence" | "keptScope" | "outgoing">) {}

  get rows(): Rows {
    return this.grown;
  }

  /** What leaves the process besides the sends of the decision: the runs that it creates begin. */
  add(run: RunIdentity, writes: readonly Write[]): readonly Send[] {
    const begin: Send[] = [];
    for (const write of writes) {
      if (write.to === "new_run") begin.push(this.addChild(run.id, write.row));
      else if (write.to === "promise") this.put("promise", { ...write.row, fence: this.host.newFence() });
      else if (write.to === "scope") this.addScope(write.row);
      else if (write.to === "kept_entry") this.addEntry(write.row);
      else this.fold(write);
      if (write.to === "published_event") this.publish(run, [write.row]);
    }
    return begin;
  }

  /** What a broker gets, in the order of the transitions. */
  publish(run: RunIdentity, publishable: readonly Publishable[], from?: RunId): void {
    if (this.host.outgoing) this.put("outgoing_event", ...this.host.outgoing(run, publishable, from));
  }

  /** A child's actor is made of what is sent, without a look at its row, so that brings the token of the row. */
  private addChild(parent: RunId, made: NewChild): Send {
    const { identity, inherited, idempotencyKey, fork } = made;
    const child: FencedChild = { ...made, fence: this.host.newFence() };
    const { context, started } = firstOfMade(made);
    const { labels = {} } = fork ?? {};
    const mark = { requestHash: "", idempotencyKey, fence: child.fence, labels: fork?.labels, given: fork?.given };
    this.put("label", ...Object.entries(labels).map(([name, value]) => ({ run_id: identity.id, name, value })));
    const { new_run, audit_event, variable, wake } = newRunRows(context, started, mark, { parent, inherited });
    this.put("new_run", ...new_run);
    this.put("audit_event", ...audit_event);
    this.put("variable", ...variable);
    this.put("wake", ...wake);
    this.publish(identity, [started], parent);
    return { kind: "child", child };
  }

  private addScope({ variables, ...scope }: Extract<Write, { to: "scope" }>["row"]): void {
    const kept = this.host.keptScope(scope, variables);
    this.put("scope", kept.scope);
    this.put("scope_value", ...kept.values);
  }

  private addEntry({ variables, step_id, run_id, entry }: Extract<Write, { to: "kept_entry" }>["row"]): void {
    const { scope, values } = this.host.keptScope({ run_id, entry, holder: run_id }, variables);
    const { manifest, manifest_hash } = scope;
    this.put("kept_entry", { run_id, entry, step_id, manifest, manifest_hash });
    this.put("scope_value", ...values);
  }

  private fold(write: CompleteWrite): void {
    switch (write.to) {
      case "outbox_row":
        this.drop("outbox_row", ({ id }) => id === write.row.id);
        break;
      case "outbox_gone":
        if (this.drop("outbox_row", ({ id }) => id === write.row.id)) return;
        break;
      case "event_wait":
      case "event_wait_gone":
        this.grown.event_wait_gone = undefined;
        this.grown.event_wait = undefined;
        break;
      case "ticket_gone":
        // A statement cannot change a row and delete it.
        this.drop("ticket_returned", ({ entry }) => entry === write.row.entry);
        if (this.drop("ticket", ({ entry }) => entry === write.row.entry)) return;
        break;
      case "turn":
        // It replaces a row that is there: the statement must not change that one as well.
        this.drop("turn_taken", ({ entry }) => entry === write.row.entry);
        this.drop("turn_returned", ({ entry }) => entry === write.row.entry);
        this.drop("turn", ({ entry }) => entry === write.row.entry);
        break;
      case "turn_returned":
      case "turn_taken":
        if (this.drop("turn", ({ entry }) => entry === write.row.entry)) return this.put("turn_taken", write.row);
        break;
      case "undo_passed":
        return this.passOver(write.row);
      case "undo_handed":
        this.handOver(write.row);
        break;
    }
    this.put(write.to, write.row as Row<Relation>);
  }

  /** A later rollback in the same commit passes over no fewer of the stored rows. */
  private passOver({ run_id, since, every }: Row<"undo_passed">): void {
    const { undo_entry: own, undo_passed: [before] = [] } = this.grown;
    const isPassed = (row: Row<"undo_entry">) => every || (row.action === undefined && row.entry > since);
    if (own) this.grown.undo_entry = own.map((row) => (isPassed(row) ? { ...row, state: "passed" } : row));
    const from = every ? 0 : Math.min(since, before?.since ?? since);
    this.grown.undo_passed = [{ run_id, since: from, every: every || (before?.every ?? false) }];
  }

  private handOver({ run_id, heir, entry }: Row<"undo_handed">): void {
    const { undo_entry: own } = this.grown;
    const handed = (row: Row<"undo_entry">) => ({
      ...row,
      owner: heir,
      entry,
      child_run_id: row.child_run_id ?? run_id,
    });
    if (own) this.grown.undo_entry = own.map((row) => (row.state === "owed" ? handed(row) : row));
  }

  private put<Of extends Relation>(to: Of, ...added: readonly Row<Of>[]): void {
    if (added.length === 0) return;
    const grown = this.grown as { [Name in Of]?: Row<Of>[] };
    const known = grown[to];
    if (known) known.push(...added);
    else grown[to] = [...added];
  }

  /** Whether there was such a row. */
  private drop<Of extends Relation>(from: Of, which: (row: Row<Of>) => boolean): boolean {
    const grown = this.grown as { [Name in Of]?: Row<Of>[] };
    const known = grown[from];
    if (!known?.some(which)) return false;
    grown[from] = known.filter((row) => !which(row));
    return true;
  }
}

// ---- New runs

/** A run that another one makes, as it begins: its context, and its first audit event. */
export function firstOfMade({ identity, variables = {}, variablesSize, fork }: NewChild) {
  const fresh = newRun(identity, variables, variablesSize);
  if (!fork) return { context: fresh, started: startedEvent(identity, "coordinator") };
  const { actor, entries, owed, unprotected } = fork;
  return { context: { ...fresh, entries, owed, unprotected }, started: startedEvent(identity, actor) };
}

/** The first audit event of every run. `startup`: where its startup variables come from. */
export function startedEvent(identity: RunIdentity, actor: string, startup?: JsonObject): CommittedEvent {
  const { id: runId, workflowId, version, entrypoint, triggerId, rerunOf, forkedFrom, startedAt: at } = identity;
  const cause = {
    ...(triggerId && { trigger_id: triggerId }),
    ...(rerunOf && { rerun_of: rerunOf }),
    ...(forkedFrom && { forked_from: forkedFromView(forkedFrom) }),
  };
  const given = { ...cause, ...(startup && { startup_variables: startup }) };
  const metadata = { workflow_id: workflowId, version, entrypoint, ...given };
  return { runId, seq: 1, type: "saga.started", attempt: 0, from: "pending", to: "pending", actor, at, metadata };
}

/** Where a fork comes from, as clients see it. */
export function forkedFromView({ runId, step, entry }: ForkedFrom): JsonObject {
  return { saga_id: runId, step, entry };
}

/** The rows of a new run, which a client starts or another run creates. `inherited`: its variables are those of a kept scope. */
export function newRunRows(
  context: RunContext,
  started: CommittedEvent,
  mark: StartMark,
  { parent, inherited = false }: { readonly parent?: RunId; readonly inherited?: boolean } = {},
) {
  const { run, variables } = context;
  return {
    new_run: [newRunRow(context, mark, parent)],
    audit_event: [auditRow(run.id, started.seq, started)],
    variable: inherited ? [] : changedVariables(context, Object.keys(variables)),
    wake: [{ run_id: run.id, shard: shardNumber(run.id), due_at: firstWake(context) }],
  } satisfies Rows;
}

/** The columns that the first steps of a run leave otherwise than its start made them. */
type SteppedColumn = Exclude<
  keyof Row<"run_update"> & keyof Row<"new_run">,
  "id" | "fence" | "version" | "definition_id"
>;

/**
 * The commit that creates the run as its first steps leave it. Undefined: the start has to be committed first, because only the
 * compare-and-set of a stored run decides who takes a signal or an event, and whether a run that is created under a key is told of.
 */
export function startWith(
  { runId, tenantId, rows: start }: RunCommit,
  { rows: steps }: RunCommit,
): RunCommit | undefined {
  const { run_update: [row] = [], new_run: children = [], variable = [], ...owed } = steps;
  const [created] = start.new_run ?? [];
  const isClaiming =
    steps.signal_claim ?? steps.promise ?? steps.event_claim ?? children.find(({ key }) => key !== undefined);
  if (!row || !created || isClaiming) return undefined;
  const { state, step, last_seq, last_event_at, terminal_at, review, awaited_signal, paused_reason } = row;
  const { record, call, frames, items, output } = row;
  const begun = {
    ...{ state, step, last_seq, last_event_at, terminal_at, review, awaited_signal, paused_reason },
    ...{ record, call, frames, items, output },
  } satisfies Record<SteppedColumn, unknown>;
  const changed = new Set(variable.filter(({ run_id }) => run_id === runId).map(({ name }) => name));
  const rows = {
    ...bothOf(start, owed),
    new_run: [{ ...created, ...begun }, ...children],
    variable: [...(start.variable ?? []).filter(({ name }) => !changed.has(name)), ...variable],
    // The run is woken as its first steps say.
    wake: steps.wake ?? [],
  };
  return { runId, tenantId, rows };
}

/** The rows of two commits that become one. */
function bothOf(one: Rows, other: Rows): Rows {
  const relations = new Set([...Object.keys(one), ...Object.keys(other)]) as ReadonlySet<Relation>;
  return Object.fromEntries([...relations].map((to) => [to, together<unknown>(one[to], other[to])]));
}

// ---- Due times

/** The wake row of a run that is stepping is due this far ahead: it is polled only if the run's node died. */
const STEPPING_GRACE_MS = 2_000;
/** A look that is due within this time is not put off by the commits that come before it. */
const LOOKED_AT_SOON_MS = 1_000;

/** Whether the wake row owes a dispatch that has no row of its own. A run in quarantine is left alone. */
export function owesLook({ wait, call, quarantined }: RunContext): boolean {
  return !quarantined && call !== undefined && wait !== undefined && "dispatchId" in wait && isOwedByRun(wait, call);
}

/** The due time of a new run's wake row: if the node dies before the run steps, the poll takes it up then. */
export function firstWake(context: RunContext): number {
  const { startedAt } = context.run;
  return wakeTime(context, startedAt) ?? startedAt + STEPPING_GRACE_MS;
}

/**
 * The due time of the run's wake row; null: it needs none. A dispatch without a row of its own has the run looked at as soon as its row would have
 * been due: until then the node that committed it carries it out.
 */
function wakeTime(context: RunContext, now: number): number | null {
  const wake = wakeAt(context);
  if (wake === "soon") return now + STEPPING_GRACE_MS;
  if (owesLook(context)) return Math.min(wake ?? Number.POSITIVE_INFINITY, now + CARRIED_MS);
  return wake ?? null;
}

/**
 * The wake row that a commit writes; undefined: the `stored` one is still good, where it is known. While the run is stepping, or a worker
 * has its call, another commit will come long before the row is due, so a row that is due too early is moved only when it is nearly due:
 * when less than half of the time is left. A parked run has the exact time: due earlier, the row would wake it for nothing.
 */
export function wakeChange(
  context: RunContext,
  now: number,
  stored: number | null | undefined,
): number | null | undefined {
  const due = wakeTime(context, now);
  if (stored === undefined || due === null || stored === null) return stored === due ? undefined : due;
  // The run of a node that is gone: its dispatch may be lost, and only the look finds that out.
  if (owesLook(context) && stored <= due && stored - now < LOOKED_AT_SOON_MS) return undefined;
  const early = stored <= due && stored - now >= (due - now) / 2;
  return stored > now && (stored === due || (early && isUnderWay(context))) ? undefined : due;
}

function isUnderWay(context: RunContext): boolean {
  return wakeAt(context) === "soon" || context.wait?.kind === "dispatched" || owesLook(context);
}

/** The wake row that the run needs now, as `wakeChange` says. */
function wakeRows(runId: RunId, due: number | null | undefined): Pick<Rows, "wake" | "wake_gone"> {
  if (due === undefined) return {};
  if (due === null) return { wake_gone: [{ run_id: runId }] };
  return { wake: [{ run_id: runId, shard: shardNumber(runId), due_at: due }] };
}
