// The context of a run's actor. A decision reads only this and the facts; a transition changes it by a patch. record.ts turns it
// into columns and back; members that the record holds are a durable format.

import type { Json, JsonObject } from "../values/json.js";
import type { ActionCall } from "./call.js";
import type { StepEntry, StepError } from "./entry.js";
import type { Frame, Unprotected } from "./frame.js";
import type { Group } from "./group.js";
import type { Hold } from "./hold.js";
import type { RunIdentity } from "./identity.js";
import { isTerminal, type PausedReason, type RunState } from "./lifecycle.js";
import type { QuarantineProof } from "./proof.js";
import type { Ending, Unwinding } from "./rollback.js";
import { RUN_SLOT, type Slot, type SlotVerdict } from "./slot.js";
import { isAnswered, type Turn, turnOf } from "./turn.js";
import { type Wait, waitDue } from "./wait.js";

export interface RunContext {
  readonly run: RunIdentity;
  readonly state: RunState;
  readonly variables: JsonObject;
  /** The size of the variables in characters of JSON. */
  readonly variablesSize: number;
  /** `current_step`: the step that the token is in or about to enter. In a rollback, the step being undone. */
  readonly step?: string;
  /** The number of step entries so far. */
  readonly entries: number;
  /** The step entry in progress. Absent: the step has not been entered yet. */
  readonly entry?: StepEntry;
  readonly wait?: Wait;
  /** The blocks that the token is in, outermost first. */
  readonly frames: readonly Frame[];
  /** The groups with children that have not ended, by the number of the step entry that created them. */
  readonly groups: Readonly<Record<string, Group>>;
  /** The items of the current foreach, as evaluated at its entry. */
  readonly items?: readonly Json[];
  readonly call?: ActionCall;
  /**
   * Dispatches so far by step, over all its entries and undos; `attempt` counts on from here. `<step>/saga` counts its child
   * runs.
   */
  readonly attempts: Readonly<Record<string, number>>;
  /** Recorded signals that this run has not consumed. An upper bound: branches may have consumed some of them. */
  readonly unconsumedSignals: number;
  /** The number of undos that the run owes if it rolls back. */
  readonly owed: number;
  readonly unprotected: Unprotected;
  /** Names of recorded signals that a branch may wait for. After the commit the run looks for such branches (law 9). */
  readonly looking?: readonly string[];
  readonly unwinding?: Unwinding;
  /** The error that a catch of this run received last. An `error` step without a code raises it again. */
  readonly caught?: StepError;
  readonly ending?: Ending;
  /** The last step is done and the output is known. Branches that were left running are awaited. */
  readonly finishing?: boolean;
  /** The ordinal of the undo list entry being undone. */
  readonly undoing?: string;
  readonly requiresManualReview: boolean;
  readonly quarantined: boolean;
  /** What the run was quarantined on. */
  readonly proof?: QuarantineProof;
  /** An operator has paused the run: it takes no new step, undo or child. */
  readonly held?: Hold;
  /** The slot of its workflow's `concurrency` that the run waits for or holds, until it ends. */
  readonly slot?: Slot;
  /** The turn under its workflow's `rate_limit` in which the run begins. */
  readonly turn?: Turn;
  /** How often it has gone on after a long wait (isLongWait). Absent: never. Each time a new trace begins. */
  readonly resumptions?: number;
  readonly output?: Json;
}

/** The changes that a transition makes to the context. */
export type Patch = { readonly [K in Exclude<keyof RunContext, "run">]?: RunContext[K] | undefined };

export function patched(context: RunContext, patch: Patch): RunContext {
  return { ...context, ...(patch as Partial<RunContext>) };
}

/** Whether the run stands still until an operator releases or resumes it. */
export function isHalted({ quarantined, held }: RunContext): boolean {
  return quarantined || held !== undefined;
}

/**
 * Whether the run is at the paused twin of its step: it waits for anything but a worker, and is not leaving a try or ending. Any step may
 * come to an incident, or be halted, so these are no places in the chart.
 */
export function isPausing({ wait, unwinding, finishing }: RunContext): boolean {
  if (!wait || unwinding || finishing) return false;
  return wait.kind !== "queued" && wait.kind !== "dispatched" && wait.kind !== "incident";
}

