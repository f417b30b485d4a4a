// A batch: the transitions that one run has taken since its last commit, as the rows they become. Nothing of it is seen by
// anyone before the commit has won.
import {
  type Answer,
  awaitedSignal,
  type Effect,
  encodeRecord,
  isTerminal,
  pausedReason,
  type RunContext,
  type Transition,
} from "../../machines/index.js";
import { shardOf } from "../ids.js";
import type {
  ChildCommit,
  ClosedTaskRow,
  InboxRow,
  PublishedRow,
  RunCommit,
  RunRow,
  ScopeRow,
  SignalRow,
  TaskRow,
  UndoRow,
} from "../store/commit-rows.js";
import { childCommit, eventRow, wakeTime } from "./birth.js";
import type { CommittedEvent } from "./ports.js";
import type { Delivery } from "./resident.js";

/** Until then the node that committed an effect has it in hand. */
const CARRIED_MS = 10_000;
/** A command to another run is delivered at once from memory; the poll takes what was lost. */
const DELIVERED_MS = 1_000;

export class Batch {
  readonly events: CommittedEvent[] = [];
  readonly effects: Effect[] = [];
  private readonly variables = new Set<string>();
  /** Of the columns that are written only when they change. */
  private readonly changed = new Set<"call" | "frames" | "items">();
  /** Dispatches that credit was taken for on the way: given back if the commit is lost. */
  readonly reserved: string[] = [];
  transitions = 0;
  private readonly answered: { id: string; answer: string; keep: boolean }[] = [];
  private readonly takenInbox: string[] = [];

  constructor(
    private lastSeq: number,
    private lastEventAt: number,
  ) {}

  take(runId: string, { patch, stored, audit, effects }: Transition): void {
    this.transitions++;
    // Member by member: they are many, read often, and all of one shape like this.
    for (const { at, type, stepId, attempt, from, to, actor, metadata } of audit) {
      this.events.push({ runId, seq: ++this.lastSeq, at, type, stepId, attempt, from, to, actor, metadata });
      this.lastEventAt = at;
    }
    this.effects.push(...effects);
    for (const name of stored) this.variables.add(name);
    for (const column of ["call", "frames", "items"] as const) if (column in patch) this.changed.add(column);
  }

  /** The command's outcome is part of this commit: its id and answer are recorded, its inbox row goes. */
  answer({ id, keep, inboxId }: Pick<Delivery, "id" | "keep" | "inboxId">, answer: Answer): void {
    if (id !== undefined) this.answered.push({ id, answer: JSON.stringify(answer), keep });
    if (inboxId !== undefined) this.takenInbox.push(inboxId);
  }

  /** Whether its outcome is part of this commit already: it came twice, from memory and from the poll. */
  answers({ id }: Pick<Delivery, "id">): boolean {
    return this.answered.some((command) => command.id === id);
  }

  get seq(): number {
    return this.lastSeq;
  }

  /** The commit of these transitions on a run at `revision`. */
  commit(context: RunContext, revision: number, now: number): RunCommit {
    return {
      runId: context.run.id,
      shard: shardOf(context.run.id),
      expected: revision,
      update: this.row(context),
      events: this.events.map(eventRow),
      variables: this.changedVariables(context),
      wake: wakeTime(context, now),
      commands: this.answered.map((command) => ({ ...command, at: now })),
      takenInbox: this.takenInbox,
      ...owedRows(context.run.id, this.effects, now),
    };
  }

  private row(context: RunContext): RunRow {
    return {
      state: context.state,
      step: context.step,
      lastSeq: this.lastSeq,
      lastEventAt: this.lastEventAt,
      terminalAt: isTerminal(context.state) ? this.lastEventAt : undefined,
      review: context.requiresManualReview,
      awaitedSignal: awaitedSignal(context.wait),
      pausedReason: pausedReason(context),
      record: JSON.stringify(encodeRecord(context)),
      call: this.column("call", context.call),
      frames: this.column("frames", context.frames.length > 0 ? context.frames : undefined),
      items: this.column("items", context.items),
      output: context.output === undefined ? undefined : JSON.stringify(context.output),
    };
  }

  private column(name: "call" | "frames" | "items", value: unknown): string | null | undefined {
    if (!this.changed.has(name)) return undefined;
    return value === undefined ? null : JSON.stringify(value);
  }

  private changedVariables({ variables }: RunContext): ReadonlyMap<string, string | undefined> {
    const text = (name: string) => (Object.hasOwn(variables, name) ? JSON.stringify(variables[name]) : undefined);
    return new Map([...this.variables].map((name) => [name, text(name)]));
  }
}

