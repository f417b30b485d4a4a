// The host of a resident: the runtime's side of the commit path as one interface, so that a resident can be read and tested
// alone. The runtime implements it.
import type { DispatchId, RunCommand, RunContext, RunId, Send } from "../../machines/index.js";
import type { Metrics } from "../metrics.js";
import type { RecordedAnswer } from "../store/engine/load.js";
import type { FairScheduler } from "../work/fair-scheduler.js";
import type { Committer } from "./committer.js";
import type { FactSource } from "./facts.js";
import type { LoadedRun } from "./loaded-run.js";
import type { OutgoingEvents } from "./outgoing-events.js";
import type { CommittedEvent } from "./ports.js";
import type { RecordOf } from "./unit.js";

export interface ResidentHost {
  readonly committer: Pick<Committer, "submit">;
  readonly facts: Pick<FactSource, "current" | "missedAction" | "read" | "refreshActions">;
  readonly metrics: Pick<Metrics, "commitConflicts" | "transitions">;
  /** Of the event loop, which all residents share. */
  readonly scheduler: Pick<FairScheduler, "compute" | "isFree" | "spent">;
  readonly stepsPerCommit: number;
  /** Which events RabbitMQ gets. Absent: none. */
  readonly outgoing?: OutgoingEvents;
  /** A node died a moment ago, possibly because of one of its runs: a command is made durable before the run steps on. */
  readonly recentNodeLoss: boolean;
  /** Database time, epoch milliseconds. */
  now(): number;
  /** The record of a context, in a format that all live nodes read (law 13). */
  readonly recordOf: RecordOf;
  /** A decision on the run, or on the request that starts it, begins: if the process does not survive it, this is known. */
  deciding(suspect: string): void;
  /** Undefined: there is no such run. */
  load(runId: RunId): Promise<LoadedRun | undefined>;
  /** The recorded answer of a command whose outcome is committed already. */
  recordedAnswer(runId: RunId, commandId: string): Promise<RecordedAnswer | undefined>;
  /** For a queued run: the offer of a worker that is free right now. Reserves the worker's credit. */
  offerFor(context: RunContext): Extract<RunCommand, { type: "offer" }> | undefined;
  /** Whether this node has the dispatch. */
  holdsDispatch(dispatchId: DispatchId): boolean;
  /** Publishes events and carries out sends. Called after their commit has won, never before. */
  afterCommit(runId: RunId, events: readonly CommittedEvent[], sends: readonly Send[], after?: RunContext): void;
  /** Gives back the credit that was reserved for dispatches of a lost commit. */
  returnCredit(dispatchIds: readonly DispatchId[]): void;
  /** A timer for the run's due time. A hint: the wake row is the truth. */
  armTimer(runId: RunId, context: RunContext): NodeJS.Timeout | undefined;
  /** The run has nothing to do. Its actor may stay in memory. */
  idle(runId: RunId, context: RunContext): void;
  /** The run is no longer in memory. */
  gone(runId: RunId): void;
  /** The run could not go on by itself; its wake row brings it back. */
  advanceFailed(runId: RunId, error: unknown): void;
}
