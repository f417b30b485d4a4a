// The settings of authentication, read and validated. Checking credentials is the API's matter.
import type { Environment } from "./environment.js";

export const ROLES = ["viewer", "operator", "worker", "admin"] as const;
export type Role = (typeof ROLES)[number];

export interface ApiKey {
  readonly key: string;
  readonly role: Role;
  readonly tenantId?: string;
  /** Shown in audit rows instead of the key. */
  readonly name?: string;
}

export type AuthConfig =
  | { readonly kind: "off" }
  | {
      readonly kind: "jwt";
      /** HMAC secret or PEM public key: exactly one. */
      readonly secret?: string;
      readonly publicKey?: string;
      readonly issuer?: string;
      readonly audience?: string;
    }
  | { readonly kind: "api_key"; readonly keys: readonly ApiKey[] };

/** RFC 7518 asks for a secret at least as long as the hash: 32 bytes for HS256. */
const SHORTEST_SECRET = 32;
const SHORTEST_API_KEY = 16;

export function readAuth(environment: Environment): AuthConfig {
  const kind = environment.choice("SAGA_AUTH", ["off", "jwt", "api_key"]) ?? "off";
  // All names are read for every kind: an unused key is a known setting, not a misspelt one.
  const jwt = {
    secret: environment.text("SAGA_AUTH_JWT_SECRET"),
    publicKey: environment.text("SAGA_AUTH_JWT_PUBLIC_KEY"),
    issuer: environment.text("SAGA_AUTH_JWT_ISSUER"),
    audience: environment.text("SAGA_AUTH_JWT_AUDIENCE"),
  };
  const keys = readApiKeys(environment);
  if (kind === "jwt") {
    checkJwt(environment, jwt);
    return { kind, ...jwt };
  }
  if (kind === "api_key") {
    if (keys === undefined) environment.problem("SAGA_AUTH_API_KEYS", "is missing: SAGA_AUTH=api_key requires it");
    return { kind, keys: keys ?? [] };
  }
  return { kind: "off" };
}

function checkJwt(
  environment: Environment,
  jwt: { secret?: string | undefined; publicKey?: string | undefined },
): void {
  if ((jwt.secret === undefined) === (jwt.publicKey === undefined)) {
    environment.problem("SAGA_AUTH", "is jwt: it requires either SAGA_AUTH_JWT_SECRET or SAGA_AUTH_JWT_PUBLIC_KEY");
  }
  if (jwt.secret !== undefined && jwt.secret.length < SHORTEST_SECRET) {
    environment.problem("SAGA_AUTH_JWT_SECRET", `must have at least ${SHORTEST_SECRET} characters`);
  }
  if (jwt.publicKey !== undefined && !jwt.publicKey.includes("-----BEGIN PUBLIC KEY-----")) {
    environment.problem("SAGA_AUTH_JWT_PUBLIC_KEY", "must be a PEM public key");
  }
}

function readApiKeys(environment: Environment): readonly ApiKey[] | undefined {
  const value = environment.json("SAGA_AUTH_API_KEYS");
  if (value === undefined) return undefined;
  const keys = Array.isArray(value) ? value.map(apiKey) : [];
  if (keys.length > 0 && keys.every((key) => key !== undefined)) return keys;
  environment.problem(
    "SAGA_AUTH_API_KEYS",
    `must be a list of {"key": at least ${SHORTEST_API_KEY} characters, "role": ${ROLES.join("|")}, "tenant_id"?, "name"?}`,
  );
  return [];
}

function apiKey(value: unknown): ApiKey | undefined {
  const { key, role, tenant_id: tenantId, name, ...rest } = Object(value) as Record<string, unknown>;
  const known = ROLES.find((each) => each === role);
  if (typeof key !== "string" || key.length < SHORTEST_API_KEY || known === undefined) return undefined;
  if (!isOptionalText(tenantId) || !isOptionalText(name) || Object.keys(rest).length > 0) return undefined;
  return { key, role: known, ...(tenantId && { tenantId }), ...(name && { name }) };
}

function isOptionalText(value: unknown): value is string | undefined {
  return value === undefined || typeof value === "string";
}
