// What an active run knows: the context of its actor. Everything a transition may read stands here or in the facts;
// everything it may change stands in the patch. Not what is stored: record.ts turns a context into rows' columns and back.
import type { Json, JsonObject } from "./json.js";
import { isTerminal, type PausedReason, type RunState, type TerminalState } from "./lifecycle.js";
import type { RetryPolicy } from "./retry.js";

/** Fixed when the run is created; never written again. */
export interface RunIdentity {
  readonly id: string;
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
  readonly dryRun: boolean;
  readonly features: Readonly<Record<string, boolean>>;
  readonly inputs: JsonObject;
  /** The name of the entrypoint; empty for `start`. */
  readonly entrypoint: string;
  /** Epoch milliseconds, database time, as all times here. */
  readonly startedAt: number;
  /** Not advanced before this time (`delay_ms`). */
  readonly delayedUntil?: number;
  /** When the run as a whole times out and rolls back. */
  readonly expiresAt?: number;
  /** Runs above this one, through branches, items and sub-sagas; absent: none. */
  readonly depth?: number;
  /** The parent's step entry that made this run: its branch, item or sub-saga. */
  readonly parentEntry?: number;
  /** A branch or an item: its ancestors up to the run it is a part of, nearest first. Absent: a run of its own. */
  readonly family?: readonly string[];
  /** A branch or an item begins here instead of at an entrypoint. */
  readonly startStep?: string;
  /** Names that its blocks around it give to expressions: `item`, `index`, `iteration`, `error`. */
  readonly locals?: JsonObject;
  /** Its parent's step has a compensation that stands in for its undo list: nothing is handed over. */
  readonly keepsUndo?: boolean;
}

export interface StepError {
  readonly code: string;
  readonly message: string;
  readonly step_id?: string;
  readonly details?: Json;
  /** The child's own error, where a sub-saga failed. */
  readonly cause?: Json;
}

/** One entry into a step. `at` is the `now` its expressions see. */
export interface StepEntry {
  /** Counts the run's step entries from 1. */
  readonly number: number;
  readonly at: number;
  /** An attempt of this entry got no answer, or one of unknown outcome: its effect may exist and must be undone. */
  readonly mayHaveHappened?: boolean;
}

/** A request that the service itself makes (`http_request`). It names its secret and never holds it. */
export interface HttpRequest {
  readonly method: string;
  /** With its query. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Text is sent as it is, any other value as JSON. */
  readonly body?: Json;
  /** Statuses, and classes of them such as `2xx`, that are a success. */
  readonly expectedStatus: readonly (number | string)[];
  readonly followRedirects: boolean;
  readonly secretRef?: string;
}

/**
 * An action as it was called, evaluated once per entry; the same for every attempt. A request has no registration: its service
 * is `http_request`, its action the host that it goes to, its version 0, which no registration has.
 */
export interface ActionCall {
  readonly phase: "forward" | "compensation";
  readonly stepId: string;
  readonly service: string;
  readonly action: string;
  readonly version: number;
  readonly transport: "grpc" | "http" | "rmq" | "request";
  /** With the transport `request`, and only there. */
  readonly request?: HttpRequest;
  readonly address?: string;
  readonly inputs: JsonObject;
  readonly idempotencyKey: string;
  /** In an undo: the key of what is to be undone. */
  readonly forwardIdempotencyKey?: string;
  /** In an undo: the child that the step belonged to, where it was handed over. */
  readonly childRunId?: string;
  readonly timeoutMs: number;
  readonly heartbeatTimeoutMs?: number;
  readonly queueTimeoutMs?: number;
  readonly retry: RetryPolicy;
}

/** What the run's one token waits for. Absent: the step is about to be entered. */
export type Wait =
  | {
      readonly kind: "queued";
      readonly dispatchId: string;
      readonly attempt: number;
      readonly nth: number;
      readonly dueAt?: number;
    }
  | {
      readonly kind: "dispatched";
      readonly dispatchId: string;
      readonly attempt: number;
      /** The number of this attempt within the entry, from 1: what `max_attempts` counts. */
      readonly nth: number;
      readonly workerId?: string;
      readonly at: number;
      readonly deadlineAt: number;
      readonly heartbeatAt?: number;
    }
  | { readonly kind: "backoff"; readonly nth: number; readonly dueAt: number }
  | { readonly kind: "timer"; readonly dueAt: number }
  | {
      readonly kind: "signal";
      readonly name: string;
      readonly dueAt?: number;
      /** A branch or an item looks once more, after its commit, at what its family has recorded (law 9). */
      readonly look?: true;
    }
  | {
      readonly kind: "event";
      readonly topic: string;
      /** All of them must be the event's. */
      readonly headers: Readonly<Record<string, string>>;
      /** Only events above this ordinal: those that came before the wait are not taken. Absent: since the run began. */
      readonly since?: string;
      /** Events up to this ordinal have been looked at: where a look goes on, and what decides which is the oldest. */
      readonly after?: string;
      readonly dueAt?: number;
      /** After its commit the run looks at what came before, page by page (law 9). */
      readonly look?: true;
    }
  | {
      readonly kind: "user_task";
      readonly taskId: string;
      readonly dueAt?: number;
      /** It was submitted while the run was in quarantine: its result is taken at the release. */
      readonly submitted?: { readonly by?: string };
    }
  /** Children run. `more`: the next of them are to be created at once. */
  | { readonly kind: "children"; readonly dueAt?: number; readonly more?: true };

