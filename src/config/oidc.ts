// The settings of the login of people at an issuer (OpenID Connect). What is done with them is the matter of access/.
import type { ClaimPaths, TokenSettings } from "./access-tokens.js";
import type { Environment } from "./environment.js";
import { isLoopback } from "./loopback.js";

export interface OidcSettings {
  /** `SAGA_OIDC_ISSUER` (that of the tokens). */
  readonly issuer: string;
  /** `SAGA_OIDC_CLIENT_ID`. */
  readonly clientId: string;
  /** `SAGA_OIDC_CLIENT_SECRET`. Absent: a client without one. */
  readonly clientSecret?: string | undefined;
  /** As those of tokens. */
  readonly claims: ClaimPaths;
  /** In place of what the discovery of the issuer names, which may be on another origin then. */
  readonly addresses: OidcAddresses;
}

/** By their names in the discovery. */
export interface OidcAddresses {
  /** `SAGA_OIDC_AUTHORIZATION_URL`. */
  readonly authorization_endpoint?: string;
  /** `SAGA_OIDC_TOKEN_URL`. */
  readonly token_endpoint?: string;
  /** `SAGA_OIDC_JWKS_URL`. */
  readonly jwks_uri?: string;
}

const ISSUER = "SAGA_OIDC_ISSUER";
const CLIENT_ID = "SAGA_OIDC_CLIENT_ID";
const ADDRESSES: Readonly<Record<keyof OidcAddresses, string>> = {
  authorization_endpoint: "SAGA_OIDC_AUTHORIZATION_URL",
  token_endpoint: "SAGA_OIDC_TOKEN_URL",
  jwks_uri: "SAGA_OIDC_JWKS_URL",
};
const UNSAFE = "must be a URL that begins with https://: only on loopback may it be http://";

interface Beside {
  /** Access control is on. */
  readonly on: boolean;
  readonly claims: ClaimPaths;
  readonly tokens: TokenSettings | undefined;
}

/** Undefined: people cannot log in, or the problems of the environment say why not. */
export function readOidc(environment: Environment, { on, claims, tokens }: Beside): OidcSettings | undefined {
  const issuer = environment.text(ISSUER) ?? tokens?.issuer;
  const clientId = environment.text(CLIENT_ID);
  const clientSecret = environment.text("SAGA_OIDC_CLIENT_SECRET");
  const addresses = readAddresses(environment);
  if (!on || clientId === undefined) return undefined;
  if (issuer === undefined) {
    environment.problem(ISSUER, `is missing, and so is SAGA_AUTH_JWT_ISSUER: ${CLIENT_ID} is set`);
    return undefined;
  }
  if (!isSafeUrl(issuer)) environment.problem(ISSUER, UNSAFE);
  // A token of an API is no proof that its bearer has logged in here, nor the other way round.
  if (clientId === tokens?.audience) environment.problem(CLIENT_ID, "must differ from SAGA_AUTH_JWT_AUDIENCE");
  return { issuer, clientId, clientSecret, claims, addresses };
}

function readAddresses(environment: Environment): OidcAddresses {
  const given = Object.entries(ADDRESSES).flatMap(([name, setting]) => {
    const address = environment.text(setting);
    if (address !== undefined && !isSafeUrl(address)) environment.problem(setting, UNSAFE);
    return address === undefined ? [] : [[name, address] as const];
  });
  return Object.fromEntries(given);
}

function isSafeUrl(text: string): boolean {
  const url = URL.parse(text);
  if (url === null || url.username !== "" || url.password !== "") return false;
  return url.protocol === "https:" || (url.protocol === "http:" && isLoopback(url.hostname.replace(/^\[|\]$/g, "")));
}
