// A question about a run as it stands: the value of a CEL expression in the scope that the run's own expressions have.
import { compileExpression, ExpressionSyntaxError, withFuel } from "../expression/index.js";
import { scopeOf } from "../expression/scope.js";
import type { RunContext } from "../state/context.js";
import type { Json } from "../values/json.js";

/** A question, and the run that it is about. */
export interface Asked {
  readonly context: RunContext;
  readonly source: string;
  /** Epoch milliseconds: `now` of the expression. */
  readonly now: number;
}

/**
 * The value, within the step budget of one evaluation. `output` is there once the run has one. Throws ExpressionSyntaxError for what is no
 * expression or reads a name that this run does not have, and ExpressionError where the run lacks what is read.
 */
export function valueAsked({ context, source, now }: Asked): Json {
  const expression = compileExpression(source);
  const scope = scopeOf(context, now, context.output);
  const unknown = [...expression.references].find((name) => !Object.hasOwn(scope, name));
  if (unknown !== undefined)
    throw new ExpressionSyntaxError(`this run has no ${unknown}; there are ${Object.keys(scope).sort().join(", ")}`);
  return withFuel(() => expression.evaluate(scope));
}
