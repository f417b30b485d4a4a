// A batch: the transitions that one run has taken since its last commit, and the rows they become. Nothing of it leaves the
// process before its commit has won.

import {
  type Answer,
  awaitedSignal,
  type DispatchId,
  type Effect,
  encodeRecord,
  isTerminal,
  OLDEST_RECORD_FORMAT,
  pausedReason,
  type Row,
  type RunContext,
  type RunId,
  type Transition,
  type VersionOf,
} from "../../machines/index.js";
import type { RunCommit } from "../store/commit/run-commit.js";
import type { Revision } from "../store/revision.js";
import type { Delivery } from "./delivery.js";
import { newFence } from "./fence.js";
import type { LoadedRun } from "./loaded-run.js";
import { type OutgoingEvents, outgoingRows, type Publishable, publishableIn } from "./outgoing-events.js";
import { owedRows } from "./owed-rows.js";
import type { CommittedEvent } from "./ports.js";
import { eventRow, wakeChange, wakeRows } from "./run-rows.js";

/** Columns that are written only when they change. */
const RARE_COLUMNS = ["call", "frames", "items"] as const;
type RareColumn = (typeof RARE_COLUMNS)[number];

/** What a batch is based on. */
type Based = Pick<LoadedRun, "actor" | "revision" | "fence" | "wake">;

export class Batch {
  readonly events: CommittedEvent[] = [];
  readonly effects: Effect[] = [];
  /** Dispatches that a worker's credit was reserved for; it is given back if the commit is lost. */
  readonly reserved: DispatchId[] = [];
  /** Deliveries that share this commit: the ends of children that waited in the mailbox. */
  readonly childEnds: Delivery[] = [];
  transitions = 0;
  /** It creates a run under an idempotency key: a commit creates one such run at most. */
  createsKeyedRun = false;
  /** What the store says of the undo list is no longer right: the rows to come, or to go, are in this batch. */
  changesUndoList = false;
  /** The token that the commit writes beside its revision (law 1). */
  readonly fence = newFence();
  /** The run is one of another version from this commit on. */
  private moved: VersionOf | undefined;
  private readonly changedVariables = new Set<string>();
  private readonly changedColumns = new Set<RareColumn>();
  /** What RabbitMQ may get, in the order of the transitions. */
  private readonly publishable: Publishable[] = [];
  private readonly answers: Omit<Row<"command">, "run_id" | "at">[] = [];
  /** The worker's answer that the first event is the outcome of. */
  private workersAnswer: string | undefined;
  private readonly inboxGone: string[] = [];

  constructor(
    private lastSeq: number,
    private lastEventAt: number,
    private readonly outgoing?: OutgoingEvents,
  ) {}

  add(runId: RunId, { patch, stored, audit, effects, moved }: Transition): void {
    this.transitions++;
    this.moved = moved ?? this.moved;
    const first = this.events.length;
    // Written out member by member: events are many and read often, and this gives them all one shape.
    for (const { at, type, stepId, attempt, from, to, actor, metadata } of audit) {
      this.events.push({ runId, seq: ++this.lastSeq, at, type, stepId, attempt, from, to, actor, metadata });
      this.lastEventAt = at;
    }
    this.createsKeyedRun ||= effects.some(
      (each) => each.kind === "child.start" && each.child.idempotencyKey !== undefined,
    );
    this.changesUndoList ||= effects.some(({ kind }) => kind.startsWith("undo.") && kind !== "undo.passed");
    for (const effect of effects) this.effects.push(withFence(effect));
    if (this.outgoing) this.publishable.push(...publishableIn(effects, this.events.slice(first)));
    for (const name of stored) this.changedVariables.add(name);
    for (const column of RARE_COLUMNS) if (column in patch) this.changedColumns.add(column);
  }

  /** Makes the command's outcome part of this commit: its id and answer are recorded, its inbox row is deleted. */
  recordAnswer(delivery: Recorded, answer: Answer): void {
    const { id, keep, inboxId, requestHash } = delivery;
    const counted = answer.type === "report" && !answer.stale && this.events.length > 0;
    if (counted && namesItsDispatch(delivery)) this.workersAnswer = id;
    else if (id !== undefined) this.answers.push({ command_id: id, answer: recorded(answer, requestHash), keep });
    if (inboxId !== undefined) this.inboxGone.push(inboxId);
  }

  /** Whether the command is part of this commit already: it can arrive twice, from memory and from the poll. */
  hasAnswerOf({ id }: Pick<Delivery, "id">): boolean {
    return this.answers.some((command) => command.command_id === id);
  }

  get seq(): number {
    return this.lastSeq;
  }

