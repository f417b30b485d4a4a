// A batch: the transitions that one run has taken since its last commit, and the rows they become. Nothing of it leaves the
// process before its commit has won.

import {
  type Answer,
  awaitedSignal,
  type DispatchId,
  type Effect,
  isTerminal,
  type JsonObject,
  pausedReason,
  type RunContext,
  type RunId,
  type Transition,
  type VersionOf,
} from "../../machines/index.js";
import { shardOf } from "../ids.js";
import type { CommandRow, RunCommit, RunRow } from "../store/commit/rows.js";
import type { Revision } from "../store/revision.js";
import type { Delivery } from "./delivery.js";
import { newFence } from "./fence.js";
import type { LoadedRun } from "./loaded-run.js";
import { type OutgoingEvents, outgoingRows, type Publishable, publishableIn } from "./outgoing-events.js";
import { owedRows } from "./owed-rows.js";
import type { CommittedEvent } from "./ports.js";
import { eventRow, wakeChange } from "./run-rows.js";

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
  private readonly answers: Omit<CommandRow, "at">[] = [];
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
    else if (id !== undefined) this.answers.push({ id, answer: recordedText(answer, requestHash), keep });
    if (inboxId !== undefined) this.inboxGone.push(inboxId);
  }

  /** Whether the command is part of this commit already: it can arrive twice, from memory and from the poll. */
  hasAnswerOf({ id }: Pick<Delivery, "id">): boolean {
    return this.answers.some((command) => command.id === id);
  }

  get seq(): number {
    return this.lastSeq;
  }

  /** The commit of these transitions, on a run at that revision. */
  toCommit(
    { actor: { context }, revision, fence, wake }: Based,
    { now, recordOf }: { now: number; recordOf: (context: RunContext) => JsonObject },
  ): RunCommit {
    const owed = owedRows(context.run, this.effects, now, this.outgoing);
    // The spread comes first, because V8 copies a later one member by member.
    return {
      ...owed,
      runId: context.run.id,
      shard: shardOf(context.run.id),
      expected: revision,
      expectedFence: fence,
      update: this.runRow(context, recordOf(context)),
      events: this.events.map((event, nth) => eventRow(event, nth === 0 ? this.workersAnswer : undefined)),
      variables: this.variableRows(context),
      wake: wakeChange(context, now, wake),
      commands: this.answers.map((command) => ({ ...command, at: now })),
      inboxGone: this.inboxGone,
      outgoingEvents: this.outgoingEvents(context, owed.outgoingEvents),
    };
  }

  private outgoingEvents(
    { run }: RunContext,
    ofChildren: RunCommit["outgoingEvents"] = [],
  ): RunCommit["outgoingEvents"] {
    return this.outgoing && [...outgoingRows(run, this.publishable, this.outgoing), ...ofChildren];
  }

  private runRow(context: RunContext, record: JsonObject): RunRow {
    return {
      fence: this.fence,
      state: context.state,
      step: context.step,
      lastSeq: this.lastSeq,
      lastEventAt: this.lastEventAt,
      terminalAt: isTerminal(context.state) ? this.lastEventAt : undefined,
      review: context.requiresManualReview,
      awaitedSignal: awaitedSignal(context.wait),
      pausedReason: pausedReason(context),
      record: JSON.stringify(record),
      call: this.column("call", context.call),
      frames: this.column("frames", context.frames.length > 0 ? context.frames : undefined),
      items: this.column("items", context.items),
      output: context.output === undefined ? undefined : JSON.stringify(context.output),
      version: this.moved?.version,
      definitionId: this.moved?.definitionId,
    };
  }

  private column(name: RareColumn, value: unknown): string | null | undefined {
    if (!this.changedColumns.has(name)) return undefined;
    return value === undefined ? null : JSON.stringify(value);
  }

  private variableRows({ variables }: RunContext): ReadonlyMap<string, string | undefined> {
    const text = (name: string) => (Object.hasOwn(variables, name) ? JSON.stringify(variables[name]) : undefined);
    return new Map([...this.changedVariables].map((name) => [name, text(name)]));
  }
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
function recordedText(answer: Answer, requestHash: string | undefined): string {
  return JSON.stringify(requestHash === undefined ? answer : { ...answer, request_hash: requestHash });
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
  const recorded = id !== undefined && !isRefusal(answer) && !namesItsDispatch(delivery);
  return {
    runId,
    shard: shardOf(runId),
    expected: revision,
    expectedFence: fence,
    events: [],
    ...owedRows(context.run, effects, now),
    ...(command.type === "advance" && { wake: wakeChange(context, now, wake) }),
    ...(recorded && { commands: [{ id, answer: recordedText(answer, requestHash), keep, at: now }] }),
    inboxGone: inboxId === undefined ? [] : [inboxId],
  };
}
