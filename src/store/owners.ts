// Whose a thing is: a tenant's, or the platform's (null). Names that all tenants share (workflow ids, rule ids, services) are everyone's to use where
// they are the platform's; anything else of the platform exists for the platform alone.

/** The tenants of who asks; `*`: of all, and of the platform. A run of no tenant has none. */
export type Tenants = readonly string[] | "*";

export const tenantsOfRun = (tenantId: string | undefined): Tenants => (tenantId === undefined ? [] : [tenantId]);

/** Whether a thing exists for these tenants. */
export function isIn(owner: string | null, tenants: Tenants): boolean {
  return tenants === "*" || (owner !== null && tenants.includes(owner));
}

/** Whether a name exists for these tenants. */
export const isUsable = (owner: string | null, tenants: Tenants): boolean => owner === null || isIn(owner, tenants);
