// The outlet port: one way of pushing a dispatch to whoever carries it out. The carrier of outlets (carrier.ts) has what they share: slots,
// the wait for a destination, the retries of a hand-over, and the report to the run.
import type { ActionCall, Dispatch, EngineErrorCode, JsonObject, StepErrorCode } from "../../../machines/index.js";
import type { Pool } from "../fair-queue.js";
import type { Holder } from "../request-slots.js";
import type { AwayDestination, NotReached } from "./destinations.js";

export interface Failure {
  readonly code: StepErrorCode;
  readonly message: string;
  readonly retryable: boolean;
  readonly outcomeUnknown: boolean;
  readonly retryAfterMs?: number;
}

export type Outcome = { readonly result: JsonObject } | Failure;

/** What came of one try to hand a dispatch over. */
export type Delivery =
  /**
   * It was carried out, or never will be. `by`: the worker that says so. It knows of earlier tries; without it, one of them may have had
   * an effect. `arrivedAt`: when the answer reached the service, in database time; absent: now. What is computed between does not make it late.
   */
  | { readonly kind: "answered"; readonly outcome: Outcome; readonly by?: string; readonly arrivedAt?: number }
  /** The worker has it, and reports by itself. */
  | { readonly kind: "accepted" }
  /** Nothing of it has arrived. `afterMs`: the destination wants no further try before. */
  | (NotReached & { readonly kind: "undelivered"; readonly afterMs?: number })
  /** It may have arrived. */
  | (NotReached & { readonly kind: "lost" });

/** Calls of one destination share its slots, and wait together while it is away. */
export interface Destination {
  readonly key: string;
  /** The pools of all destinations of an outlet are one group. */
  readonly pool: Pool;
  readonly holder: Holder;
}

/** The reason of the abort that cuts a try off. */
export type CutOffReason = "cancelled" | "timeout";

export interface Outlet {
  /** False: nothing can be sent now. It calls `opened` when that ends. */
  readonly isOpen: boolean;
  /**
   * The service itself does the work: a cancel cuts it off, and there is no worker. A worker's try is awaited, because its outcome says
   * what happened.
   */
  readonly ownWork: boolean;
  /** Why it is not open. */
  readonly away?: AwayDestination | undefined;
  /** What all slots of a destination being taken means, for people. */
  readonly busy: string;
  start(opened: () => void): void;
  destinationOf(call: ActionCall): Destination;
  /** One try. The abort of `signal` ends it, with a CutOffReason. */
  deliver(dispatch: Dispatch, signal: AbortSignal): Promise<Delivery>;
  stop(): Promise<void>;
}

export function failed(code: EngineErrorCode, message: string, about: Partial<Failure> = {}): Delivery {
  return { kind: "answered", outcome: { code, message, retryable: false, outcomeUnknown: false, ...about } };
}
