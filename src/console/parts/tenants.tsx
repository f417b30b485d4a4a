// Whose a thing is, for those who see what is of several tenants. A tenant's own people are not told: all that they see is theirs.
import { usePrincipal } from "../browser/access.js";
import type { Principal } from "../browser/resources.js";

interface Owned {
  readonly tenant_id?: string | null;
}

/** With access off, where something of the rows has a tenant. */
export function useSeesTenants(rows: readonly Owned[]): boolean {
  return seesSeveral(usePrincipal()) ?? rows.some(({ tenant_id }) => typeof tenant_id === "string");
}

/** Undefined: access is off, and things may have tenants or not. */
export const seesSeveral = (principal: Principal | undefined) => {
  if (!principal) return undefined;
  return principal.roles.includes("platform") && principal.tenants?.length !== 1;
};

export const Tenant = ({ id }: { id: string | null | undefined }) =>
  typeof id === "string" ? <code className="tenant">{id}</code> : <span className="quiet">none</span>;