/** Effects inside the database ride in the commit. What is owed and settled in the same batch never becomes a row. */
export function owedRows(runId: string, effects: readonly Effect[], now: number): Partial<RunCommit> {
  const outbox = new Map<string, { id: string; kind: string; payload?: string; dueAt: number }>();
  const settledOutbox: string[] = [];
  const signals: SignalRow[] = [];
  const consumed: { id: string; at: number }[] = [];
  const inbox: InboxRow[] = [];
  const eventsPublished: PublishedRow[] = [];
  const eventsTaken: string[] = [];
  let eventWait: RunCommit["eventWait"];
  const tasksOpened: TaskRow[] = [];
  const tasksClosed: ClosedTaskRow[] = [];
  let undoOwed: readonly UndoRow[] = [];
  const undoSettled: { ordinal: string; state: string }[] = [];
  const scopes: ScopeRow[] = [];
  const children: ChildCommit[] = [];
  let undoPassed: RunCommit["undoPassed"];
  let undoHanded: RunCommit["undoHanded"];
  for (const effect of effects) {
    switch (effect.kind) {
      case "dispatch.request":
        outbox.set(effect.dispatchId, { id: effect.dispatchId, kind: "action", dueAt: now + CARRIED_MS });
        break;
      case "dispatch.resolved":
        if (!outbox.delete(effect.dispatchId)) settledOutbox.push(effect.dispatchId);
        break;
      case "post": {
        const { id, to: kind, payload } = effect;
        outbox.set(id, { id, kind, payload: JSON.stringify(payload), dueAt: now + CARRIED_MS });
        break;
      }
      case "signal.recorded":
        signals.push({ ...effect, payload: JSON.stringify(effect.payload), at: now });
        break;
      case "signal.consumed":
        consumed.push({ id: effect.id, at: now });
        break;
      case "send": {
        const { id, to, command } = effect;
        inbox.push({ id, to, shard: shardOf(to), command: JSON.stringify(command), dueAt: now + DELIVERED_MS });
        break;
      }
      case "event.published": {
        const { headers, payload, ...event } = effect.event;
        eventsPublished.push({ ...event, headers: JSON.stringify(headers), payload: JSON.stringify(payload) });
        break;
      }
      case "event.taken":
        eventsTaken.push(effect.id);
        break;
      case "event.awaited":
        eventWait = { topic: effect.topic, headers: JSON.stringify(effect.headers) };
        break;
      case "event.unawaited":
        eventWait = null;
        break;
      case "task.opened": {
        const { formSchema, ...task } = effect.task;
        tasksOpened.push({ ...task, at: now, formSchema: formSchema && JSON.stringify(formSchema) });
        break;
      }
      case "task.submitted":
        tasksClosed.push({ ...effect, result: JSON.stringify(effect.result) });
        break;
      case "task.closed":
        tasksClosed.push({ id: effect.id, at: now });
        break;
      case "undo.owed": {
        const { stepId, entry, action, inputs, forwardIdempotencyKey, childRunId } = effect.entry;
        const text = inputs && JSON.stringify(inputs);
        const row = { stepId, entry, action, inputs: text, forwardKey: forwardIdempotencyKey, childRunId };
        undoOwed = [...undoOwed, row];
        break;
      }
      case "undo.settled":
        undoSettled.push({ ordinal: effect.ordinal, state: effect.state });
        break;
      case "undo.passed":
        // The statement does not see the rows that it inserts itself: those change before they are written.
        undoOwed = undoOwed.map((row) =>
          row.action === undefined && row.entry > (effect.since ?? 0) ? { ...row, state: "passed" } : row,
        );
        // A later rollback in the same batch passes no fewer of the rows that are stored already.
        undoPassed = { since: Math.min(effect.since ?? 0, undoPassed?.since ?? Number.MAX_SAFE_INTEGER), every: false };
        break;
      case "undo.dropped":
        undoOwed = undoOwed.map((row) => ({ ...row, state: "passed" }));
        undoPassed = { since: 0, every: true };
        break;
      case "undo.handed": {
        const { to: owner, entry } = effect;
        undoOwed = undoOwed.map((row) =>
          row.state ? row : { ...row, owner, entry, childRunId: row.childRunId ?? runId },
        );
        undoHanded = { to: owner, entry };
        break;
      }
      case "scope.kept": {
        const { entry, inputs, variables } = effect;
        scopes.push({ entry, inputs: JSON.stringify(inputs), variables: JSON.stringify(variables) });
        break;
      }
      case "child.start":
        children.push(childCommit(effect.child));
        break;
      case "dispatch.send":
      case "dispatch.cancel":
        break;
    }
  }
  const undo = { undoOwed, undoSettled, undoPassed, undoHanded };
  const owed = { outbox: [...outbox.values()], settledOutbox, signals, consumed, inbox, tasksOpened, tasksClosed };
  return { ...owed, ...undo, eventsPublished, eventsTaken, eventWait, scopes, children };
}
