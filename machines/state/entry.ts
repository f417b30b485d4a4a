// One entry into a step, and the error of a step that failed.
import type { StepErrorCode } from "../values/error-code.js";
import type { Json } from "../values/json.js";
import type { Slot } from "./slot.js";
import type { Turn } from "./turn.js";

export interface StepError {
  readonly code: StepErrorCode;
  readonly message: string;
  readonly step_id?: string;
  readonly details?: Json;
  /** The error of the child, if a sub-saga failed. */
  readonly cause?: Json;
}

/** One entry into a step. Its expressions see `at` as `now`. */
export interface StepEntry {
  /** Counts the step entries of the run from 1. */
  readonly number: number;
  readonly at: number;
  /** An attempt of this entry ended with an unknown outcome: its effect may exist, so it must be undone. */
  readonly mayHaveHappened?: boolean;
  /** How often a person has retried it. Absent: never. */
  readonly retried?: number;
  /** The slot that it waits for or holds, until it ends or stands at an incident. */
  readonly slot?: Slot;
  /** The rate limit of its call, and the turn of the attempt that comes next or is under way. */
  readonly turn?: Turn;
}
