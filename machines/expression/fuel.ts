// The step budget of one evaluation: what makes a hostile expression end as an error and never as a stalled node. Not a
// clock: units are counted, so the same expression on the same values ends at the same place on every machine.
import { ExpressionError } from "./errors.js";

/**
 * Units for one evaluation, for one rendering of a template, or for one entry of a step, however many expressions it
 * holds. A unit is about one planned node of a loop's body, one compared element or 64 characters looked at.
 */
export const FUEL = 700_000;

/** Characters that a constructed result may have as JSON; twice what a run's variables may hold. */
export const MAX_RESULT_CHARS = 16 * 1024 * 1024;

/** Characters of a text made inside an expression. */
export const MAX_TEXT_CHARS = 4 * 1024 * 1024;

/** Evaluation is synchronous, and what nests shares the outermost tank, so one tank serves the process. */
let left = 0;
let room = 0;
let burning = false;

/** Runs `work` on a full tank; inside another `burn` it shares that one's. */
export function burn<T>(work: () => T): T {
  if (burning) return work();
  burning = true;
  left = FUEL;
  room = MAX_RESULT_CHARS;
  try {
    return work();
  } finally {
    burning = false;
  }
}

/** Whether what is evaluated now may become a part of a larger result: another evaluation shares the tank. */
export function isShared(): boolean {
  return burning;
}

/** Sticky: once empty every further call throws, so that no `||` and no `&&` can absorb it. */
export function spend(units: number): void {
  left -= units;
  if (left < 0) throw spent();
}

export function isSpent(): boolean {
  return left < 0;
}

export function spent(): ExpressionError {
  return new ExpressionError("the expression used up its step budget");
}

/** Takes `chars` from what the result may still hold. */
export function takeRoom(chars: number): void {
  room -= chars;
  if (room < 0) throw new ExpressionError("the result is too large");
}

/** Units used since the tank was filled; for tests and measurements. */
export function used(): number {
  return FUEL - left;
}
