// The proof that a run was quarantined on: the last of the deaths of the process in which its next step was tried alone. It is stored
// with the run and shown to clients; its member names must never change.

/** How a trial process died of a run. */
export interface TrialDeath {
  /** `hung`: it was killed because it no longer reacted. */
  readonly end: "ended" | "hung";
  readonly signal?: string;
  readonly exit_code?: number;
  readonly out_of_memory?: boolean;
  /** Its heap at the last report before its end. */
  readonly heap_mb: number;
  /** The time from the beginning of the trial to the end of the process. */
  readonly ms: number;
}

export interface QuarantineProof extends TrialDeath {
  /** The deaths alone. */
  readonly trials: number;
}
