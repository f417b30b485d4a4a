// Conditions that are the same for every run. It evaluates only what reads nothing of a run.
import type { Expression } from "./compile.js";
import { ExpressionError } from "./errors.js";

/** Whether it always holds, or never does. Undefined: it depends on the run, or fails. */
export function constantTruth(condition: Expression): boolean | undefined {
  if (condition.references.size > 0) return undefined;
  try {
    return condition.test({});
  } catch (error) {
    if (error instanceof ExpressionError) return undefined;
    throw error;
  }
}
