// Who asks, and whether they may: before a route is looked for the credential of a request becomes a principal, and once the route is known its
// need is compared with the principal's roles. Nothing of the body is read before. A route says its need in `x-saga-role` of its schema, and
// nowhere else; one that says none is refused.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import {
  ANYONE,
  type CallbackTokens,
  ClientAddresses,
  meets,
  type Need,
  needsNoTenant,
  type Principal,
  type RateLimit,
  type SecurityLog,
  sufficientRole,
  Unauthenticated,
  type Verifier,
} from "../../access/index.js";
import { forbidden, SagaError } from "../../errors.js";
import type { ApiDeps } from "../deps.js";
import { Sites } from "./browsers.js";
import { callbackOf, REPORTER } from "./callback.js";
import { type Cookies, cookieNames, credentialOf, isHandshake } from "./credentials.js";
import { refusalTo, sendAnswer, sendError } from "./envelope.js";
import { routeOf } from "./routes.js";

declare module "fastify" {
  interface FastifySchema {
    /** What the operation needs. */
    "x-saga-role"?: Need;
  }
  interface FastifyRequest {
    /** Who asks. Every request to a route that is not public has one. */
    principal: Principal;
    /** Notes in the security log what was done, and by whom. With access off nothing is noted. `principal`: where the route is public. */
    did(what: string, facts: Readonly<Record<string, unknown>>, principal?: Principal): void;
  }
}

/** How credentials become principals. */
export interface Identification {
  /** Absent: access is off, and anyone may do everything. */
  readonly verifier?: Verifier | undefined;
  /** Of the ids of sessions. Absent: there are none. */
  readonly sessions?: Verifier | undefined;
  readonly addresses: ClientAddresses;
  readonly cookies: Cookies;
}

export interface AccessOptions extends Identification {
  /** Absent: credentials may ask as often as they like. */
  readonly rate?: RateLimit | undefined;
  readonly security: SecurityLog;
  /** Absent: no dispatch has a token. */
  readonly callbacks?: Pick<CallbackTokens, "verify"> | undefined;
}

/** From the dependencies of the API. */
export function accessOf({
  config: { access },
  verifier,
  sessions,
  rate,
  security,
  callbacks,
}: AccessDeps): AccessOptions {
  return {
    ...{ verifier, sessions, rate, callbacks, security },
    addresses: new ClientAddresses(access.trustedProxies ?? []),
    cookies: { ...cookieNames(access), sites: new Sites(access) },
  };
}

type AccessDeps = Pick<ApiDeps, "config" | "verifier" | "sessions" | "rate" | "security" | "callbacks">;

/** The principal of a request, at once where its credential was verified before. Throws, or rejects, with Unauthenticated or SagaError. */
export function identify(request: FastifyRequest, access: Identification): Principal | Promise<Principal> {
  if (!access.verifier) return ANYONE;
  const credential = credentialOf(request, access.cookies);
  const verifier = credential?.kind === "session" ? access.sessions : access.verifier;
  if (!credential || !verifier) throw new Unauthenticated("there is no credential");
  return verifier.verify(credential.text, () => addressOf(request, access));
}

/** Before a route is looked for. */
export function authenticate(app: FastifyInstance, access: AccessOptions): void {
  app.decorateRequest("principal", null as never);
  app.decorateRequest("callback", undefined);
  app.decorateRequest("did", function (this: FastifyRequest, what, facts, principal = this.principal) {
    if (access.verifier) access.security.did(what, principal, { ...facts, ...whereOf(this, access) });
  });
  app.addHook("onRequest", (request, reply, done) => {
    if (!access.verifier) {
      request.principal = ANYONE;
      return done();
    }
    const need = needOf(request);
    if (need === "public") return done();
    const refuse = (error: unknown) => refuseCredential(error, request, reply);
    const admit = (principal: Principal) => {
      request.principal = principal;
      if (hasPlace(principal)) return done();
      refuse(forbidden(NO_TENANT));
    };
    try {
      request.callback = need === "callback" ? callbackOf(request, access.callbacks) : undefined;
      if (request.callback) {
        request.principal = REPORTER;
        return done();
      }
      const identified = identify(request, access);
      if (identified instanceof Promise) identified.then(admit, refuse);
      else admit(identified);
    } catch (error) {
      refuse(error);
    }
  });
}

/** Once the route is known. */
export function authorize(app: FastifyInstance, { verifier, rate }: AccessOptions): void {
  if (!verifier) return;
  app.addHook("onRequest", (request, _reply, done) => {
    const need = needOf(request);
    if (need === "public") return done();
    if (need === undefined) throw forbidden("this operation is open to no one");
    if (!meets(request.principal.roles, need)) throw forbidden(`the role ${sufficientRole(need)} may do this`);
    // What is refused of a result or a heartbeat would have to be done again; a stream is one request.
    if (need !== "callback" && !isHandshake(request)) rate?.take(request.principal);
    done();
  });
}

export const hasPlace = ({ tenantId, roles }: Principal): boolean => tenantId !== undefined || needsNoTenant(roles);
export const NO_TENANT = "the credential belongs to no tenant";

/** By the route that was matched, never by the text of the URL. */
function needOf(request: FastifyRequest): Need | undefined {
  return request.is404 ? undefined : routeOf(request).schema?.["x-saga-role"];
}

export function addressOf({ headers, raw }: FastifyRequest, { addresses }: Pick<Identification, "addresses">): string {
  const forwarded = headers["x-forwarded-for"];
  return addresses.of({
    peer: raw.socket.remoteAddress,
    forwardedFor: [forwarded ?? []].flat().join(",") || undefined,
  });
}

/** Whatever it was that refused them. */
export function logRefusals(app: FastifyInstance, { verifier, security, addresses }: AccessOptions): void {
  if (!verifier) return;
  app.addHook("onSend", (request, _reply, _payload, done) => {
    const refusal = refusalTo(request);
    if (refusal) {
      const { principal, id: requestId } = request;
      const { address, route } = whereOf(request, { addresses });
      security.refused({ ...refusal, principal, address, route, requestId });
    }
    done();
  });
}

/** As the lines of the security log have it. */
function whereOf(request: FastifyRequest, access: Pick<Identification, "addresses">) {
  const { method, id } = request;
  const route = `${method} ${routeOf(request).url ?? "unmatched"}`;
  return { address: addressOf(request, access), route, request_id: id };
}

/** Every refused credential has the same answer. What comes by the thousand is no fault of the service, and no line of its log. */
function refuseCredential(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  if (error instanceof SagaError) sendAnswer(error, request, reply);
  else sendError(error, request, reply);
}
