// The login of people by OpenID Connect: the code flow with PKCE, between a browser, this service and the issuer. It reads rights from the ID
// token as from any token, keeps no token, and opens no session.
//
// Invariants
// - What a login began with (state, nonce, verifier, the page to go on to) is in a cookie that only this service can read, for ten minutes. A
//   callback without it, or of another login, is refused. On a node it is good for one callback: the issuer is asked once.
// - Every address is set by the operator, or is one that the issuer's discovery names, on the issuer's origin; and it is https unless that is this
//   machine. Nothing is redirected.

import { createHash } from "node:crypto";
import { EncryptJWT, jwtDecrypt } from "jose";
import * as client from "openid-client";
import { performance, wallTime } from "../ambient.js";
import { isLoopback, type OidcSettings } from "../config/index.js";
import { overloaded, type SagaError } from "../errors.js";
import type { Log } from "../log.js";
import type { Principal } from "./principal.js";
import { readRights } from "./rights.js";
import { LOGIN_SECONDS } from "./sessions.js";
import { isSubject, statedIn } from "./tokens.js";
import { Unauthenticated } from "./verifier.js";

export interface OidcOptions extends OidcSettings {
  /** As it is registered at the issuer. */
  readonly redirectUri: () => string;
  /** Of all nodes: a callback may come to another one. */
  readonly secret: string;
  readonly log: Log;
}

/** The beginning of a login. */
export interface Login {
  /** Where the browser goes. */
  readonly url: string;
  /** What it brings back, in a cookie. */
  readonly kept: string;
}

export interface LoggedIn {
  readonly principal: Principal;
  /** The page to go on to. */
  readonly next: string;
}

/** How long what discovery said is used. */
const DISCOVERED_MS = 3_600_000;
const ANSWERED_WITHIN_S = 5;
const MOST_BYTES = 256 * 1024;
/** The clocks of issuers differ by this much. */
const TOLERANCE_S = 30;
const CIPHER = { alg: "dir", enc: "A256GCM" } as const;

/** The logins of the last ten minutes whose callback has come, the newest. */
const MOST_FINISHED = 10_000;

export class OidcLogin {
  private readonly key: Uint8Array;
  /** By state: when its callback came. */
  private readonly finished = new Map<string, number>();
  private discovered: { readonly at: number; readonly issuer: Promise<client.Configuration> } | undefined;

  constructor(private readonly options: OidcOptions) {
    this.key = createHash("sha256").update(options.secret).digest();
  }

  /** `next`: a path of this service. Throws 503 where the issuer does not answer. */
  async begin(next: string): Promise<Login> {
    const issuer = await this.issuer();
    const [verifier, state, nonce] = [client.randomPKCECodeVerifier(), client.randomState(), client.randomNonce()];
    const url = client.buildAuthorizationUrl(issuer, {
      ...{ redirect_uri: this.options.redirectUri(), scope: "openid", state, nonce },
      ...{ code_challenge: await client.calculatePKCECodeChallenge(verifier), code_challenge_method: "S256" },
    });
    const kept = await new EncryptJWT({ next, verifier, state, nonce })
      .setProtectedHeader(CIPHER)
      .setExpirationTime(`${LOGIN_SECONDS} seconds`)
      .encrypt(this.key);
    return { url: url.href, kept };
  }

  /** `query`: of the callback. Throws Unauthenticated, or 503 where the issuer does not answer. */
  async finish(query: string, kept: string | undefined): Promise<LoggedIn> {
    const { next, verifier, state, nonce } = await this.opened(kept);
    // A link of another's page has not the state, and must not use the login up.
    if (new URLSearchParams(query).get("state") !== state) throw new Unauthenticated("login: the state is another one");
    this.useUp(state);
    const issuer = await this.issuer().catch((error: unknown) => {
      this.finished.delete(state);
      throw error;
    });
    const checks = { pkceCodeVerifier: verifier, expectedState: state, expectedNonce: nonce, idTokenExpected: true };
    const url = new URL(this.options.redirectUri());
    url.search = query;
    try {
      const claims = (await client.authorizationCodeGrant(issuer, url, checks)).claims();
      if (!claims || !isSubject(claims.sub)) throw new Unauthenticated("login: sub of the ID token");
      if (claims.iat > wallTime() / 1_000 + TOLERANCE_S) throw new Unauthenticated("login: iat of the ID token");
      const rights = readRights(statedIn(claims, this.options.claims));
      return { principal: { kind: "user", sub: claims.sub, actor: `user:${claims.sub}`, ...rights }, next };
    } catch (error) {
      const refusal = this.refusal(error);
      // The issuer was away: the code may be good still.
      if (!(refusal instanceof Unauthenticated)) this.finished.delete(state);
      throw refusal;
    }
  }

  private useUp(state: string): void {
    const now = performance.now();
    for (const [used, at] of this.finished) {
      if (now - at < LOGIN_SECONDS * 1_000 && this.finished.size < MOST_FINISHED) break;
      this.finished.delete(used);
    }
    if (this.finished.has(state)) throw new Unauthenticated("login: its callback has come before");
    this.finished.set(state, now);
  }

  private async opened(kept: string | undefined) {
    if (kept === undefined) throw new Unauthenticated("login: a callback that no login of this browser began");
    try {
      const { payload } = await jwtDecrypt<Begun>(kept, this.key);
      return payload;
    } catch {
      throw new Unauthenticated("login: it began too long ago, or elsewhere");
    }
  }

