// The step budget of an evaluation: a hostile expression ends with an error and cannot stall a node. It counts units, not time,
// so the same expression on the same values ends at the same place on every machine.
import { ExpressionError } from "./errors.js";

/**
 * Units for one evaluation, for one rendering of a template, or for one step entry with all its expressions. A unit is about one
 * planned node of a loop's body, one compared element, or 64 characters read.
 */
export const FUEL = 700_000;

/** The most characters of JSON in a constructed result: twice the limit of a run's variables. */
export const MAX_RESULT_CHARS = 16 * 1024 * 1024;

/** The most characters of a text that an expression constructs. */
export const MAX_TEXT_CHARS = 4 * 1024 * 1024;

/** Evaluation is synchronous, and nested evaluations share the outermost budget, so one budget serves the process. */
let fuelLeft = 0;
let resultCharsLeft = 0;
let inUse = false;
/** The patterns that the current budget has paid for. */
let paidPatterns: Set<string> | undefined;

/** Runs `work` on a budget of its own, or inside another `withFuel` on that one's budget. */
export function withFuel<T>(work: () => T, units = FUEL): T {
  if (inUse) return work();
  inUse = true;
  fuelLeft = units;
  resultCharsLeft = MAX_RESULT_CHARS;
  paidPatterns = undefined;
  try {
    return work();
  } finally {
    inUse = false;
  }
}

/** Whether another evaluation shares the budget, so that the current result may become part of a larger one. */
export function isShared(): boolean {
  return inUse;
}

/** Once the budget is exhausted, every further call throws, so that neither `||` nor `&&` can absorb the error. */
export function spend(units: number): void {
  fuelLeft -= units;
  if (fuelLeft < 0) throw budgetExhausted();
}

export function isExhausted(): boolean {
  return fuelLeft < 0;
}

export function budgetExhausted(): ExpressionError {
  return new ExpressionError("the expression used up its step budget");
}

/** Whether the current budget meets the pattern for the first time. */
export function isFirstUse(pattern: string): boolean {
  paidPatterns ??= new Set();
  if (paidPatterns.has(pattern)) return false;
  paidPatterns.add(pattern);
  return true;
}

/** Takes `chars` from the remaining size of the result. */
export function takeResultChars(chars: number): void {
  resultCharsLeft -= chars;
  if (resultCharsLeft < 0) throw new ExpressionError("the result is too large");
}

/** The units used since the budget was last full. For tests and measurements. */
export function fuelUsed(): number {
  return FUEL - fuelLeft;
}
