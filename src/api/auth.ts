// Sessions of browsers over HTTP: opened for an API key or by a login at the issuer, read, and closed. How sessions are kept is access/'s matter,
// and when their cookie counts is http/credentials.ts's. No answer of these routes may be kept.
import type { FastifyReply, FastifyRequest } from "fastify";
import * as Type from "typebox";
import { type Principal, Unauthenticated } from "../access/index.js";
import { LOGIN_SECONDS, LONGEST_SESSION_MS } from "../access/sessions.js";
import { badRequest, forbidden, notConfigured } from "../errors.js";
import type { ApiDeps } from "./deps.js";
import { type AccessOptions, addressOf, hasPlace, identify, NO_TENANT } from "./http/access.js";
import { NoMembers } from "./http/body.js";
import { cookieIn } from "./http/credentials.js";
import { PAGE_POLICY } from "./http/headers.js";
import { refuseKey } from "./http/idempotency.js";
import { query, Text } from "./http/parameters.js";
import { empty, one, responses } from "./http/responses.js";
import type { Api } from "./http/validation.js";

const CALLBACK = "/auth/callback";
const HOME = "/console";
/** The server ends a session before that, or the browser forgets it. */
const SESSION_SECONDS = LONGEST_SESSION_MS / 1_000;

export function authRoutes(app: Api, deps: ApiDeps, access: AccessOptions): void {
  app.addHook("onRequest", (request, _reply, done) => {
    refuseKey(request);
    done();
  });
  // Also of what is refused before a hook of these routes.
  app.addHook("onSend", (_request, reply, _payload, done) => {
    reply.header("Cache-Control", "no-store");
    done();
  });
  const cookies = new SessionCookies(deps, access);
  exchangeRoute(app, deps, access, cookies);
  readRoute(app, access);
  logoutRoute(app, cookies);
  loginRoute(app, deps, access);
  callbackRoute(app, deps, access, cookies);
}

const Exchange = Type.Object({ api_key: Type.String({ minLength: 1, maxLength: 256 }) });

function exchangeRoute(app: Api, { verifier }: ApiDeps, access: AccessOptions, cookies: SessionCookies): void {
  const schema = {
    tags: ["access"],
    "x-saga-role": "public" as const,
    summary: "Open a session for an API key: the cookie of the answer is its credential",
    body: Exchange,
    response: responses({ 200: one("What the session may do.", "Principal") }, 400, 401, 413, 415, 429, 501),
  };
  // Another site must not log its visitor in.
  const onRequest = async (request: FastifyRequest) => {
    if (!access.cookies.sites.isOwnOrigin(request)) throw forbidden("a session is opened by our own pages only");
  };
  app.post("/auth/session", { schema, onRequest }, async (request, reply) => {
    if (!verifier) throw notConfigured("SAGA_AUTH is off: no session is needed");
    const principal = await verifier.verify(request.body.api_key, () => addressOf(request, access));
    if (principal.kind !== "key") throw new Unauthenticated("what was to be exchanged for a session is no API key");
    access.rate?.take(principal);
    return item(await cookies.open(principal, request, reply));
  });
}

function readRoute(app: Api, access: AccessOptions): void {
  const schema = {
    tags: ["access"],
    "x-saga-role": "public" as const,
    summary: "Get who asks, by a session or another credential",
    response: responses({ 200: one("Who asks.", "Principal") }, 400, 401, 429),
  };
  app.get("/auth/session", { schema }, async (request) => item(await identify(request, access)));
}

function logoutRoute(app: Api, cookies: SessionCookies): void {
  const schema = {
    tags: ["access"],
    "x-saga-role": "credential" as const,
    summary: "Close the session, with its streams",
    body: NoMembers,
    response: responses({ 204: empty("There is no session.") }, 400, 413, 415),
  };
  app.post("/auth/logout", { schema }, async (request, reply) => {
    await cookies.close(request, reply);
    return reply.status(204).send();
  });
}

function loginRoute(app: Api, { login }: ApiDeps, { cookies }: AccessOptions): void {
  const schema = {
    tags: ["access"],
    "x-saga-role": "public" as const,
    summary: "Log in at the issuer: a browser is sent there, and comes back to the callback",
    querystring: query({ next: Text({ max: 1_024 }) }),
    response: responses({ 302: empty("To the issuer.") }, 400, 501),
  };
  app.get("/auth/login", { schema, exposeHeadRoute: false }, async ({ query: { next = HOME } }, reply) => {
    if (!login) throw notConfigured("there is no issuer to log in at: SAGA_OIDC_CLIENT_ID is not set");
    const { url, kept } = await login.begin(ownPath(next));
    const lax = { ...cookieOptions(cookies.isSecure), sameSite: "lax", maxAge: LOGIN_SECONDS } as const;
    return reply.setCookie(cookies.login, kept, lax).redirect(url);
  });
}

