// What a resident finds around it: the runtime's side of the commit path, as one interface so that a resident can be read,
// and tested, alone.
import type {
  Answer,
  Effect,
  Facts,
  Fetched,
  Need,
  RunCommand,
  RunContext,
  RunIdentity,
} from "../../machines/index.js";
import type { Metrics } from "../metrics.js";
import type { Committer } from "./committer.js";
import type { CommittedEvent } from "./ports.js";
import type { Loaded, Resident } from "./resident.js";

/** Facts for one decision, and whether it asked for an action that this node does not know: another node's may be new. */
export interface RoomFacts extends Facts {
  readonly missed: { action: boolean };
}

export interface RunRoom {
  readonly committer: Pick<Committer, "submit">;
  readonly store: { repeatedAnswer(runId: string, commandId: string): Promise<Answer | undefined> };
  readonly metrics: Metrics;
  readonly stepsPerCommit: number;
  /** A node died a moment ago, maybe of one of its runs: what is asked of a run is made durable before it steps on. */
  readonly careful: boolean;
  /** Database time, epoch milliseconds. */
  now(): number;
  facts(): RoomFacts;
  /** Reads the registrations anew. */
  learnActions(): Promise<void>;
  /** Reads what a decision must know. */
  fetch(run: RunIdentity, need: Need): Promise<Fetched>;
  load(runId: string): Promise<Loaded | undefined>;
  /** The offer of a worker that is free right now, for a run that is queued. Takes its credit. */
  offerFor(context: RunContext): Extract<RunCommand, { type: "offer" }> | undefined;
  /** After the commit, never before: events are published, effects carried out. */
  released(runId: string, events: readonly CommittedEvent[], effects: readonly Effect[]): void;
  /** The commit was lost: credit that was taken for these dispatches is given back. */
  withdrawn(dispatchIds: readonly string[]): void;
  /** A hint to look at the run when it is due; the wake row is the truth. */
  arm(runId: string, context: RunContext): NodeJS.Timeout | undefined;
  rested(resident: Resident, context: RunContext): void;
  leave(resident: Resident): void;
  /** The run could not go on by itself; its wake row will bring it back. */
  stuck(runId: string, error: unknown): void;
}

/** Before replay `nth`: long enough for a competing commit to pass, or for the store to come back. */
export function backOff(nth: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.min(5 * 2 ** nth, 500) * (0.5 + Math.random() / 2)));
}
