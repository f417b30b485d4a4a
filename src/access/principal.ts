// Who asks, in one form for every door: REST, WebSocket, gRPC, callbacks, the console. A door turns a credential into a principal
// (verifier.ts), and what is behind the door gets the principal and never the credential.
import type { Patterns } from "./patterns.js";
import type { Role } from "./roles.js";

export interface Principal {
  readonly kind: "user" | "key" | "worker" | "session" | "anyone";
  /** The subject of a token, the id of an API key, the name in a certificate. */
  readonly sub: string;
  /** As audit rows have it: `user:<sub>`, `key:<id>`, `worker:<worker_id>`; `api` with access off. */
  readonly actor: string;
  readonly roles: ReadonlySet<Role>;
  /** Absent: it belongs to no tenant. Lower case. */
  readonly tenantId?: string;
  /** The only tenants that a worker of the platform serves. */
  readonly tenants?: readonly string[];
  /** Of roles from viewer to admin: absent, all. */
  readonly workflows?: Patterns;
  /** Of the role worker, and of an author's registrations. */
  readonly services: Patterns;
  /** Names of secrets that its definitions may use. */
  readonly secrets: Patterns;
  /** Epoch milliseconds: the credential ends then. Absent: it does not end by itself. */
  readonly expiresAt?: number;
  /**
   * Aborted when the credential has ended before that: it was revoked, its key has gone, or its session was closed. Listen for `abort`: a credential
   * that nothing listens to may be forgotten, and is then verified anew.
   */
  readonly ended?: AbortSignal;
}

/** The tenants whose things someone may see and change: UUIDs, or all, with things of no tenant. */
export type Tenants = readonly string[] | "*";

/** Whose things a principal may see and change. What is outside does not exist for it. */
export interface Reach {
  readonly tenants: Tenants;
  /** Absent: all. */
  readonly workflows?: Patterns;
}

/** The reach of the service itself: its triggers, its upkeep, its definitions folder. */
export const EVERYTHING = { tenants: "*" } as const satisfies Reach;

const NO_TENANT: readonly string[] = [];

export function tenantsOf({ roles, tenantId, tenants }: Principal): Tenants {
  if (roles.has("platform")) return tenants ?? "*";
  return tenantId === undefined ? NO_TENANT : [tenantId];
}

const reaches = new WeakMap<Principal, Reach>();

/** One object for each principal: reads share a statement where theirs is the same. */
export function reachOf(principal: Principal): Reach {
  const { workflows } = principal;
  const reach = reaches.get(principal) ?? { tenants: tenantsOf(principal), ...(workflows && { workflows }) };
  reaches.set(principal, reach);
  return reach;
}

/** The platform's principals name the tenant of what they make. Everyone else's is that of the credential. */
export const isPlatform = ({ roles }: Principal): boolean => roles.has("platform");

/** With whom a principal shares what is bounded: its tenant, or itself where it has none. Undefined: access is off. */
export function sharerOf(principal: Principal): string | undefined {
  if (principal.kind === "anyone") return undefined;
  return isPlatform(principal) ? credentialId(principal) : (principal.tenantId ?? credentialId(principal));
}

/** What an operator can look up: the kind and the id of an API key, or the subject of a token. It is no secret. */
export const credentialId = ({ kind, sub }: Pick<Principal, "kind" | "sub">): string => `${kind}:${sub}`;