  /** Discovery again, where the last one has failed or is old. */
  private issuer(): Promise<client.Configuration> {
    const now = performance.now();
    if (this.discovered && now - this.discovered.at < DISCOVERED_MS) return this.discovered.issuer;
    const discovered = { at: now, issuer: discover(this.options) };
    this.discovered = discovered;
    return discovered.issuer.catch((error: unknown) => {
      if (this.discovered === discovered) this.discovered = undefined;
      throw this.away(error);
    });
  }

  /** What is wrong with the login is refused; whatever else fails is the issuer's fault, or the network's. */
  private refusal(error: unknown): unknown {
    if (error instanceof Unauthenticated) return error;
    if (error instanceof client.AuthorizationResponseError || isRefusedGrant(error))
      return new Unauthenticated(`login: the issuer says ${sayable(error.error)}`);
    const { code = "" } = error as { readonly code?: string };
    return REFUSED.has(code) ? new Unauthenticated(`login: ${code}`) : this.away(error);
  }

  private away(error: unknown): SagaError {
    const { code, message, error: said } = error as Partial<Record<"code" | "message" | "error", string>>;
    this.options.log.warn(
      { code, reason: said === undefined ? message : sayable(said) },
      "the issuer of logins cannot be used",
    );
    return overloaded("the issuer of logins does not answer as it should; try again");
  }
}

/** The code is no good. Of all else that the issuer may say, `invalid_client` for instance, the person is not the cause. */
const isRefusedGrant = (error: unknown): error is client.ResponseBodyError =>
  error instanceof client.ResponseBodyError && error.error === "invalid_grant";

interface Begun {
  readonly next: string;
  readonly verifier: string;
  readonly state: string;
  readonly nonce: string;
}

/** Of RFC 6749, sections 4.1.2.1 and 5.2, and OpenID Connect Core, 3.1.2.6. Others may be anything that a browser has brought. */
const CODES: ReadonlySet<string> = new Set([
  ...["invalid_request", "unauthorized_client", "access_denied", "unsupported_response_type", "invalid_scope"],
  ...["server_error", "temporarily_unavailable", "invalid_client", "invalid_grant", "unsupported_grant_type"],
  ...["interaction_required", "login_required", "account_selection_required", "consent_required"],
  ...["invalid_request_uri", "invalid_request_object", "request_not_supported", "request_uri_not_supported"],
  "registration_not_supported",
]);

const sayable = (code: string) => (CODES.has(code) ? code : "a code of its own");

/** Codes of the client that are about an ID token, or about a callback. */
const REFUSED: ReadonlySet<string> = new Set([
  ...["OAUTH_INVALID_RESPONSE", "OAUTH_INVALID_REQUEST", "OAUTH_UNSUPPORTED_OPERATION", "OAUTH_KEY_SELECTION_FAILED"],
  ...[
    "OAUTH_JWT_TIMESTAMP_CHECK_FAILED",
    "OAUTH_JWT_CLAIM_COMPARISON_FAILED",
    "OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED",
  ],
]);

async function discover({ issuer, clientId, clientSecret, addresses }: OidcSettings): Promise<client.Configuration> {
  const server = new URL(issuer);
  const insecure =
    server.protocol === "http:" && isLoopback(bare(server.hostname)) ? [client.allowInsecureRequests] : [];
  const options = { timeout: ANSWERED_WITHIN_S, execute: insecure, [client.customFetch]: boundedFetch };
  const metadata = { [client.clockTolerance]: TOLERANCE_S };
  const found = await client.discovery(server, clientId, metadata, client.None(), options);
  const named: client.ServerMetadata = found.serverMetadata();
  const known = { ...named, ...addresses };
  for (const name of ADDRESSES) {
    const address = known[name];
    const isForeign = address !== undefined && new URL(address).origin !== server.origin;
    if (isForeign && addresses[name] === undefined) throw new Error(`its ${name} is not on the origin of the issuer`);
  }
  const configured = new client.Configuration(known, clientId, metadata, authentication(clientSecret, known));
  configured.timeout = ANSWERED_WITHIN_S;
  configured[client.customFetch] = boundedFetch;
  for (const allow of insecure) allow(configured);
  // The signature of the ID token is verified, though it comes from the issuer itself.
  client.enableNonRepudiationChecks(configured);
  return configured;
}

const ADDRESSES = ["authorization_endpoint", "token_endpoint", "jwks_uri"] as const;
const bare = (hostname: string) => hostname.replace(/^\[|\]$/g, "");

/** `client_secret_basic` is what an issuer has that does not say what it has. */
function authentication(secret: string | undefined, known: client.ServerMetadata): client.ClientAuth {
  if (secret === undefined) return client.None();
  const { token_endpoint_auth_methods_supported: methods = ["client_secret_basic"] } = known;
  return methods.includes("client_secret_basic") ? client.ClientSecretBasic(secret) : client.ClientSecretPost(secret);
}

/** Without redirects, and of a bounded size. The time is bounded by the client. */
const boundedFetch: client.CustomFetch = async (url, options) => {
  const response = await fetch(url, { ...options, redirect: "error" } as RequestInit);
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length;
    if (bytes > MOST_BYTES) throw new Error("its answer is too large");
    chunks.push(chunk);
  }
  const { status, headers } = response;
  return new Response(status === 204 ? null : Buffer.concat(chunks), { status, headers });
};
