// A unit: the transitions that one run has taken since its last commit, as the rows of the next one. It adds what only the shell knows: the
// revision and the tokens, the numbers of the audit rows, and the due time of the wake. Nothing of it leaves the process before its commit has won.

import {
  type Answer,
  answersDispatch,
  auditRow,
  changedVariables,
  type DispatchId,
  FoldedRows,
  isRefusal,
  type NewChild,
  type Owed,
  type RareColumn,
  type RecordFormats,
  type Row,
  type Rows,
  type RunContext,
  type RunId,
  type RunIdentity,
  type Send,
  type Transition,
  updateRow,
  type VersionOf,
  type Write,
} from "../../machines/index.js";
import { type OutgoingEvents, outgoingRows, type Publishable } from "../events/outgoing-events.js";
import type { RunCommit } from "../store/engine/commit/run-commit.js";
import type { Revision } from "../store/engine/revision.js";
import { keptScope } from "./kept-scope.js";
import type { LoadedRun } from "./loaded-run.js";
import type { QueuedCommand } from "./mailbox.js";
import { childRows, createdByParent } from "./new-run.js";
import type { CommittedEvent } from "./ports.js";
import { newFence, wakeChange, wakeRows } from "./run-rows.js";

/** Columns that are written only when they change. */
const RARE_COLUMNS: readonly RareColumn[] = ["call", "frames", "items"];

export type RecordOf = (context: RunContext) => ReturnType<RecordFormats["encode"]>;

/** What a unit is based on. */
type Based = Pick<LoadedRun, "actor" | "revision" | "fence" | "wake">;

export class Unit {
  readonly events: CommittedEvent[] = [];
  readonly sends: Send[] = [];
  /** Dispatches that a worker's credit was reserved for; it is given back if the commit is lost. */
  readonly reserved: DispatchId[] = [];
  /** Queued commands that share this commit: the ends of children that waited in the mailbox. */
  readonly childEnds: QueuedCommand[] = [];
  transitions = 0;
  /** It creates a run under an idempotency key: a commit creates one such run at most. */
  createsKeyedRun = false;
  /** What the store says of the undo list is no longer right: the rows to come, or to go, are in this unit. */
  changesUndoList = false;
  /** The token that the commit writes beside its revision (law 1). */
  readonly fence = newFence();
  /** The run is one of another version from this commit on. */
  private moved: VersionOf | undefined;
  private readonly changedVariables = new Set<string>();
  private readonly changedColumns = new Set<RareColumn>();
  private readonly owed: OwedRows;
  private readonly answers: Omit<Row<"command">, "run_id" | "at">[] = [];
  /** The worker's answer that the first event is the outcome of. */
  private workersAnswer: string | undefined;
  private readonly inboxGone: string[] = [];

  constructor(
    private lastSeq: number,
    private lastEventAt: number,
    private readonly outgoing?: OutgoingEvents,
  ) {
    this.owed = new OwedRows(outgoing);
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
    if (this.outgoing) this.owed.publish(run, this.events.slice(first));
    for (const name of stored) this.changedVariables.add(name);
    for (const column of RARE_COLUMNS) if (column in patch) this.changedColumns.add(column);
  }

  /** Makes the command's outcome part of this commit: its id and answer are recorded, its inbox row is deleted. */
  recordAnswer(queued: Recorded, answer: Answer): void {
    const { id, keep, inboxId, requestHash } = queued;
    const counted = answer.type === "report" && !answer.stale && this.events.length > 0;
    if (counted && namesItsDispatch(queued)) this.workersAnswer = id;
    else if (id !== undefined) this.answers.push({ command_id: id, answer: recorded(answer, requestHash), keep });
    if (inboxId !== undefined) this.inboxGone.push(inboxId);
  }

  /** Whether the command is part of this commit already: it can arrive twice, from memory and from the poll. */
  hasAnswerOf({ id }: Pick<QueuedCommand, "id">): boolean {
    return this.answers.some((command) => command.command_id === id);
  }

  get seq(): number {
    return this.lastSeq;
  }

  /** The commit of these transitions, on a run at that revision. `recordOf`: the record of a context, in the format to write. */
  toCommit(based: Based, { now, recordOf }: { now: number; recordOf: RecordOf }): RunCommit {
    const { context } = based.actor;
    const { run } = context;
    const owed = this.owed.rows;
    const { wake, wake_gone } = wakeRows(run.id, wakeChange(context, now, based.wake));
    const rows = {
      ...owed,
      run_update: [this.runRow(based, recordOf(context))],
      audit_event: together(this.eventRows(), owed.audit_event),
      variable: together(changedVariables(context, this.changedVariables), owed.variable),
      wake: together(wake, owed.wake),
      wake_gone,
      command: this.answers.map((command) => ({ run_id: run.id, ...command, at: now })),
      inbox_gone: this.inboxGone.map((id) => ({ run_id: run.id, id })),
    };
    return { runId: run.id, rows };
  }

