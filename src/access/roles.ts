// What the roles may do. A door says which need its operation has, in one place: the `x-saga-role` of a route's schema, or the table of
// gRPC methods. Nothing else in the service asks for a role by its name.

/** From viewer to admin each may do what those before it may. The others stand beside them. */
const LADDER = ["viewer", "operator", "author", "admin"] as const;
const BESIDE = ["worker", "scrape", "platform"] as const;

export const ROLES = [...LADDER, ...BESIDE] as const;
export type Role = (typeof ROLES)[number];

/**
 * What an operation needs: a role, one of several, any credential, or nothing. `callback`: the token of the very call that is reported on, or a
 * worker's credential.
 */
export type Need = Role | readonly Role[] | "credential" | "callback" | "public";

export function isRole(name: unknown): name is Role {
  return (ROLES as readonly unknown[]).includes(name);
}

/** The credential has the role that is needed, or one that may do what it may. */
export function meets(roles: ReadonlySet<Role>, need: Need): boolean {
  if (need === "public" || need === "credential") return true;
  return sufficientRoles(need).some((role) => roles.has(role));
}

/** Each of these roles will do. */
function sufficientRoles(need: Exclude<Need, "public" | "credential">): readonly Role[] {
  if (typeof need !== "string") return need.flatMap(sufficientRoles);
  if (need === "callback") return ["worker"];
  if (need === "scrape") return ["scrape", "platform"];
  const from = LADDER.indexOf(need as (typeof LADDER)[number]);
  return from < 0 ? [need] : LADDER.slice(from);
}

/** Whether a credential without a tenant may be used at all: for what belongs to none. */
export function needsNoTenant(roles: ReadonlySet<Role>): boolean {
  return roles.has("platform") || roles.has("scrape");
}

/** The least role that will do, for the message of a refusal. */
export function sufficientRole(need: Need): string {
  const [least] = need === "public" || need === "credential" ? [need] : sufficientRoles(need);
  return least ?? "";
}