/** A block of this run that the token is in, or a catch chain. Branches and items are runs of their own, not frames. */
export type Frame =
  | {
      readonly kind: "try";
      readonly step: string;
      readonly catchStep: string;
      readonly entry: StepEntry;
      readonly dueAt?: number;
      /** What completed inside is undone before the catch. */
      readonly rollback?: true;
      /** What the run owed, and left unprotected, when it entered. */
      readonly owed: number;
      readonly unprotected: RunContext["unprotected"];
    }
  | { readonly kind: "catch"; readonly step: string; readonly entry: StepEntry; readonly error: StepError }
  | {
      readonly kind: "while";
      readonly step: string;
      readonly entry: StepEntry;
      readonly iteration: number;
      /** Of the last rounds, as many as are kept. */
      readonly outputs: readonly Json[];
      /** As they were at its entry: the rounds it may have, and those whose outputs are kept. */
      readonly most: number;
      readonly keep: number;
    };

export type ChildState = "succeeded" | "failed" | "cancelled";

/** The children of one step entry. They are created in order, at most `window` of them running at once. */
export interface Group {
  readonly step: string;
  readonly kind: "branches" | "items" | "saga";
  readonly total: number;
  readonly window: number;
  readonly started: number;
  readonly running: number;
  readonly failed: number;
  /** Of branches: who ended, in the order of their ends. Items are too many for that. */
  readonly ended?: readonly (readonly [branch: string, state: ChildState])[];
  /** Of items: the last failure, and once stopped the one that went over the tolerance. Of a sub-saga: how it ended. */
  readonly verdict?: { readonly state: ChildState; readonly error?: StepError };
  /** Of a sub-saga: the child, and which attempt it is. */
  readonly child?: string;
  readonly nth?: number;
  /** Of a sub-saga: its version, taken at the step's entry, and whether its time ran out. */
  readonly version?: number;
  readonly timedOut?: boolean;
  /** Of a sub-saga that was told to end: what undoes it, should it have succeeded before it heard of that. */
  readonly undo?: UndoEntry;
  /** Of branches that do not all begin at once: the names that the blocks around them gave at the fork. */
  readonly locals?: JsonObject;
  /** It handed over what would have to be undone. */
  readonly handed?: boolean;
  /** Its children were told to stop: no more are created. */
  readonly stopped?: boolean;
  /** The run went on without them: what becomes of them is of no interest, but that they end. */
  readonly left?: boolean;
}

/** Why the run leaves a try: once all inside has ended, and is undone if that is asked for, its catch takes the error. */
export interface Unwinding {
  /** The try's step entry. */
  readonly entry: number;
  readonly error: StepError;
  /** Its time ran out: whatever still runs inside is cancelled. */
  readonly timedOut?: true;
}

/** An entry of the undo list. `ordinal` is given by the database, in the order of completion; absent until then. */
export interface UndoEntry {
  readonly ordinal?: string;
  readonly stepId: string;
  /** The owner's step entry that it belongs to: what a child handed over belongs to the entry that made the child. */
  readonly entry: number;
  /** "service.name@version", "service.name" where it could not be resolved yet; absent: there is nothing to call, it is passed. */
  readonly action?: string;
  readonly inputs?: JsonObject;
  readonly forwardIdempotencyKey: string;
  readonly childRunId?: string;
}

/** Why a run is on its way to an end other than success. The first cause stays. */
export interface Ending {
  readonly to: Exclude<TerminalState, "succeeded">;
  readonly error?: StepError;
  readonly reason: string;
  /** Nothing is undone. */
  readonly abandon?: true;
}

