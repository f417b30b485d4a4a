// What exists for a principal: whose names and things, and of which workflows; and whose a thing is that it makes.
import { forbidden } from "../errors.js";
import { isIn, isUsable } from "../store/owners.js";
import type { Patterns } from "./patterns.js";
import { isPlatform, type Principal, type Reach, tenantsOf } from "./principal.js";

/** Whether a thing of a workflow exists within the reach. */
export function isThingWithin(
  { tenants, workflows }: Reach,
  { tenantId, workflowId }: { readonly tenantId: string | null; readonly workflowId: string },
): boolean {
  return isIn(tenantId, tenants) && (workflows?.match(workflowId) ?? true);
}

/** Whether a workflow exists within the reach, by its id and its owner. */
export function isWorkflowWithin({ tenants, workflows }: Reach, owner: string | null, workflowId: string): boolean {
  return isUsable(owner, tenants) && (workflows?.match(workflowId) ?? true);
}

/** The only workflows that the principal may deal with. Undefined: it is not narrowed. */
export function narrowingOf({ workflows }: Principal): Patterns | undefined {
  return workflows?.matchesAll ? undefined : workflows;
}

/** Throws 403. `act`: what would reach runs of other workflows. */
export function refuseNarrowed(principal: Principal, act: string): void {
  if (narrowingOf(principal)) throw forbidden(`a credential for some workflows only may not ${act}`);
}

/** Whether anyone may do everything: access is off. */
export const isAnyone = ({ kind }: Principal): boolean => kind === "anyone";

/**
 * The tenant of what the principal makes: its own; only the platform's principals name another one, or none. `named`: the tenant that the request
 * names, in lower case. Undefined: the thing is of no tenant. Throws 403.
 */
export function ownerFor(principal: Principal, named?: string): string | undefined {
  const tenants = tenantsOf(principal);
  const owner = isPlatform(principal) ? named : principal.tenantId;
  if (named !== undefined && named !== owner) throw forbidden(OTHER_TENANT);
  if (tenants !== "*" && (owner === undefined || !tenants.includes(owner)))
    throw forbidden(named === undefined ? NO_TENANT : OTHER_TENANT);
  return owner;
}

const OTHER_TENANT = "the tenant that is named is another than that of the credential: the role platform may name it";
const NO_TENANT = "the credential is for some tenants only: one of them has to be named";