function callbackRoute(app: Api, { login }: ApiDeps, access: AccessOptions, cookies: SessionCookies): void {
  const { cookies: names } = access;
  const content = { "text/html": { schema: { type: "string" } } };
  const schema = {
    tags: ["access"],
    "x-saga-role": "public" as const,
    summary: "Come back from the issuer: opens a session, and is a page that goes on to the one asked for",
    response: responses({ 200: { description: "The page that goes on.", content } }, 400, 401, 429, 501),
  };
  // What the issuer adds is its own matter, and is checked where it is read.
  const validatorCompiler = () => () => true;
  app.get(CALLBACK, { schema, validatorCompiler, exposeHeadRoute: false }, async (request, reply) => {
    if (!login) throw notConfigured("there is no issuer to log in at: SAGA_OIDC_CLIENT_ID is not set");
    const [, search = ""] = request.url.split("?", 2);
    const { principal, next } = await login.finish(search, cookieIn(request, names.login), addressOf(request, access));
    reply.clearCookie(names.login, cookieOptions(names.isSecure));
    await cookies.open(principal, request, reply);
    reply.headers({ "content-type": "text/html; charset=utf-8", "content-security-policy": PAGE_POLICY });
    return reply.serializer(String).send(pageTo(next));
  });
}

/** The cookie of a session, and the session itself. */
class SessionCookies {
  constructor(
    private readonly deps: Pick<ApiDeps, "sessions">,
    private readonly access: AccessOptions,
  ) {}

  /** The session before it is closed: its id is known to whoever could set cookies then. */
  async open(principal: Principal, request: FastifyRequest, reply: FastifyReply): Promise<Principal> {
    const { sessions } = this.deps;
    if (!sessions) throw notConfigured("the service is composed without sessions");
    if (!hasPlace(principal)) throw forbidden(NO_TENANT);
    const { session: name, isSecure } = this.access.cookies;
    const before = cookieIn(request, name);
    if (before !== undefined) await sessions.close(before);
    const opened = await sessions.open(principal);
    request.did("session opened", {}, opened.principal);
    reply.setCookie(name, opened.id, { ...cookieOptions(isSecure), sameSite: "strict", maxAge: SESSION_SECONDS });
    return opened.principal;
  }

  async close(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const { session: name, isSecure, sites } = this.access.cookies;
    // Also beside the header Authorization, which is the credential then: the cookie is cleared, so its session must not go on.
    const id = this.access.verifier && sites.isOwnPage(request) ? cookieIn(request, name) : undefined;
    if (id !== undefined) {
      await this.deps.sessions?.close(id);
      request.did("session closed", {});
    }
    reply.clearCookie(name, cookieOptions(isSecure));
  }
}

const cookieOptions = (isSecure: boolean) => ({ path: "/", httpOnly: true, secure: isSecure }) as const;

/** A path of this service. An address of another one would make this service the beginning of someone's trap. */
function ownPath(next: string): string {
  const base = "http://here.invalid";
  const url = URL.parse(next, base);
  const path = url ? `${url.pathname}${url.search}${url.hash}` : "";
  // `/.//evil.example` is a path, and `//evil.example` is none.
  if (next.startsWith("/") && url?.origin === base && !path.startsWith("//")) return path;
  throw badRequest("next must be a path of this service", [{ path: "next", message: "must begin with one /" }]);
}

/** A redirect would come from the issuer's site, and the browser would not send the cookie with it. */
function pageTo(next: string): string {
  const to = next.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Logged in</title><meta http-equiv="refresh" content="0;url=${to}">
<p>You are logged in. <a href="${to}">Go on</a></p></html>
`;
}

/** As the OpenAPI document has it. */
function item({ kind, sub, roles, tenantId, tenants, workflows, services, secrets, expiresAt }: Principal) {
  return {
    ...{ kind, sub, roles: [...roles] },
    ...(tenantId !== undefined && { tenant_id: tenantId }),
    ...(tenants && { tenants }),
    ...(workflows && { workflows: workflows.texts }),
    ...(services.texts.length > 0 && { services: services.texts }),
    ...(secrets.texts.length > 0 && { secrets: secrets.texts }),
    ...(expiresAt !== undefined && { expires_at: new Date(expiresAt).toISOString() }),
  };
}
