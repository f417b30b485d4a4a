// What an action's code is told besides its input, and what it may say while it runs.
import type { Log } from "./log.js";

export interface ActionContext {
  readonly runId: string;
  readonly stepId: string;
  /** From 1, counted over all entries of the step and its undos. */
  readonly attempt: number;
  readonly dispatchId: string;
  /** The same for every attempt of one step entry: whoever is called with it twice makes the effect once. An undo has its own. */
  readonly idempotencyKey: string;
  /** In an undo: the key of what is to be undone. */
  readonly forwardIdempotencyKey?: string;
  readonly phase: "forward" | "compensation";
  readonly dryRun: boolean;
  readonly tenantId?: string;
  /** W3C trace context. */
  readonly traceparent?: string;
  /** On this machine's clock. */
  readonly deadline: Date;
  /** Aborted when the service asks to stop, at the deadline, or when the worker stops. Whatever did happen: answer. */
  readonly signal: AbortSignal;
  readonly log: Log;
  /** Still working: call it as often as you like. */
  heartbeat(): void;
}
