// The settings of tokens (JWT): who issues them, for whom, where the issuer's keys are, and which claims say what. What is done with a token
// is the matter of access/.
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import type { Environment } from "./environment.js";
import { isLoopback } from "./loopback.js";

/** Where the keys of the issuer are. `file` is an absolute path. */
export type KeysAt = { readonly url: string } | { readonly file: string };

/** The path of each claim: the name of a member, or names with dots between them. */
export interface ClaimPaths {
  readonly roles: string;
  readonly tenantId: string;
  readonly tenants: string;
  readonly workflows: string;
  readonly services: string;
  readonly secrets: string;
}

export interface TokenSettings {
  /** `SAGA_AUTH_JWT_ISSUER`. */
  readonly issuer: string;
  /** `SAGA_AUTH_JWT_AUDIENCE`. */
  readonly audience: string;
  /** `SAGA_AUTH_JWKS_URL` or `SAGA_AUTH_JWKS_FILE`. */
  readonly keysAt: KeysAt;
  /** `SAGA_AUTH_JWKS_REFRESH_MS` (600000). */
  readonly refreshMs: number;
  /** The `SAGA_AUTH_CLAIM_` settings. */
  readonly claims: ClaimPaths;
}

const ISSUER = "SAGA_AUTH_JWT_ISSUER";
const AUDIENCE = "SAGA_AUTH_JWT_AUDIENCE";
const KEYS_URL = "SAGA_AUTH_JWKS_URL";
export const KEYS_FILE = "SAGA_AUTH_JWKS_FILE";
/** Keys are kept for a day while their issuer is away, so they are read more often than that. */
const REFRESH = { min: 1_000, max: 43_200_000 };
const MOST_PATH = 200;

/**
 * Undefined: the settings do not make sense together, and the problems of the environment say why; or tokens are off, and only the names of the
 * settings become known.
 */
export function readTokens(
  environment: Environment,
  { on, claims }: { readonly on: boolean; readonly claims: ClaimPaths },
): TokenSettings | undefined {
  const issuer = environment.text(ISSUER);
  const audience = environment.text(AUDIENCE);
  const keysAt = readKeysAt(environment, on);
  const refreshMs = environment.integer("SAGA_AUTH_JWKS_REFRESH_MS", REFRESH) ?? 600_000;
  if (!on) return undefined;
  for (const [name, text] of [
    [ISSUER, issuer],
    [AUDIENCE, audience],
  ] as const)
    if (text === undefined) environment.problem(name, "is missing: SAGA_AUTH has jwt");
  if (issuer === undefined || audience === undefined || keysAt === undefined) return undefined;
  return { issuer, audience, keysAt, refreshMs, claims };
}

function readKeysAt(environment: Environment, on: boolean): KeysAt | undefined {
  const url = environment.url(KEYS_URL, ["https", "http"]);
  const path = environment.text(KEYS_FILE);
  if (!on) return undefined;
  if (url !== undefined && path !== undefined) {
    environment.problem(KEYS_FILE, `and ${KEYS_URL} are both set: keep one of them`);
    return undefined;
  }
  if (url !== undefined) return readUrl(environment, url);
  if (path !== undefined) return readFile(environment, resolve(path));
  // A URL that is not valid is a problem already.
  if (!environment.problems.some((line) => line.startsWith(KEYS_URL)))
    environment.problem(KEYS_URL, `is missing, and so is ${KEYS_FILE}: SAGA_AUTH has jwt`);
  return undefined;
}

function readUrl(environment: Environment, text: string): KeysAt | undefined {
  const { protocol, hostname, username, password } = new URL(text);
  if (username !== "" || password !== "") environment.problem(KEYS_URL, "must not contain credentials");
  if (protocol === "http:" && !isLoopback(hostname.replace(/^\[|\]$/g, "")))
    environment.problem(KEYS_URL, "must begin with https://: only on loopback may it be http://");
  return { url: text };
}

/** What is in it is checked when it is read as keys, at the start as well. */
function readFile(environment: Environment, file: string): KeysAt | undefined {
  try {
    if (readFileSync(file, "utf8").trim() === "") environment.problem(KEYS_FILE, "names an empty file");
  } catch (error) {
    environment.problem(KEYS_FILE, `names a file that cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
  return { file };
}

/** Of tokens, and of the ID tokens of logins. */
export function readClaims(environment: Environment): ClaimPaths {
  const path = (name: string, otherwise: string) => {
    const text = environment.text(name) ?? otherwise;
    if (text.length > MOST_PATH) environment.problem(name, `must be at most ${MOST_PATH} characters`);
    return text;
  };
  return {
    roles: path("SAGA_AUTH_CLAIM_ROLES", "roles"),
    tenantId: path("SAGA_AUTH_CLAIM_TENANT_ID", "tenant_id"),
    tenants: path("SAGA_AUTH_CLAIM_TENANTS", "tenants"),
    workflows: path("SAGA_AUTH_CLAIM_WORKFLOWS", "workflows"),
    services: path("SAGA_AUTH_CLAIM_SERVICES", "services"),
    secrets: path("SAGA_AUTH_CLAIM_SECRETS", "secrets"),
  };
}
