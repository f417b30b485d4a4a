// What an API key may be given, and by whom: no one grants more than they have. It reads and writes nothing.
import { readInstant, YEAR_9999_END_S } from "../../machines/index.js";
import { badRequest, forbidden } from "../errors.js";
import { narrowingOf } from "./ownership.js";
import { ALL, Patterns } from "./patterns.js";
import { isPlatform, type Principal, tenantsOf } from "./principal.js";
import type { Role } from "./roles.js";

export interface KeyGrant {
  readonly name: string;
  readonly roles: readonly Role[];
  readonly tenantId?: string;
  readonly tenants?: readonly string[];
  readonly workflows?: readonly string[];
  readonly services?: readonly string[];
  readonly secrets?: readonly string[];
  /** Epoch milliseconds. */
  readonly expiresAt?: number;
}

/** An id, a prefix and `*`, or `*`: as short texts without control characters. */
export const PATTERN = "^(?:[^*\\u0000-\\u001f\\u007f]{1,128}|[^*\\u0000-\\u001f\\u007f]{0,127}\\*)$";
export const MOST_PATTERNS = 100;
export const MOST_NAME = 200;

/** The roles that only the platform gives. */
const PLATFORM_GRANTS: readonly Role[] = ["platform", "scrape"];

/**
 * When a key is asked to end, epoch milliseconds. Nothing here is later than the year 9999: an offset may make it later, and the last second is
 * as good. Undefined: the text is no RFC 3339 time.
 */
export function expiryIn(text: string): number | undefined {
  const read = readInstant(text);
  return read && Math.min(read.seconds, YEAR_9999_END_S) * 1_000 + Math.floor(read.nanos / 1_000_000);
}

/** Names of secrets that someone may use. An admin who is not narrowed has all that its tenant may use. */
export function secretsOf(principal: Principal): Patterns {
  return principal.roles.has("admin") && !narrowingOf(principal) ? ALL : principal.secrets;
}

/**
 * The key that is made when `granter` asks for this one: what is left out is as narrow as the granter. `ends`: when the granter's own key ends,
 * epoch milliseconds. Throws SagaError.
 */
export function grantedBy(
  granter: Principal,
  asked: KeyGrant,
  { now, ends }: { now: number; ends?: number },
): KeyGrant {
  if (asked.expiresAt !== undefined && asked.expiresAt <= now)
    throw badRequest("the key would have expired already", [{ path: "$.expires_at", message: "is in the past" }]);
  const { name, services } = asked;
  const roles = [...new Set(asked.roles)];
  const owned = ownedBy(granter, asked, roles);
  const workflows = narrowed(granter, asked, roles);
  const { secrets } = asked;
  if (secrets && !secretsOf(granter).contain(new Patterns(secrets)))
    throw forbidden("the credential may not use all of these secrets: the role admin may grant every secret");
  const expiresAt = asked.expiresAt ?? ends;
  if (ends !== undefined && expiresAt !== undefined && expiresAt > ends)
    throw forbidden(`a key that this one makes may not outlive it: it ends at ${new Date(ends).toISOString()}`);
  return {
    ...{ name, roles, ...owned },
    ...(workflows && { workflows }),
    ...(services && { services }),
    ...(secrets && { secrets }),
    ...(expiresAt !== undefined && { expiresAt }),
  };
}

/** Whose key it is, and which tenants it serves. */
function ownedBy(granter: Principal, { tenantId, tenants }: KeyGrant, roles: readonly Role[]) {
  if (!isPlatform(granter)) {
    const role = roles.find((each) => PLATFORM_GRANTS.includes(each));
    if (role !== undefined) throw forbidden(`the role platform may grant the role ${role}`);
    if (tenants) throw forbidden("the role platform may grant tenants");
  }
  const all = tenantsOf(granter);
  const mayGive = (each: string) => all === "*" || all.includes(each);
  const becomesPlatform = roles.includes("platform");
  if (tenants && !becomesPlatform)
    throw badRequest("only a key with the role platform has tenants", [
      { path: "$.tenants", message: "needs the role platform" },
    ]);
  // Of the platform's own a tenant means nothing.
  if (becomesPlatform) {
    const serves = tenants ?? granter.tenants;
    if (serves && !serves.every(mayGive)) throw forbidden("the credential has not all of these tenants");
    return serves ? { tenants: serves } : {};
  }
  const owner = tenantId ?? (isPlatform(granter) ? undefined : granter.tenantId);
  if (owner !== undefined && !mayGive(owner)) throw forbidden("the credential is of another tenant");
  if (owner === undefined && !roles.includes("scrape"))
    throw badRequest("a key without a tenant needs the role platform or scrape", [
      { path: "$.tenant_id", message: "is required" },
    ]);
  return owner === undefined ? {} : { tenantId: owner };
}

function narrowed(granter: Principal, { workflows }: KeyGrant, roles: readonly Role[]) {
  const own = narrowingOf(granter);
  if (!own) return workflows;
  if (roles.includes("worker"))
    throw forbidden("a credential that is narrowed to workflows may not grant the role worker");
  if (workflows && !own.contain(new Patterns(workflows)))
    throw forbidden("the credential is narrowed to other workflows");
  return workflows ?? own.texts;
}