export interface RunContext {
  readonly run: RunIdentity;
  readonly state: RunState;
  readonly variables: JsonObject;
  /** The size of the variables as JSON text, in characters. */
  readonly variablesSize: number;
  /** `current_step`: the step the token is in or about to enter; in a rollback the step being undone. */
  readonly step?: string;
  /** Step entries so far, over the whole run. */
  readonly entries: number;
  /** The entry in progress; absent while the step is still to be entered. */
  readonly entry?: StepEntry;
  readonly wait?: Wait;
  /** The blocks the token is in, outermost first. */
  readonly frames: readonly Frame[];
  /** Children that have not all ended, by the number of the step entry that made them. */
  readonly groups: Readonly<Record<string, Group>>;
  /** The items of the foreach in progress, as they were at its entry. */
  readonly items?: readonly Json[];
  readonly call?: ActionCall;
  /** Dispatches so far by step, over all its entries and undos: `attempt` counts on from here. `<step>/saga`: its child runs. */
  readonly attempts: Readonly<Record<string, number>>;
  /** Signals recorded for this run that its own waits have not taken: not fewer than there are, but branches may take some. */
  readonly unconsumedSignals: number;
  /** Compensations the run still owes if it rolls back. */
  readonly owed: number;
  /** Steps that completed without a compensation; true where the registration says that they are compensable. */
  readonly unprotected: Readonly<Record<string, boolean>>;
  /** Names of recorded signals that a branch may be waiting for: looked for after the commit (law 9). */
  readonly looking?: readonly string[];
  readonly unwinding?: Unwinding;
  /** The error that a catch of this run took last: what `error` without a code raises again. */
  readonly caught?: StepError;
  readonly ending?: Ending;
  /** The last step is done and the output known; branches that were left running are awaited. */
  readonly finishing?: boolean;
  /** The ordinal of the undo list's entry being undone. */
  readonly undoing?: string;
  readonly requiresManualReview: boolean;
  readonly quarantined: boolean;
  readonly output?: Json;
}

/** What a transition changes in the context. */
export type Patch = { readonly [K in Exclude<keyof RunContext, "run">]?: RunContext[K] | undefined };

/** Whether the run is `paused` while it waits: for anything but a worker, and unless it is on its way out of a block. */
export function isPausing({ wait, unwinding, finishing }: RunContext): boolean {
  if (!wait || unwinding || finishing) return false;
  return wait.kind !== "queued" && wait.kind !== "dispatched";
}

/** The name of the signal that moves the run on from this wait, if one does. The name of a task's signal must never change. */
export function awaitedSignal(wait: Wait | undefined): string | undefined {
  if (wait?.kind === "signal") return wait.name;
  return wait?.kind === "user_task" ? `user_task.${wait.taskId}.submitted` : undefined;
}

/** Whether the run can move on with nothing more to learn: a step to enter, the next undo, children to create, a look to take. */
export function isReady({ state, quarantined, wait, looking }: RunContext): boolean {
  if (quarantined || state === "pending" || isTerminal(state)) return false;
  if (looking) return true;
  if (!wait) return true;
  if (wait.kind === "children") return wait.more === true;
  return (wait.kind === "signal" || wait.kind === "event") && wait.look === true;
}

/** Children that have not ended, of step entries from `entry` on. */
export function living({ groups }: RunContext, entry = 0): number {
  let running = 0;
  for (const [number, group] of Object.entries(groups)) if (Number(number) >= entry) running += group.running;
  return running;
}

export function pausedReason(context: RunContext): PausedReason | undefined {
  if (context.state !== "paused") return undefined;
  if (context.quarantined) return "quarantine";
  switch (context.wait?.kind) {
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
 * When the run must be looked at even if nobody asks: the due time of its wake row. `soon`: it is stepping, and must be
 * taken up again should its node die. Undefined: only the outside can move it, or nothing can.
 */
export function wakeAt(context: RunContext): number | "soon" | undefined {
  const { state, run, wait, ending, quarantined } = context;
  if (isTerminal(state) || quarantined) return undefined;
  if (isReady(context)) return "soon";
  const due = state === "pending" ? (run.delayedUntil ?? "soon") : waitDue(wait);
  if (due === "soon") return due;
  const times = [due, ending ? undefined : run.expiresAt, nextTryTimeout(context)];
  const known = times.filter((time) => time !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}

/** When the first of the tries around the token times out. While one is being left, those around it are looked at after that. */
export function nextTryTimeout({ frames, ending, unwinding }: RunContext): number | undefined {
  if (ending || unwinding) return undefined;
  let next: number | undefined;
  for (const frame of frames) {
    if (frame.kind === "try" && frame.dueAt !== undefined) next = Math.min(next ?? frame.dueAt, frame.dueAt);
  }
  return next;
}

function waitDue(wait: Wait | undefined): number | "soon" | undefined {
  if (!wait) return "soon";
  if (wait.kind === "dispatched") return Math.min(wait.deadlineAt, wait.heartbeatAt ?? wait.deadlineAt);
  return wait.dueAt;
}
