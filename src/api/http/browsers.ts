// What a web page must not get of this service. Anyone's page can make its visitor's browser send requests to this machine, and can
// make a name of its own resolve to it. A request is therefore refused before anything of it is read if its `Host` is not a name of
// this service, or if the browser says that another site makes it. Programs that are no browsers send no such headers, and pass.
import { isIP } from "node:net";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { isLoopback } from "../../config/index.js";
import { hostMatcher } from "../../egress/guard.js";
import { badRequest, forbidden, misdirected } from "../../errors.js";
import type { Access } from "../deps.js";
import { routeOf } from "./routes.js";

const LOOPBACK: readonly string[] = ["localhost", "127.0.0.0/8", "::1"];

export function refuseOtherSites(app: FastifyInstance, access: Access, sites: Sites): void {
  const isOurName = nameCheck(access);
  app.addHook("onRequest", (request, reply, done) => {
    const { host } = request.headers;
    if (host === undefined && request.raw.httpVersion !== "1.0") throw badRequest("the header Host is missing");
    // Clients of a Unix socket have no host to name. A browser always has one.
    if (host && !isOurName(hostOf(host))) throw misdirected(NOT_OURS);
    if (!sites.mayAsk(request)) throw forbidden(OTHER_SITE);
    if (sites.isAllowed(request.headers.origin) && answerAcrossOrigins(request, reply)) return;
    done();
  });
}

const NOT_OURS = "the header Host is not a name of this service; SAGA_ALLOWED_HOSTS adds names";
const OTHER_SITE = "the browser says that another site makes this request; SAGA_ALLOWED_ORIGINS allows sites";

/** Whether a name of `Host`, without its port, is one of this service. A service that listens wide has many names. */
function nameCheck({ host, publicUrl, allowedHosts }: Access): (name: string | undefined) => boolean {
  if (!isLoopback(host) && allowedHosts.length === 0) return () => true;
  const isListed = hostMatcher([...LOOPBACK, bare(new URL(publicUrl).hostname), ...allowedHosts]);
  return (name) => name !== undefined && (isListed(name) || /\.localhost\.?$/i.test(name));
}

/** The host of a `Host` header, without port and brackets. Undefined: the header is no host. */
function hostOf(header: string): string | undefined {
  const [, name] = /^(\[[\da-f:.]+\]|[\w.-]+)(?::\d{1,5})?$/i.exec(header) ?? [];
  const host = name && bare(name);
  return name?.startsWith("[") && isIP(host ?? "") !== 6 ? undefined : host;
}

const bare = (host: string) => (host.startsWith("[") ? host.slice(1, -1) : host);

export class Sites {
  private readonly allowed: ReadonlySet<string>;
  private readonly own: string;

  constructor({ publicUrl, allowedOrigins }: Access) {
    this.allowed = new Set(allowedOrigins);
    this.own = new URL(publicUrl).origin;
  }

  isAllowed(origin: string | undefined): boolean {
    return origin !== undefined && this.allowed.has(origin);
  }

  mayAsk(request: FastifyRequest): boolean {
    const { origin, "sec-fetch-site": site } = request.headers;
    if (origin !== undefined) return this.isAllowed(origin) || this.isOwn(origin, request);
    return site === undefined || site === "same-origin" || site === "none" || isLinkToPage(request);
  }

  /** The browser names our own page. One without the header is no browser, or says nothing. */
  isOwnOrigin(request: FastifyRequest): boolean {
    const { origin } = request.headers;
    return origin !== undefined && this.isOwn(origin, request);
  }

  /** Likewise, or without naming it. */
  isOwnPage(request: FastifyRequest): boolean {
    const { origin, "sec-fetch-site": site } = request.headers;
    return origin === undefined ? site === "same-origin" : this.isOwn(origin, request);
  }

  /**
   * A proxy may end TLS, so over plain HTTP the scheme of an origin tells nothing; behind one that changes `Host` there is the public URL. Over
   * TLS our pages are https, and one that came to the browser without TLS may be anyone's.
   */
  private isOwn(origin: string, { protocol, headers: { host = "" } }: FastifyRequest): boolean {
    if (origin === this.own) return true;
    const url = URL.parse(origin);
    if (protocol === "https" && url?.protocol !== "https:") return false;
    return url !== null && url.host !== "" && url.host === URL.parse(`${url.protocol}//${host}`)?.host;
  }
}

/** A person follows a link. What is shown is out of the reach of the page that has the link; the API has no pages. */
function isLinkToPage(request: FastifyRequest): boolean {
  const { method, headers } = request;
  const isLink = headers["sec-fetch-mode"] === "navigate" && headers["sec-fetch-dest"] === "document";
  // By the route that was matched: the text of a URL may be encoded.
  return isLink && method === "GET" && !routeOf(request).url?.startsWith("/api/");
}

const CORS = {
  Vary: "Origin",
  "Access-Control-Expose-Headers": "Location, Retry-After, Allow, X-Request-Id, Saga-Ignored-Fields",
};
const PREFLIGHT = {
  "Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
  "Access-Control-Allow-Headers": "Content-Type, Idempotency-Key, Authorization",
  "Access-Control-Max-Age": "600",
};

function answerAcrossOrigins({ method, headers }: FastifyRequest, reply: FastifyReply): FastifyReply | undefined {
  reply.headers({ ...CORS, "Access-Control-Allow-Origin": headers.origin });
  if (method !== "OPTIONS" || headers["access-control-request-method"] === undefined) return undefined;
  return reply.status(204).headers(PREFLIGHT).send();
}
