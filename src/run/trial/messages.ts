// The messages between a node and its trial process. Both ends are the same build, so this is no wire format.
import type { RunCommand, RunId, RunLimits } from "../../../machines/index.js";
import type { StartRequest } from "../ports.js";

/** What is tried: a command to a run, or a start. */
export type Suspect = SuspectRun | SuspectStart;

export interface SuspectRun {
  readonly runId: RunId;
  readonly command: RunCommand;
  /** The id of the command, if it has one. */
  readonly id?: string;
}

export interface SuspectStart {
  readonly start: StartRequest;
}

export interface TrialSettings {
  readonly databaseUrl: string;
  readonly stepsPerCommit: number;
  readonly limits?: RunLimits;
  readonly licensesFile?: string;
  readonly startupVariablesFile?: string;
}

/**
 * How a trial ended in a process that lives. `lived`: the decision was taken, whatever it was. `unreadable`: this build cannot read
 * the run. `undecided`: the store did not answer in time.
 */
export type TrialOutcome = "lived" | "unreadable" | "undecided";

export type ToTrial =
  | { readonly type: "open"; readonly settings: TrialSettings }
  | { readonly type: "try"; readonly suspects: readonly Suspect[] };

/** `nth` is the suspect's place in its group; `heap` is in bytes. */
export type FromTrial =
  | { readonly type: "ready" }
  | { readonly type: "pulse"; readonly heap: number }
  | { readonly type: "began"; readonly nth: number; readonly heap: number }
  | { readonly type: "ended"; readonly nth: number; readonly outcome: TrialOutcome };
