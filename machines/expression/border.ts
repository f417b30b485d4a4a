// The border between the engine and expressions. Whatever is thrown behind it, by the CEL library or by the host, reaches the engine
// as an ExpressionError: it is an error of the step, and never of the run.
import { ExpressionError, ExpressionSyntaxError } from "./errors.js";
import { withFuel } from "./fuel.js";

/** Evaluates on a budget of its own, or on that of the evaluation around it. Throws ExpressionError and nothing else. */
export function evaluation<T>(work: () => T, units?: number): T {
  try {
    return withFuel(work, units);
  } catch (error) {
    throw asExpressionError(error);
  }
}

/** The message of a host's error may contain a value, so only its class is named. */
function asExpressionError(error: unknown): ExpressionError {
  if (error instanceof ExpressionError) return error;
  if (error instanceof ExpressionSyntaxError)
    return new ExpressionError(`the expression does not compile: ${error.message}`);
  return new ExpressionError(`evaluation failed (${error instanceof Error ? error.name : "unknown error"})`);
}
