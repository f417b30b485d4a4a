// Who may reach the service and how they say who they are, as the settings have it. Without access control it listens on loopback only, unless the
// operator insists. Which names and sites a request may come by is decided in api/http/browsers.ts, and what a credential may do in access/.
import { readClaims, readTokens, type TokenSettings } from "./access-tokens.js";
import type { Environment } from "./environment.js";
import { isLoopback } from "./loopback.js";
import { type OidcSettings, readOidc } from "./oidc.js";

/** `off`: there is no access control. */
export type AccessMode = "off" | "on";

export const isAccessOn = ({ auth }: { readonly auth: AccessMode }): boolean => auth !== "off";

const KINDS = ["jwt", "api_key", "mtls"] as const;
/** A kind of credential. */
export type CredentialKind = (typeof KINDS)[number];

/** Requests of a credential. */
export interface RateSetting {
  readonly perSecond: number;
  /** At once, after a pause. */
  readonly burst: number;
}

export interface AccessSettings {
  /** `SAGA_AUTH` (off). */
  readonly auth: AccessMode;
  /** The kinds that `SAGA_AUTH` lists. None: it is off. */
  readonly credentials: readonly CredentialKind[];
  /** `SAGA_INSECURE` (off). The service may listen beyond loopback without access control. */
  readonly insecure: boolean;
  /** `SAGA_AUTH_ROLLOUT` (off). Nodes with and without access control may run side by side. */
  readonly authRollout: boolean;
  /** The `SAGA_AUTH_JWT_`, `SAGA_AUTH_JWKS_` and `SAGA_AUTH_CLAIM_` settings. Absent: no token is accepted. */
  readonly tokens?: TokenSettings | undefined;
  /** The `SAGA_OIDC_` settings. Absent: people cannot log in at an issuer. */
  readonly oidc?: OidcSettings | undefined;
  /** `SAGA_RATE_LIMIT`. Absent: there is none. */
  readonly rateLimit?: RateSetting | undefined;
  /** `SAGA_TRUSTED_PROXIES` (none). Proxies whose `X-Forwarded-For` names the client. */
  readonly trustedProxies: readonly string[];
}

const GONE = "is no setting any more: remove it.";
/** Settings of earlier releases, and what is said where one is set. */
export const RETIRED = {
  SAGA_AUTH_API_KEYS: `${GONE} API keys are made with saga key create and POST /api/v1/api_keys`,
  SAGA_AUTH_JWT_SECRET: `${GONE} The keys of tokens are read from SAGA_AUTH_JWKS_URL or SAGA_AUTH_JWKS_FILE`,
  SAGA_AUTH_JWT_PUBLIC_KEY: `${GONE} The keys of tokens are read from SAGA_AUTH_JWKS_URL or SAGA_AUTH_JWKS_FILE`,
};

/** A service that only seems protected is worse than one that does not start. */
export function readAccess(environment: Environment, host: string): AccessSettings {
  const credentials = readKinds(environment);
  const isOn = credentials.length > 0;
  for (const [name, sentence] of Object.entries(RETIRED)) environment.retired(name, sentence);
  const insecure = environment.flag("SAGA_INSECURE") ?? false;
  if (!isOn && !insecure && !isLoopback(host)) environment.problem("HOST", UNPROTECTED);
  const claims = readClaims(environment);
  const tokens = readTokens(environment, { on: credentials.includes("jwt"), claims });
  return {
    ...{ auth: isOn ? "on" : "off", credentials, insecure, tokens },
    authRollout: environment.flag("SAGA_AUTH_ROLLOUT") ?? false,
    oidc: readOidc(environment, { on: isOn, claims, tokens }),
    rateLimit: readRate(environment),
    trustedProxies: environment.blocks("SAGA_TRUSTED_PROXIES") ?? [],
  };
}

const UNPROTECTED =
  "is beyond loopback, and there is no access control: set SAGA_AUTH to the kinds of credentials (api_key, jwt), listen on 127.0.0.1, or set SAGA_INSECURE=1 if anyone who can reach the service may do everything";

function readKinds(environment: Environment): readonly CredentialKind[] {
  const text = environment.text("SAGA_AUTH") ?? "off";
  if (text === "off") return [];
  const names = text.split(",").map((name) => name.trim());
  const kinds = KINDS.filter((kind) => names.includes(kind));
  const problem = (sentence: string) => environment.problem("SAGA_AUTH", sentence);
  if (names.some((name) => !(KINDS as readonly string[]).includes(name)))
    problem(`must be off, or a list of ${KINDS.join(", ")}, separated by commas`);
  else if (kinds.length === 1 && kinds[0] === "mtls")
    problem("needs jwt or api_key beside mtls: the HTTP API takes no certificates");
  return kinds;
}

const MOST_REQUESTS = 1_000_000;

/** `10/s`, or `10/s,50`: so many a second, and so many at once. */
function readRate(environment: Environment): RateSetting | undefined {
  const text = environment.text("SAGA_RATE_LIMIT");
  if (text === undefined) return undefined;
  const [, perSecond = "", burst = perSecond] = /^(\d{1,7})\/s(?:,(\d{1,7}))?$/.exec(text) ?? [];
  const rate = { perSecond: Number(perSecond), burst: Number(burst) };
  if (Object.values(rate).every((number) => number >= 1 && number <= MOST_REQUESTS)) return rate;
  environment.problem(
    "SAGA_RATE_LIMIT",
    `must be like 10/s, or 10/s,50 with a burst: numbers from 1 to ${MOST_REQUESTS}`,
  );
  return undefined;
}

interface Exposure extends Pick<AccessSettings, "auth" | "authRollout" | "insecure"> {
  readonly host: string;
  readonly publicUrl: string;
  readonly allowedHosts: readonly string[];
  readonly tls?: object | undefined;
}

/** What the log of the start says about the access control: one warning where there is none, or where it does not hold. */
export function accessWarnings(exposure: Exposure): readonly string[] {
  const { auth, authRollout, insecure, host, publicUrl, allowedHosts, tls } = exposure;
  const rollout = authRollout ? [ROLLOUT] : [];
  if (auth === "off") return [openness({ host, allowedHosts }), ...rollout];
  const isInClear = tls === undefined && !isLoopback(host) && !/^https:/i.test(publicUrl);
  return [...(isInClear ? [IN_CLEAR] : []), ...(insecure ? [NOT_INSECURE] : []), ...rollout];
}

const IN_CLEAR =
  "SAGA_AUTH is on without TLS: whoever can listen to the network reads credentials; set SAGA_TLS_CERT_FILE, or set SAGA_PUBLIC_URL to the https:// address of the proxy that ends TLS";
const NOT_INSECURE = "SAGA_INSECURE has no effect, because SAGA_AUTH is on: remove it";
const ROLLOUT =
  "SAGA_AUTH_ROLLOUT is on: nodes without access control may run beside nodes with it, and anyone who reaches one of those can do everything; remove it when all nodes have the same SAGA_AUTH";

function openness({ host, allowedHosts }: Pick<Exposure, "host" | "allowedHosts">): string {
  if (isLoopback(host)) return "SAGA_AUTH is off: anyone who can reach this service can do everything";
  const pages =
    allowedHosts.length > 0 ? "" : ", and so can a web page in their browsers until SAGA_ALLOWED_HOSTS is set";
  return `SAGA_AUTH is off and SAGA_INSECURE is on: anyone who can reach this service at ${host} can do everything${pages}`;
}
