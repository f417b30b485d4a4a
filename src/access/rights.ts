// What a credential says of its bearer's rights, read strictly: a list that cannot be read is refused, never taken for none or for all. Who the
// bearer is, and until when, is the matter of the credential's kind.
import { isUuid } from "../ids.js";
import { NOTHING, Patterns } from "./patterns.js";
import type { Principal } from "./principal.js";
import { isRole } from "./roles.js";
import { Unauthenticated } from "./verifier.js";

/** As they are written in the credential. Undefined: it says nothing of it. */
export interface StatedRights {
  readonly roles?: unknown;
  readonly tenantId?: unknown;
  readonly tenants?: unknown;
  readonly workflows?: unknown;
  readonly services?: unknown;
  readonly secrets?: unknown;
}

export type Rights = Pick<Principal, "roles" | "tenantId" | "tenants" | "workflows" | "services" | "secrets">;

/** Throws Unauthenticated. */
export function readRights(stated: StatedRights): Rights {
  const [tenants, workflows] = [listIn(stated.tenants, "tenants"), listIn(stated.workflows, "workflows")];
  const [services, secrets] = [listIn(stated.services, "services"), listIn(stated.secrets, "secrets")];
  // Of another type they count as absent, and so do names that are no roles.
  const roles = new Set(Array.isArray(stated.roles) ? stated.roles.filter(isRole) : []);
  const tenantId = stated.tenantId === undefined ? undefined : tenantIn(stated.tenantId, "tenant_id");
  return {
    roles,
    // Of the platform's own it means nothing.
    ...(tenantId !== undefined && !roles.has("platform") && { tenantId }),
    ...(tenants && { tenants: tenants.map((tenant) => tenantIn(tenant, "tenants")) }),
    ...(workflows && { workflows: new Patterns(workflows) }),
    services: services ? new Patterns(services) : NOTHING,
    secrets: secrets ? new Patterns(secrets) : NOTHING,
  };
}

function listIn(value: unknown, name: string): readonly string[] | undefined {
  if (value === undefined) return undefined;
  if (Array.isArray(value) && value.every((item) => typeof item === "string")) return value;
  throw new Unauthenticated(`${name} is not a list of strings`);
}

function tenantIn(value: unknown, name: string): string {
  if (typeof value === "string" && isUuid(value)) return value.toLowerCase();
  throw new Unauthenticated(`${name} is not a UUID`);
}
