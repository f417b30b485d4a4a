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
}

export interface StepError {
  readonly code: string;
  readonly message: string;
  readonly step_id?: string;
  readonly details?: Json;
}

/** One entry into a step. `at` is the `now` its expressions see. */
export interface StepEntry {
  /** Counts the run's step entries from 1. */
  readonly number: number;
  readonly at: number;
  /** An attempt of this entry got no answer, or one of unknown outcome: its effect may exist and must be undone. */
  readonly mayHaveHappened?: boolean;
}

/** An action as it was called, evaluated once per entry; the same for every attempt. */
export interface ActionCall {
  readonly phase: "forward" | "compensation";
  readonly stepId: string;
  readonly service: string;
  readonly action: string;
  readonly version: number;
  readonly transport: "grpc" | "http" | "rmq";
  readonly address?: string;
  readonly inputs: JsonObject;
  readonly idempotencyKey: string;
  /** In an undo: the key of what is to be undone. */
  readonly forwardIdempotencyKey?: string;
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
  | { readonly kind: "signal"; readonly name: string; readonly dueAt?: number };

/** An entry of the undo list. `ordinal` is given by the database, in the order of completion; absent until then. */
export interface UndoEntry {
  readonly ordinal?: string;
  readonly stepId: string;
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
  readonly call?: ActionCall;
  /** Dispatches so far by step, over all its entries and undos: `attempt` counts on from here. */
  readonly attempts: Readonly<Record<string, number>>;
  /** Signals recorded for this run that no wait has taken yet. */
  readonly unconsumedSignals: number;
  /** Compensations the run still owes if it rolls back. */
  readonly owed: number;
  /** Steps that completed without a compensation; true where the registration says that they are compensable. */
  readonly unprotected: Readonly<Record<string, boolean>>;
  readonly ending?: Ending;
  /** The ordinal of the undo list's entry being undone. */
  readonly undoing?: string;
  readonly requiresManualReview: boolean;
  readonly quarantined: boolean;
  readonly output?: Json;
}

/** What a transition changes in the context. */
export type Patch = { readonly [K in Exclude<keyof RunContext, "run">]?: RunContext[K] | undefined };

/** Whether the run is `paused` while it waits for this: for anything but a worker. */
export function isPausing(wait: Wait | undefined): boolean {
  return wait !== undefined && wait.kind !== "queued" && wait.kind !== "dispatched";
}

/** Whether the token can move on with nothing more to learn: a step to enter, or the next undo. */
export function isReady(context: RunContext): boolean {
  return !context.wait && !context.quarantined && (context.state === "running" || context.state === "compensating");
}

export function pausedReason(context: RunContext): PausedReason | undefined {
  if (context.state !== "paused") return undefined;
  if (context.quarantined) return "quarantine";
  switch (context.wait?.kind) {
    case "signal":
      return "signal";
    case "timer":
      return "timer";
    case "backoff":
      return "retry";
    default:
      return undefined;
  }
}

/**
 * When the run must be looked at even if nobody asks: the due time of its wake row. `soon`: it is stepping, and must be
 * taken up again should its node die. Undefined: only the outside can move it, or nothing can.
 */
export function wakeAt(context: RunContext): number | "soon" | undefined {
  const { state, run, wait, ending } = context;
  if (isTerminal(state) || context.quarantined) return undefined;
  const due = state === "pending" ? (run.delayedUntil ?? "soon") : waitDue(wait);
  const expires = ending ? undefined : run.expiresAt;
  if (due === "soon" || expires === undefined) return due;
  return due === undefined ? expires : Math.min(due, expires);
}

function waitDue(wait: Wait | undefined): number | "soon" | undefined {
  if (!wait) return "soon";
  if (wait.kind === "dispatched") return Math.min(wait.deadlineAt, wait.heartbeatAt ?? wait.deadlineAt);
  return wait.dueAt;
}
