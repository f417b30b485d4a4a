// Waits: what the token of a run waits for. They are stored as they are: a durable format.
import type { StepErrorCode } from "../values/error-code.js";
import type { DispatchId } from "../values/ids.js";
import { beginningOf, type Json } from "../values/json.js";
import type { ActionCall } from "./call.js";
import type { StepError } from "./entry.js";

export type Wait =
  | {
      readonly kind: "queued";
      readonly dispatchId: DispatchId;
      readonly attempt: number;
      readonly nth: number;
      readonly dueAt?: number;
      /** When it joined the queue. */
      readonly since: number;
      /** An outbox row owes the dispatch: see isOwedByRun. */
      readonly hasRow?: true;
    }
  | {
      readonly kind: "dispatched";
      readonly dispatchId: DispatchId;
      readonly attempt: number;
      /** The number of this attempt within its step entry, from 1, as `max_attempts` counts. */
      readonly nth: number;
      readonly workerId?: string;
      readonly at: number;
      /** How long it was queued before. Absent: a worker was free at once. */
      readonly queuedMs?: number;
      readonly deadlineAt: number;
      readonly heartbeatAt?: number;
      /** When the queue timeout of the call ends, which counts until the hand-over. */
      readonly queueDueAt?: number;
      /** It was carried once more, perhaps by another node: that it was not handed over is known to neither. */
      readonly carried?: true;
      readonly hasRow?: true;
    }
  | {
      readonly kind: "backoff";
      /** The attempt that failed. */
      readonly nth: number;
      readonly dueAt: number;
      /** When it failed, with what, and how many attempts there may be. */
      readonly since: number;
      readonly error: { readonly code: StepErrorCode; readonly message: string };
      readonly maxAttempts: number;
    }
  | { readonly kind: "timer"; readonly dueAt: number }
  | {
      readonly kind: "signal";
      readonly name: string;
      readonly dueAt?: number;
      /** After its commit a branch or an item looks for a signal that its family has recorded (law 9). */
      readonly look?: true;
    }
  | {
      readonly kind: "event";
      readonly topic: string;
      /** The event must have all of these. */
      readonly headers: Readonly<Record<string, string>>;
      /** The moment at which the wait began, in the store's own words: only later events match. Absent: all events since the run started. */
      readonly since?: string;
      /** The events up to this ordinal have been looked at. */
      readonly after?: string;
      readonly dueAt?: number;
      /** After its commit the run looks at earlier events, page by page (law 9). */
      readonly look?: true;
    }
  | {
      readonly kind: "user_task";
      readonly taskId: string;
      readonly dueAt?: number;
      /** The task was submitted while the run was in quarantine: the step takes the result at the release. */
      readonly submitted?: { readonly by?: string };
    }
  /** `more`: the next children are to be created at once. */
  | { readonly kind: "children"; readonly dueAt?: number; readonly more?: true }
  /** A slot of a key, for the whole run or for its step entry. */
  | {
      readonly kind: "concurrency";
      /** The step entry that waits; RUN_SLOT: the run, before its first step. */
      readonly entry: number;
      readonly scope: string;
      readonly key: string;
      readonly since: number;
    }
  /** A turn under a rate limit, for the whole run or for an attempt of its step. */
  | {
      readonly kind: "rate_limit";
      /** The step entry that waits; RUN_SLOT: the run, before its first step. */
      readonly entry: number;
      readonly scope: string;
      readonly key: string;
      readonly since: number;
      /** The number of the attempt within its step entry. */
      readonly nth?: number;
      /** Its turn. Absent: it is not known yet, or the run is ready to take it. */
      readonly dueAt?: number;
      /** When the queue timeout of a call that was queued before ends. */
      readonly queueDueAt?: number;
    }
  | Incident;

/** A step, or an undo, failed for good, and a person decides what follows. */
export interface Incident {
  readonly kind: "incident";
  readonly phase: "forward" | "compensation";
  readonly since: number;
  readonly error: StepError;
  /** The dispatches of the step so far. */
  readonly attempts: number;
  /** The output of a step that was done before the engine failed it: its undo sees it. */
  readonly done?: Json;
  /** The step cannot count as succeeded. */
  readonly alwaysFails?: true;
}

/**
 * Whether the run's own rows owe the dispatch: over gRPC the record says that it is queued or dispatched, and the wake row has the run looked at
 * (law 5). One that is answered soon, as most are, then needs no outbox row. The node that looks at the run and finds the dispatch still
 * unresolved has it carried, which gives it a row.
 */
export function isOwedByRun(
  wait: Extract<Wait, { dispatchId: DispatchId }>,
  { transport }: Pick<ActionCall, "transport">,
): boolean {
  return transport === "grpc" && !wait.hasRow;
}

/** Characters of an error's message that a backoff keeps. */
const KEPT_MESSAGE = 1_000;

export function backoff({ error, ...wait }: Required<Omit<Extract<Wait, { kind: "backoff" }>, "kind">>): Wait {
  const { code, message } = error;
  return { kind: "backoff", ...wait, error: { code, message: beginningOf(message, KEPT_MESSAGE) } };
}

/** The name of the signal that ends this wait, if a signal does. The names of task signals must never change. */
export function awaitedSignal(wait: Wait | undefined): string | undefined {
  if (wait?.kind === "signal") return wait.name;
  return wait?.kind === "user_task" ? `user_task.${wait.taskId}.submitted` : undefined;
}

/**
 * How long an answer that reached the service before its deadline has to reach its run: the owner is asked for 300 ms, then
 * the node that received the answer carries it out itself.
 */
export const ANSWER_TRANSIT_MS = 500;

/** When a dispatched attempt without an answer has timed out, or its heartbeat is lost. */
export function attemptDue({ deadlineAt, heartbeatAt }: Extract<Wait, { kind: "dispatched" }>): number {
  return heartbeatAt !== undefined && heartbeatAt < deadlineAt ? heartbeatAt : deadlineAt + ANSWER_TRANSIT_MS;
}

export function waitDue(wait: Wait | undefined): number | "soon" | undefined {
  if (!wait) return "soon";
  if (wait.kind === "dispatched") return attemptDue(wait);
  return wait.kind === "incident" || wait.kind === "concurrency" ? undefined : wait.dueAt;
}
