// The identity of a run: fixed at its creation.
import type { RunId } from "../values/ids.js";
import type { JsonObject } from "../values/json.js";
import type { Precedence } from "./precedence.js";

export interface RunIdentity {
  readonly id: RunId;
  readonly workflowId: string;
  readonly version: number;
  readonly definitionId: string;
  readonly tenantId?: string;
  readonly businessKey?: string;
  readonly triggerId?: string;
  readonly parentRunId?: RunId;
  readonly parentStepId?: string;
  readonly parentBranchId?: string;
  readonly rootRunId?: RunId;
  readonly dryRun: boolean;
  readonly features: Readonly<Record<string, boolean>>;
  readonly inputs: JsonObject;
  /** The name of the entrypoint. Empty: `start`. */
  readonly entrypoint: string;
  /** Epoch milliseconds in database time, like all times here. */
  readonly startedAt: number;
  /** The run does not start before this time (`delay_ms`). */
  readonly delayedUntil?: number;
  /** The run times out at this time and rolls back. */
  readonly expiresAt?: number;
  /** The number of runs above this one. Absent: none. */
  readonly depth?: number;
  /** The parent's step entry that created this run. */
  readonly parentEntry?: number;
  /** A branch or an item: its ancestors up to the run that it is part of, nearest first. Absent: neither. */
  readonly family?: readonly RunId[];
  /** The first step of a branch or an item, which has no entrypoint. */
  readonly startStep?: string;
  /** The names that the blocks around it give to expressions: `item`, `index`, `iteration`, `error`. */
  readonly locals?: JsonObject;
  /** The compensation of its parent's step replaces its undo list, so nothing is handed over. */
  readonly keepsUndo?: boolean;
  /** The variables that the service gave the run at its start. Its sub-sagas and spawned runs begin with them, too. */
  readonly startup?: JsonObject;
  /** The run above that has `startup`. */
  readonly startupFrom?: RunId;
  /** Its turn among those that wait, and that of all runs below it. Absent: as any other's. */
  readonly precedence?: Precedence;
  /** The run that this one was started from again. */
  readonly rerunOf?: RunId;
  /** The run that this one goes on from. Its first step is `startStep`. */
  readonly forkedFrom?: ForkedFrom;
  /** The W3C trace context of the request that started the run, or a run above it: the run is part of that trace. */
  readonly traceparent?: string;
  /** The trace context of the run that started this one, if its spans are recorded: this one has a trace of its own, with a link. */
  readonly linkedTrace?: string;
}

/** Where a fork begins: the `entry`-th entry of a step of another run. A storage format. */
export type ForkedFrom = {
  readonly runId: RunId;
  readonly step: string;
  readonly entry: number;
};

/** What a start gave that a rerun gives again: the run's own variables change, and its timeout is a time. */
export interface GivenAtStart {
  readonly variables?: JsonObject;
  /** Its variables are too large to be kept a second time. */
  readonly tooLarge?: boolean;
  readonly timeoutMs?: number;
}

/** The run whose `startup` a child of this run begins with, if any was given. */
export function startupSource({ id, startup, startupFrom }: RunIdentity): RunId | undefined {
  return startup ? id : startupFrom;
}

/** The trace of a run that this one starts: linked to it where its spans are recorded, and otherwise that of the request above both. */
export function traceBelow(
  run: RunIdentity,
  traces: { run(run: RunIdentity): string | undefined } | undefined,
): Pick<RunIdentity, "traceparent" | "linkedTrace"> {
  const linkedTrace = traces?.run(run);
  if (linkedTrace !== undefined) return { linkedTrace };
  return run.traceparent === undefined ? {} : { traceparent: run.traceparent };
}