/** Whether a wait may last for days, because it is for neither a worker nor the next attempt. */
export function isLongWait(wait: Wait): boolean {
  const { kind } = wait;
  if (kind === "rate_limit") return wait.dueAt !== undefined;
  return kind !== "queued" && kind !== "dispatched" && kind !== "backoff";
}

/** Whether the run can step on at once: a step to enter, an undo to start, children to create, signals or events to look for. */
export function isReady(context: RunContext): boolean {
  const { state, wait, looking, slot, turn } = context;
  if (isHalted(context) || isTerminal(state)) return false;
  // A run whose slot or turn came before its first step: it begins now, or waits for its time.
  if (state === "pending") return slot?.verdict !== undefined || (turn !== undefined && isAnswered(turn));
  if (looking) return true;
  if (!wait) return true;
  if (wait.kind === "children") return wait.more === true;
  if (wait.kind === "concurrency") return slotVerdict(context, wait.entry) !== undefined;
  if (wait.kind === "rate_limit") return wait.dueAt === undefined && isTurnAnswered(context, wait.entry);
  return (wait.kind === "signal" || wait.kind === "event") && wait.look === true;
}

/** What became of the slot that the run, or its step entry, has asked for. Undefined: it is still awaited. */
function slotVerdict({ slot, entry }: RunContext, number: number): SlotVerdict | undefined {
  if (number === RUN_SLOT) return slot?.verdict;
  return entry?.number === number ? entry.slot?.verdict : undefined;
}

function isTurnAnswered(context: RunContext, number: number): boolean {
  const turn = turnOf(context, number);
  return turn !== undefined && isAnswered(turn);
}

/** The number of children that have not ended, of step entries from `entry` on. */
export function livingChildren({ groups }: RunContext, entry = 0): number {
  let running = 0;
  for (const [number, group] of Object.entries(groups)) if (Number(number) >= entry) running += group.running;
  return running;
}

/** A rollback that stands at an incident stays `compensating`, and has the reason nevertheless. */
export function pausedReason(context: RunContext): PausedReason | undefined {
  const { state, wait } = context;
  if (state === "compensating" && wait?.kind === "incident") return "incident";
  if (state !== "paused") return undefined;
  if (context.quarantined) return "quarantine";
  if (context.held) return "operator";
  switch (wait?.kind) {
    case "incident":
      return "incident";
    case "concurrency":
      return "concurrency";
    case "rate_limit":
      return "rate_limit";
    case "signal":
      return "signal";
    case "event":
      return "event";
    case "user_task":
      return "user_task";
    case "timer":
      return "timer";
    case "backoff":
      return "retry";
    case "children":
      return "children";
    default:
      return undefined;
  }
}

/**
 * The due time of the run's wake row. `soon`: the run is stepping, and another node must go on with it if this one dies.
 * Undefined: no time moves the run.
 */
export function wakeAt(context: RunContext): number | "soon" | undefined {
  const { state, run, wait, ending } = context;
  if (isTerminal(state) || isHalted(context)) return undefined;
  if (isReady(context)) return "soon";
  const due = state === "pending" ? (run.delayedUntil ?? "soon") : waitDue(wait);
  if (due === "soon") return due;
  return firstOf(due, ending ? undefined : run.expiresAt, nextTryTimeout(context));
}

/** When the wait ends without what it waits for: by a timeout of its own, of a try around it, or of the run. */
export function waitEndsAt(context: RunContext): number | undefined {
  const { wait, ending, run } = context;
  const due = wait && "dueAt" in wait ? wait.dueAt : undefined;
  return firstOf(due, ending ? undefined : run.expiresAt, nextTryTimeout(context));
}

function firstOf(...times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((time) => time !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}

/** The first timeout of the tries around the token. While a try is being left, the timeouts around it have to wait. */
export function nextTryTimeout({ frames, ending, unwinding }: RunContext): number | undefined {
  if (ending || unwinding) return undefined;
  let next: number | undefined;
  for (const frame of frames) {
    if (frame.kind === "try" && frame.dueAt !== undefined) next = Math.min(next ?? frame.dueAt, frame.dueAt);
  }
  return next;
}
