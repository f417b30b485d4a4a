// A batch: the transitions that one run has taken since its last commit, as the rows they become. Nothing of it is seen by
// anyone before the commit has won.
import {
  type Answer,
  type Effect,
  encodeRecord,
  isTerminal,
  pausedReason,
  type RunContext,
  type Transition,
  wakeAt,
} from "../../machines/index.js";
import { shardOf } from "../ids.js";
import type { EventRow, InboxRow, RunCommit, RunRow, SignalRow, UndoRow } from "../store/commit-rows.js";
import type { CommittedEvent } from "./ports.js";

/** A run that is stepping has a wake row this far ahead: it is only looked at if its node died. */
export const STEPPING_GRACE_MS = 2_000;
/** Until then the node that committed an effect has it in hand. */
const CARRIED_MS = 10_000;
/** A command to another run is delivered at once from memory; the poll takes what was lost. */
const DELIVERED_MS = 1_000;

export class Batch {
  readonly events: CommittedEvent[] = [];
  readonly effects: Effect[] = [];
  private readonly variables = new Set<string>();
  private callChanged = false;
  /** Dispatches that credit was taken for on the way: given back if the commit is lost. */
  readonly reserved: string[] = [];
  transitions = 0;

  constructor(
    private lastSeq: number,
    private lastEventAt: number,
  ) {}

  take(runId: string, { patch, stored, audit, effects }: Transition): void {
    this.transitions++;
    for (const event of audit) {
      this.events.push({ ...event, runId, seq: ++this.lastSeq });
      this.lastEventAt = event.at;
    }
    this.effects.push(...effects);
    for (const name of stored) this.variables.add(name);
    if ("call" in patch) this.callChanged = true;
  }

  get seq(): number {
    return this.lastSeq;
  }

  /** The commit of these transitions on a run at `revision`. */
  commit(
    context: RunContext,
    revision: number,
    now: number,
    command?: { id: string; answer: Answer; keep: boolean },
  ): RunCommit {
    return {
      runId: context.run.id,
      shard: shardOf(context.run.id),
      expected: revision,
      update: this.row(context),
      events: this.events.map(eventRow),
      variables: this.changedVariables(context),
      wake: wakeTime(context, now),
      ...(command && { command: { ...command, answer: JSON.stringify(command.answer), at: now } }),
      ...owedRows(this.effects, now),
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
      awaitedSignal: context.wait?.kind === "signal" ? context.wait.name : undefined,
      pausedReason: pausedReason(context),
      record: JSON.stringify(encodeRecord(context)),
      call: this.callChanged ? (context.call ? JSON.stringify(context.call) : null) : undefined,
      output: context.output === undefined ? undefined : JSON.stringify(context.output),
    };
  }

  private changedVariables({ variables }: RunContext): ReadonlyMap<string, string | undefined> {
    const text = (name: string) => (Object.hasOwn(variables, name) ? JSON.stringify(variables[name]) : undefined);
    return new Map([...this.variables].map((name) => [name, text(name)]));
  }
}

/** The due time of the run's wake row, null for none. */
export function wakeTime(context: RunContext, now: number): number | null {
  const wake = wakeAt(context);
  return wake === "soon" ? now + STEPPING_GRACE_MS : (wake ?? null);
}

function eventRow(event: CommittedEvent): EventRow {
  const { seq, at, type, stepId, attempt, from, to, actor, metadata } = event;
  return { seq, at, type, stepId, attempt, from, to, actor, metadata: metadata && JSON.stringify(metadata) };
}

/** Effects inside the database ride in the commit. What is owed and settled in the same batch never becomes a row. */
export function owedRows(effects: readonly Effect[], now: number): Partial<RunCommit> {
  const outbox = new Map<string, { id: string; kind: string; dueAt: number }>();
  const settledOutbox: string[] = [];
  const signals: SignalRow[] = [];
  const consumed: { id: string; at: number }[] = [];
  const inbox: InboxRow[] = [];
  const undoOwed: UndoRow[] = [];
  const undoSettled: { ordinal: string; state: string }[] = [];
  let undoPassed = false;
  for (const effect of effects) {
    switch (effect.kind) {
      case "dispatch.request":
        outbox.set(effect.dispatchId, { id: effect.dispatchId, kind: "action", dueAt: now + CARRIED_MS });
        break;
      case "dispatch.resolved":
        if (!outbox.delete(effect.dispatchId)) settledOutbox.push(effect.dispatchId);
        break;
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
      case "undo.owed": {
        const { stepId, entry, action, inputs, forwardIdempotencyKey, childRunId } = effect.entry;
        const text = inputs && JSON.stringify(inputs);
        undoOwed.push({ stepId, entry, action, inputs: text, forwardKey: forwardIdempotencyKey, childRunId });
        break;
      }
      case "undo.settled":
        undoSettled.push({ ordinal: effect.ordinal, state: effect.state });
        break;
      case "undo.passed":
        undoPassed = true;
        break;
      case "dispatch.send":
      case "dispatch.cancel":
        break;
    }
  }
  return { outbox: [...outbox.values()], settledOutbox, signals, consumed, inbox, undoOwed, undoSettled, undoPassed };
}
