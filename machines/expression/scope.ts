// What expressions see of a run (docs/contract, section 2).
import type { RunContext, RunIdentity } from "./context.js";
import { instant, type Scope } from "./expression/index.js";
import type { Json, JsonObject } from "./json.js";

/** Names that expressions see of every run, or that blocks give: no item can be called so. */
export const RESERVED_NAMES: ReadonlySet<string> = new Set(
  "inputs vars run features item index iteration event error output now".split(" "),
);

/** A run's identity never changes, so its scope is built once. */
const identities = new WeakMap<RunIdentity, Scope>();

export function scopeOf(context: RunContext, now: number, output?: Json): Scope {
  const scope = { ...identityScope(context.run), ...localsOf(context), vars: context.variables, now: instant(now) };
  return output === undefined ? scope : { ...scope, output };
}

/** The names that the blocks around the token give; an inner one hides an outer one. */
export function localsOf({ run, frames }: RunContext): JsonObject {
  let locals = run.locals ?? {};
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