  private runRow({ actor, revision, fence }: Based, record: ReturnType<RecordOf>): Row<"run_update"> {
    const { lastSeq, lastEventAt, moved, changedColumns: changed } = this;
    const about = { revision, expectedFence: fence, fence: this.fence, lastSeq, lastEventAt, record, changed, moved };
    return updateRow(actor.context, about);
  }

  private eventRows(): Row<"audit_event">[] {
    return this.events.map((event, nth) =>
      auditRow(event.runId, event.seq, event, nth === 0 ? this.workersAnswer : undefined),
    );
  }
}

/** The rows of the run, and those of the runs that it creates. */
function together<T>(own: readonly T[] = [], others: readonly T[] = []): readonly T[] {
  return others.length === 0 ? own : [...own, ...others];
}

function changesUndoList({ to, row }: Write): boolean {
  return to.startsWith("undo_") && !(to === "undo_passed" && !row.every);
}

/** The rows that decisions of a run owe. What they write is folded; the tokens, and what is kept by its content, are added here. */
class OwedRows {
  private readonly folded = new FoldedRows();

  constructor(private readonly outgoing: OutgoingEvents | undefined) {}

  get rows(): Rows {
    return this.folded.rows;
  }

  /** What leaves the process besides the sends of the decision: the runs that it creates begin. */
  add(run: RunIdentity, writes: readonly Write[]): readonly Send[] {
    const begin: Send[] = [];
    for (const write of writes) {
      if (write.to === "new_run") begin.push(this.addChild(run.id, write.row));
      else if (write.to === "promise") this.folded.add("promise", { ...write.row, fence: newFence() });
      else if (write.to === "scope") this.addScope(write.row);
      else this.folded.fold(write);
      if (write.to === "published_event" && this.outgoing) this.publish(run, [write.row]);
    }
    return begin;
  }

  /** What RabbitMQ gets, in the order of the transitions. */
  publish(run: RunIdentity, publishable: readonly Publishable[]): void {
    this.folded.add("outgoing_event", ...outgoingRows(run, publishable, this.outgoing));
  }

  /** A child's actor is made of what is sent, without a look at its row, so that brings the token of the row. */
  private addChild(parent: RunId, made: NewChild): Send {
    const child = { ...made, fence: newFence() };
    const { new_run, audit_event, variable, wake } = childRows(child, parent);
    this.folded.add("new_run", ...new_run);
    this.folded.add("audit_event", ...audit_event);
    this.folded.add("variable", ...variable);
    this.folded.add("wake", ...wake);
    const started = [createdByParent(child.identity)];
    this.folded.add("outgoing_event", ...outgoingRows(child.identity, started, this.outgoing, parent));
    return { kind: "child", child };
  }

  private addScope({ variables, ...scope }: Extract<Write, { to: "scope" }>["row"]): void {
    const kept = keptScope(scope, variables);
    this.folded.add("scope", kept.scope);
    this.folded.add("scope_value", ...kept.values);
  }
}

type Recorded = Pick<QueuedCommand, "command" | "id" | "keep" | "inboxId" | "requestHash">;

/** A worker's answer that names its dispatch needs no row of its own. A client's idempotency key does need one. */
export function namesItsDispatch({
  command,
  keep,
  requestHash,
}: Pick<Recorded, "command" | "keep" | "requestHash">): boolean {
  return answersDispatch(command) && !keep && requestHash === undefined;
}

/** A storage format: members may be added, never changed. */
function recorded(answer: Answer, requestHash: string | undefined): object {
  return requestHash === undefined ? answer : { ...answer, request_hash: requestHash };
}

/** A decision that leaves the run as it is. */
export interface Unchanged {
  readonly context: RunContext;
  readonly revision: Revision;
  readonly fence: string;
  /** The due time of the stored wake row, as in LoadedRun. */
  readonly wake?: number | null;
  readonly queued: QueuedCommand;
  readonly answer: Answer;
  readonly owed: Owed;
}

/** The commit of a refusal or a no-op: it confirms the revision that the decision was based on (law 3). */
export function confirmation(unchanged: Unchanged, now: number): RunCommit {
  const { context, revision, fence, wake, queued, answer, owed } = unchanged;
  const { id, keep, inboxId, command, requestHash } = queued;
  const runId = context.run.id;
  const isRecorded = id !== undefined && !isRefusal(answer) && !namesItsDispatch(queued);
  const owing = new OwedRows(undefined);
  owing.add(context.run, owed.writes ?? []);
  const rows = {
    ...owing.rows,
    confirm: [{ id: runId, expected: revision, expected_fence: fence }],
    ...(command.type === "advance" && wakeRows(runId, wakeChange(context, now, wake))),
    command: isRecorded
      ? [{ run_id: runId, command_id: id, answer: recorded(answer, requestHash), keep, at: now }]
      : [],
    inbox_gone: inboxId === undefined ? [] : [{ run_id: runId, id: inboxId }],
  };
  return { runId, rows };
}
