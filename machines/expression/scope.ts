// The scope of expressions: the names that they see of a run (docs/workflows.md, expressions). And a question about a run, which sees the same.
import type { RunContext } from "../state/context.js";
import { correctedItem, withoutCorrection } from "../state/corrected-item.js";
import type { RunIdentity } from "../state/identity.js";
import type { Json, JsonObject } from "../values/json.js";
import { secret } from "../values/secret.js";
import {
  compileExpression,
  ExpressionError,
  ExpressionSyntaxError,
  failedOnSecret,
  instant,
  type Scope,
  withFuel,
} from "./index.js";

/** Names that scopes always have, or that blocks give. An item or its index cannot have such a name. */
export const RESERVED_NAMES: ReadonlySet<string> = new Set(
  "inputs vars run features item index iteration event error output now".split(" "),
);

/** The identity of a run never changes, so its part of the scope is built once. */
const identities = new WeakMap<RunIdentity, Scope>();

export function scopeOf(context: RunContext, now: number, output?: Json): Scope {
  const scope = {
    ...identityScope(context.run),
    ...localsOf(context),
    vars: withoutCorrection(context.variables),
    now: instant(now),
  };
  return output === undefined ? scope : { ...scope, output };
}

/** A question about a run: an expression, and when it is asked, in epoch milliseconds. */
export interface Question {
  readonly context: RunContext;
  readonly source: string;
  readonly now: number;
}

/**
 * The value of an expression about the run as it stands, within the step budget of one evaluation. `output` is there once the run has one. Throws
 * ExpressionSyntaxError for what is no expression or reads a name that this run does not have, and ExpressionError where the run lacks what is read. A value
 * that depends on a secret one is secret.
 */
export function answerTo({ context, source, now }: Question): Json {
  const expression = compileExpression(source);
  const scope = scopeOf(context, now, context.output);
  const unknown = [...expression.references].find((name) => !Object.hasOwn(scope, name));
  if (unknown !== undefined)
    throw new ExpressionSyntaxError(`this run has no ${unknown}; there are ${Object.keys(scope).sort().join(", ")}`);
  try {
    return withFuel(() => expression.evaluate(scope));
  } catch (error) {
    // Whether it has a value tells about the secret value that it has read.
    if (error instanceof ExpressionError && failedOnSecret(error)) return secret(null);
    throw error;
  }
}

/** The names that the blocks around the token give. An inner name hides an outer one. */
export function localsOf({ run, frames, variables }: RunContext): JsonObject {
  const corrected = run.locals && correctedItem(run, variables);
  let locals = corrected ? { ...run.locals, ...corrected } : (run.locals ?? {});
  for (const frame of frames) {
    if (frame.kind === "while") locals = { ...locals, iteration: frame.iteration };
    else if (frame.kind === "catch") locals = { ...locals, error: { ...frame.error } };
  }
  return locals;
}

function identityScope(run: RunIdentity): Scope {
  const known = identities.get(run);
  if (known) return known;
  const scope: Scope = {
    inputs: run.inputs,
    features: run.features,
    run: {
      id: run.id,
      workflow_id: run.workflowId,
      version: run.version,
      tenant_id: run.tenantId ?? null,
      business_key: run.businessKey ?? null,
      started_at: instant(run.startedAt),
      dry_run: run.dryRun,
      root_id: run.rootRunId ?? run.id,
    },
  };
  identities.set(run, scope);
  return scope;
}

const text = { type: "string" };
const textOrNull = { type: ["string", "null"] };

/** The JSON Schema of `run`, as its members are rendered. */
export function runSchema(): JsonObject {
  return {
    type: "object",
    additionalProperties: false,
    properties: {
      ...{ id: text, workflow_id: text, version: { type: "integer" }, tenant_id: textOrNull, business_key: textOrNull },
      ...{ started_at: text, dry_run: { type: "boolean" }, root_id: text },
    },
  };
}
