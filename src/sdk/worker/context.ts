// What an action's code gets besides its input, and what it may report while it runs.
import type { Log } from "./log.js";

export interface ActionContext {
  /** A UUID. */
  readonly runId: string;
  readonly stepId: string;
  /** Counts from 1, over all entries of the step and its undos. */
  readonly attempt: number;
  /** A UUID, unique per attempt. */
  readonly dispatchId: string;
  /** The same for every attempt of one step entry, and another for its undo. Pass it on to make the effect once. */
  readonly idempotencyKey: string;
  /** The idempotency key of the step that is to be undone; only in an undo. */
  readonly forwardIdempotencyKey?: string;
  /** `compensation`: this call undoes a step. */
  readonly phase: "forward" | "compensation";
  /** Nothing outside may be changed. Set only for actions with `dryRunSupported`. */
  readonly dryRun: boolean;
  readonly tenantId?: string;
  /** W3C trace context of the run, where it has one. */
  readonly traceparent?: string;
  /** On this machine's clock. An answer after it is too late. */
  readonly deadline: Date;
  /**
   * Aborted when the run is cancelled, at the deadline, or when the worker stops. Return or throw as usual then: the
   * service undoes what did happen.
   */
  readonly signal: AbortSignal;
  readonly log: Log;
  /** Reports that the action is still working. It is throttled, so call it as often as you like. */
  heartbeat(): void;
}
