// Suspects as the runtime sees them: what may have ended a process is tried before it is decided on here (law 7). These are the ports that
// src/trial fills. The runtime asks them, and does not know how a trial is held.
import type { Answer, QuarantineProof, RunCommand, RunId } from "../../machines/index.js";
import { EVERYTHING, type PlainReach } from "../access/index.js";
import type { DueTable } from "../store/engine/poll.js";
import type { StartRequest } from "./ports.js";

/** What is tried: a command to a run, or a start. */
export type Suspect = SuspectRun | SuspectStart;

export interface SuspectRun {
  readonly runId: RunId;
  readonly command: RunCommand;
  /** The id of the command, if it has one. */
  readonly id?: string;
  /** Whose runs its sender may command. */
  readonly reach: PlainReach;
}

export interface SuspectStart {
  readonly start: StartRequest;
}

/** A suspect's row in a polled table. */
export interface SuspectRow {
  readonly table: Pick<DueTable<never>, "acquit" | "countDeath">;
  readonly key: string;
}

/**
 * How a trial ended in a process that lives. `lived`: the decision was taken, whatever it was. `unreadable`: this build cannot read
 * the run. `undecided`: the store did not answer in time.
 */
export type TrialOutcome = "lived" | "unreadable" | "undecided";

/** `lived`: it goes on in the normal way. `unreadable` and `undecided`: nothing counts against it. */
export type Verdict = { readonly kind: TrialOutcome } | { readonly kind: "guilty"; readonly proof: QuarantineProof };

export interface Judge {
  verdictOn(suspect: Suspect, row: SuspectRow): Promise<Verdict>;
}

/** The gate before the decisions of a node: what a node has died of is tried first. */
export interface Gate {
  isSuspect(key: string): boolean;
  /**
   * Carries out a command to a suspect run: the command alone, or after the quarantine of the run if it is proven. Rejects with 422 if the
   * command ends the process although the run is in quarantine, with 503 if there is no verdict, and with Unreadable.
   */
  command(
    suspect: SuspectRun,
    carryOut: () => Promise<Answer>,
    quarantine: (proof: QuarantineProof) => Promise<unknown>,
  ): Promise<Answer>;
  /** Rejects with 422 if the start is proven to end or hang the process, and with 503 if there is no verdict. */
  start(start: StartRequest, key: string): Promise<void>;
}

/** Where a process says what it decides on, so that it is known if the process dies of it. Never throws and never waits. */
export interface LastWords {
  /** `key`: a uuid. */
  say(key: string): void;
}

/**
 * Whether a run that was found guilty can be quarantined: that is a decision, too, and needs the run to be loaded. A run that cannot
 * even be quarantined is left alone; no node takes it.
 */
export async function canQuarantine(
  judge: Judge,
  runId: RunId,
  proof: QuarantineProof,
  row: SuspectRow,
): Promise<boolean> {
  const { kind } = await judge.verdictOn({ runId, command: { type: "quarantine", proof }, reach: EVERYTHING }, row);
  return kind === "lived";
}
