// Transitions and decisions. A transition is one event for a run's actor; a decision is a list of them and the answer to the
// command.

import type { Patch } from "../state/context.js";
import type { RunIdentity } from "../state/identity.js";
import type { AuditEvent } from "./audit.js";
import type { Answer, AnswerTo, Command, CommandType, Refused } from "./command.js";
import type { Need } from "./fact.js";
import type { Owed, Send, Write } from "./owed.js";

/** The event that the run's actor receives. `type` names an edge of the chart, which refuses any other. */
export interface Transition {
  readonly type: string;
  readonly patch: Patch;
  /** The names of the variables that it changes. Only these are written. */
  readonly stored: readonly string[];
  readonly audit: readonly AuditEvent[];
  /** Rows of its commit. */
  readonly writes: readonly Write[];
  /** What leaves the process after its commit. */
  readonly sends: readonly Send[];
  /** The run is one of another version from here on: its actor is started anew, with the program of that version. */
  readonly moved?: VersionOf;
}

/** The version of a run. */
export type VersionOf = Pick<RunIdentity, "version" | "definitionId">;

export interface Decided<A extends Answer = Answer> {
  /** Transitions to apply and commit together before the answer is given. Empty: a refusal or a no-op. */
  readonly transitions: readonly Transition[];
  readonly answer: A;
  /** What a decision without transitions owes: rows that leave the run itself unchanged. */
  readonly owed?: Owed;
}

/**
 * A decision, or the fact that it needs first. A decision without transitions is answered once its revision is confirmed (law 3).
 */
export type Decision<A extends Answer = Answer> = Decided<A> | { readonly need: Need };

/** For its sender there is no such run: nothing of it may be told, and nothing is changed. */
export interface Absent {
  readonly absent: true;
}

/** A decision on a command of one type. */
export type DecisionOn<T extends CommandType> = Decision<AnswerTo<Command<T>>>;

export function unchanged<A extends Answer>(answer: A, owed?: Owed): Decided<A> {
  return { transitions: [], answer, owed };
}

export function refused(reason: string): Decided<Refused> {
  return unchanged({ type: "refused", reason });
}

/** It could not be done at any other time either. */
export function invalid(reason: string): Decided<Refused> {
  return unchanged({ type: "refused", reason, invalid: true });
}
