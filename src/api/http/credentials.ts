// Where the credential of a request is: in the header Authorization; of a WebSocket also in a subprotocol or in the query, because browsers can
// set no header there; else in the cookie of a session, if the request is our own page's. Whether it is accepted is decided in access/.
import type { FastifyRequest } from "fastify";
import * as Type from "typebox";
import { Unauthenticated } from "../../access/index.js";
import { isLoopback } from "../../config/index.js";
import { badRequest } from "../../errors.js";
import type { Access } from "../deps.js";
import type { Sites } from "./browsers.js";

const STREAM_PROTOCOL = "saga.v1";
const TOKEN_PROTOCOL = "bearer.";

/** The answer to the subprotocols of a handshake: a token is never echoed. A browser gives up where none of those that it named is answered. */
export const chooseProtocol = (named: ReadonlySet<string>): string | false =>
  named.has(STREAM_PROTOCOL) ? STREAM_PROTOCOL : false;

export interface Credential {
  readonly kind: "bearer" | "session";
  readonly text: string;
}

export interface Cookies {
  /** The name of the session's cookie. */
  readonly session: string;
  /** Of that of a login in progress. */
  readonly login: string;
  readonly isSecure: boolean;
  readonly sites: Sites;
}

/** Browsers keep a cookie of the prefix only if it came over TLS, and for this host alone. On a machine of one's own there is no TLS. */
export function cookieNames({ publicUrl }: Pick<Access, "publicUrl">): Omit<Cookies, "sites"> {
  const { protocol, hostname } = new URL(publicUrl);
  const isSecure = protocol !== "http:" || !isLoopback(hostname.replace(/^\[|\]$/g, ""));
  const prefix = isSecure ? "__Host-" : "";
  return { session: `${prefix}saga`, login: `${prefix}saga-login`, isSecure };
}

export function cookieIn({ headers: { cookie }, server }: FastifyRequest, name: string): string | undefined {
  return cookie === undefined ? undefined : server.parseCookie(cookie)[name];
}

/** Undefined: the request has none. Throws Unauthenticated where it cannot be read, and 400 where there are two. */
export function credentialOf(request: FastifyRequest, cookies: Cookies): Credential | undefined {
  const inHeader = bearerOf(request);
  const inHandshake = isHandshake(request) ? handshakeTokens(request) : [];
  if (inHandshake.length > (inHeader === undefined ? 1 : 0))
    throw badRequest("the handshake has more than one credential: send one");
  const token = inHeader ?? inHandshake[0];
  if (token !== undefined) return { kind: "bearer", text: token };
  const id = sessionOf(request, cookies);
  return id === undefined ? undefined : { kind: "session", text: id };
}

const BEARER = /^bearer +(\S+) *$/i;

function bearerOf({ headers: { authorization } }: FastifyRequest): string | undefined {
  if (authorization === undefined) return undefined;
  const [, token] = BEARER.exec(authorization) ?? [];
  if (token === undefined) throw new Unauthenticated("the header Authorization is no bearer");
  return token;
}

/** Of a route that is a WebSocket: Node was shown no other one (upgrades.ts). */
export const isHandshake = ({ raw }: FastifyRequest): boolean => "upgrade" in raw && raw.upgrade === true;

function handshakeTokens({ headers, query }: FastifyRequest): readonly string[] {
  const protocols = (headers["sec-websocket-protocol"] ?? "").split(",").map((name) => name.trim());
  const named = protocols
    .filter((name) => name.startsWith(TOKEN_PROTOCOL))
    .map((name) => name.slice(TOKEN_PROTOCOL.length));
  const { access_token: asked } = query as { readonly access_token?: string | readonly string[] };
  return [...named, ...(asked === undefined ? [] : [asked].flat())];
}

/** The token in the query of a handshake. Other routes know no such parameter. */
export const ACCESS_TOKEN = {
  access_token: Type.String({
    minLength: 1,
    maxLength: 16_384,
    description: "The credential, for clients that can set neither the header Authorization nor a subprotocol.",
  }),
};

const SAFE: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS"]);

/** A browser sends cookies whoever makes it ask: the cookie counts only in what comes from our own pages. */
function sessionOf(request: FastifyRequest, { session, sites }: Cookies): string | undefined {
  const { origin } = request.headers;
  const id = cookieIn(request, session);
  if (id === undefined) return undefined;
  // A read of our page names no origin. Another site's cannot have its answer, and has no such cookie (SameSite).
  const isRead = SAFE.has(request.method) && origin === undefined && !isHandshake(request);
  if (isRead || (isHandshake(request) ? sites.isOwnOrigin(request) : sites.isOwnPage(request))) return id;
  throw new Unauthenticated("the cookie of a session came without an origin of our own");
}