  /** The commit of these transitions, on a run at that revision, with its record in at most `format`. */
  toCommit(based: Based, { now, format }: { now: number; format: number }): RunCommit {
    const { context } = based.actor;
    const { run } = context;
    const owed = owedRows(run, this.effects, now, this.outgoing);
    const outgoing = this.outgoing ? outgoingRows(run, this.publishable, this.outgoing) : [];
    const { wake, wake_gone } = wakeRows(run.id, wakeChange(context, now, based.wake));
    const rows = {
      ...owed,
      run_update: [this.runRow(based, context, format)],
      audit_event: together(this.eventRows(), owed.audit_event),
      variable: together(this.variableRows(context), owed.variable),
      wake: together(wake, owed.wake),
      wake_gone,
      command: this.answers.map((command) => ({ run_id: run.id, ...command, at: now })),
      inbox_gone: this.inboxGone.map((id) => ({ run_id: run.id, id })),
      outgoing_event: together(outgoing, owed.outgoing_event),
    };
    return { runId: run.id, rows };
  }

  private eventRows(): Row<"audit_event">[] {
    return this.events.map((event, nth) => eventRow(event, nth === 0 ? this.workersAnswer : undefined));
  }

  private runRow({ revision, fence }: Based, context: RunContext, format: number): Row<"run_update"> {
    const record = encodeRecord(context, format);
    const changed = this.changedColumns;
    return {
      id: context.run.id,
      expected: revision,
      expected_fence: fence,
      fence: this.fence,
      state: context.state,
      step: context.step,
      last_seq: this.lastSeq,
      last_event_at: this.lastEventAt,
      terminal_at: isTerminal(context.state) ? this.lastEventAt : undefined,
      review: context.requiresManualReview,
      awaited_signal: awaitedSignal(context.wait),
      paused_reason: pausedReason(context),
      record,
      record_format: record.v > OLDEST_RECORD_FORMAT ? record.v : undefined,
      set_call: changed.has("call"),
      call: changed.has("call") ? context.call : undefined,
      set_frames: changed.has("frames"),
      frames: changed.has("frames") && context.frames.length > 0 ? context.frames : undefined,
      set_items: changed.has("items"),
      items: changed.has("items") ? context.items : undefined,
      output: context.output,
      version: this.moved?.version,
      definition_id: this.moved?.definitionId,
    };
  }

  /** A variable that the run does not have any more has no value. */
  private variableRows({ run, variables }: RunContext): Row<"variable">[] {
    return Array.from(this.changedVariables, (name) => ({
      run_id: run.id,
      name,
      value: Object.hasOwn(variables, name) ? variables[name] : undefined,
    }));
  }
}

/** The rows of the run, and those of the runs that it creates. */
function together<T>(own: readonly T[] = [], others: readonly T[] = []): readonly T[] {
  return others.length === 0 ? own : [...own, ...others];
}

/** A child's actor is made of the effect, without a look at its row, so the effect brings the token of the row. */
function withFence(effect: Effect): Effect {
  return effect.kind === "child.start" ? { ...effect, child: { ...effect.child, fence: newFence() } } : effect;
}

type Recorded = Pick<Delivery, "command" | "id" | "keep" | "inboxId" | "requestHash">;

/**
 * A worker's answer that names its dispatch counts once, because the run waits for that dispatch once. It needs no row of its own: its id
 * stands beside the audit row of its outcome. A client's idempotency key does need one.
 */
export function namesItsDispatch({
  command,
  keep,
  requestHash,
}: Pick<Recorded, "command" | "keep" | "requestHash">): boolean {
  const answers = command.type === "result" || command.type === "failure";
  return answers && command.dispatchId !== undefined && !keep && requestHash === undefined;
}

/** A storage format: members may be added, never changed. */
function recorded(answer: Answer, requestHash: string | undefined): object {
  return requestHash === undefined ? answer : { ...answer, request_hash: requestHash };
}

/** A refusal is not recorded: the same command may be accepted later (a report to a run in quarantine, after its release). */
export function isRefusal({ type }: Answer): boolean {
  return type === "refused" || type === "unfit" || type === "closed";
}

/** A decision that leaves the run as it is. */
export interface Unchanged {
  readonly context: RunContext;
  readonly revision: Revision;
  readonly fence?: string;
  /** The due time of the stored wake row, as in LoadedRun. */
  readonly wake?: number | null;
  readonly delivery: Delivery;
  readonly answer: Answer;
  readonly effects: readonly Effect[];
}

/** The commit of a refusal or a no-op: it confirms the revision that the decision was based on (law 3). */
export function confirmation(unchanged: Unchanged, now: number): RunCommit {
  const { context, revision, fence, wake, delivery, answer, effects } = unchanged;
  const { id, keep, inboxId, command, requestHash } = delivery;
  const runId = context.run.id;
  const isRecorded = id !== undefined && !isRefusal(answer) && !namesItsDispatch(delivery);
  const rows = {
    ...owedRows(context.run, effects, now),
    confirm: [{ id: runId, expected: revision, expected_fence: fence }],
    ...(command.type === "advance" && wakeRows(runId, wakeChange(context, now, wake))),
    command: isRecorded
      ? [{ run_id: runId, command_id: id, answer: recorded(answer, requestHash), keep, at: now }]
      : [],
    inbox_gone: inboxId === undefined ? [] : [{ run_id: runId, id: inboxId }],
  };
  return { runId, rows };
}
