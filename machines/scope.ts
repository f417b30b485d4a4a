// What expressions see of a run (docs/contract, section 2).
import type { RunContext, RunIdentity } from "./context.js";
import { instant, type Scope } from "./expression/index.js";
import type { Json } from "./json.js";

/** A run's identity never changes, so its scope is built once. */
const identities = new WeakMap<RunIdentity, Scope>();

export function scopeOf(context: RunContext, now: number, output?: Json): Scope {
  const { run } = context;
  const scope = { ...identityScope(run), vars: context.variables, now: instant(now) };
  return output === undefined ? scope : { ...scope, output };
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
