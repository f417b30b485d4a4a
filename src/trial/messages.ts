// The messages between a node and its trial process. Both ends are the same build, so this is no wire format.
import type { RunLimits } from "../../machines/index.js";
import type { Suspect, TrialOutcome } from "../run/judge.js";

export interface TrialSettings {
  readonly databaseUrl: string;
  readonly stepsPerCommit: number;
  readonly limits?: RunLimits;
  readonly licensesFile?: string;
  readonly startupVariablesFile?: string;
  readonly encryptionKeysFile?: string;
  readonly tenantsApart?: boolean;
}

export type ToTrial =
  | { readonly type: "open"; readonly settings: TrialSettings }
  | { readonly type: "try"; readonly suspects: readonly Suspect[] };

/** `nth` is the suspect's place in its group; `heap` is in bytes. */
export type FromTrial =
  | { readonly type: "ready" }
  | { readonly type: "pulse"; readonly heap: number }
  | { readonly type: "began"; readonly nth: number; readonly heap: number }
  | { readonly type: "ended"; readonly nth: number; readonly outcome: TrialOutcome };
