// The verifier of tokens: JWTs that the configured issuer has signed for this service. It knows no session, and issues nothing.
//
// Invariants
// - The algorithm is one of a fixed list, the key is one that the issuer publishes for it, and nothing in a token says where a key is.
// - A token that was verified is good until its `exp`, or until its key goes; then it is verified anew.
// - No token is kept: what was verified is known by its hash.
import { decodeProtectedHeader, errors, type JWTPayload, jwtVerify, type ProtectedHeaderParameters } from "jose";
import { isObject, WeightedCache, YEAR_9999_END_S } from "../../machines/index.js";
import type { ClaimPaths, TokenSettings } from "../config/index.js";
import type { IssuerKey, IssuerKeys } from "./issuer-keys.js";
import type { Principal } from "./principal.js";
import { readRights } from "./rights.js";
import { type DigestVerifier, digestOf, Unauthenticated } from "./verifier.js";

/** Characters of a token. Servers take 16 KiB of headers. */
const LONGEST = 8_192;
/** The clocks of issuers differ from the database's by this much. */
const TOLERANCE_S = 30;
/** What is kept of tokens, in characters: their hash, and the lists of ids in them. */
const KEPT_CHARS = 16 * 1024 * 1024;
const LONGEST_SUB = 255;
/** Postgres cannot store U+0000, nor half of a surrogate pair. */
const isStorable = (text: string) => !text.includes("\u0000") && !/\p{Surrogate}/u.test(text);

/** Headers by which a token would bring its own key, or change how it is read. */
const REFUSED_HEADERS = ["jku", "x5u", "jwk", "x5c", "crit"];

export interface TokensOptions {
  readonly settings: Pick<TokenSettings, "issuer" | "audience" | "claims">;
  readonly keys: Pick<IssuerKeys, "keyFor">;
  /** Database time, epoch milliseconds. */
  readonly now: () => number;
}

interface Verified {
  readonly principal: Principal;
  readonly key: IssuerKey;
  /** Epoch milliseconds. */
  readonly until: number;
}

export class Tokens implements DigestVerifier {
  private readonly verified = new WeightedCache<string, Verified>(KEPT_CHARS);

  constructor(private readonly options: TokensOptions) {}

  verify(token: string, digest = digestOf(token)): Principal | Promise<Principal> {
    if (token.length > LONGEST) throw new Unauthenticated("oversized token");
    const known = this.verified.get(digest);
    if (!known) return this.check(token, digest);
    if (!known.key.gone.aborted && this.options.now() < known.until) return known.principal;
    this.verified.delete(digest);
    return this.check(token, digest);
  }

  private async check(token: string, digest: string): Promise<Principal> {
    const { settings, keys, now } = this.options;
    const { algorithm, id } = readHeader(token);
    const key = await keys.keyFor({ algorithm, ...(id !== undefined && { id }) });
    const at = now();
    const claims = await verifiedClaims(token, key, algorithm, settings, at);
    const { sub, expMs } = readRegistered(claims, at);
    const principal: Principal = {
      // What goes on longer than a request ends when the token would be refused, and not before.
      ...{ kind: "user", sub, actor: `user:${sub}`, expiresAt: expMs + 1_000 * TOLERANCE_S, ended: key.gone },
      ...readRights(statedIn(claims, settings.claims)),
    };
    this.verified.set(digest, { principal, key, until: expMs }, token.length + digest.length);
    return principal;
  }
}

function readHeader(token: string): { readonly algorithm: string; readonly id?: string } {
  let header: ProtectedHeaderParameters;
  try {
    header = decodeProtectedHeader(token);
  } catch {
    throw new Unauthenticated("malformed token");
  }
  const refused = REFUSED_HEADERS.find((name) => Object.hasOwn(header, name));
  if (refused !== undefined) throw new Unauthenticated(`header ${refused} of a token`);
  const { alg, kid } = header as Readonly<Record<string, unknown>>;
  if (typeof alg !== "string") throw new Unauthenticated("algorithm of a token");
  if (kid !== undefined && typeof kid !== "string") throw new Unauthenticated("key id of a token");
  return { algorithm: alg, ...(kid !== undefined && { id: kid }) };
}

/** Signature, issuer, audience, `exp` and `nbf`. */
async function verifiedClaims(
  token: string,
  { key }: IssuerKey,
  algorithm: string,
  { issuer, audience }: TokensOptions["settings"],
  at: number,
): Promise<JWTPayload> {
  const options = { algorithms: [algorithm], issuer, audience, requiredClaims: ["exp", "sub"] };
  try {
    const times = { clockTolerance: TOLERANCE_S, currentDate: new Date(at) };
    return (await jwtVerify(token, key, { ...options, ...times })).payload;
  } catch (error) {
    if (error instanceof errors.JOSEError) throw new Unauthenticated(`token: ${error.code}`);
    throw error;
  }
}

/** What jose leaves: a time in the future, a time that is none, and a subject that cannot be stored. */
function readRegistered({ sub, exp, iat }: JWTPayload, at: number): { readonly sub: string; readonly expMs: number } {
  if (!isSubject(sub)) throw new Unauthenticated("sub of a token");
  if (exp === undefined || !Number.isSafeInteger(Math.floor(exp * 1_000))) throw new Unauthenticated("exp of a token");
  if (iat !== undefined && iat > Math.floor(at / 1_000) + TOLERANCE_S) throw new Unauthenticated("iat of a token");
  // Later than any time that can be said counts as the last one.
  return { sub, expMs: Math.min(Math.floor(exp * 1_000), YEAR_9999_END_S * 1_000) };
}

/** It names someone, and can be stored. */
export function isSubject(sub: unknown): sub is string {
  return typeof sub === "string" && sub !== "" && sub.length <= LONGEST_SUB && isStorable(sub);
}

/** The rights that the claims state. */
export function statedIn(claims: JWTPayload, paths: ClaimPaths) {
  const entries = Object.entries(paths).map(([name, path]) => [name, claimAt(claims, path)]);
  return Object.fromEntries(entries) as { readonly [Name in keyof ClaimPaths]: unknown };
}

/** A member of this name, which may have dots (`https://shop.example/roles`), or the members from dot to dot. Undefined: there is none. */
export function claimAt(claims: JWTPayload, path: string): unknown {
  if (Object.hasOwn(claims, path)) return claims[path];
  let value: unknown = claims;
  for (const name of path.split(".")) {
    if (!isObject(value) || !Object.hasOwn(value, name)) return undefined;
    value = value[name];
  }
  return value;
}
