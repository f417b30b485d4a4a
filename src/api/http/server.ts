// The HTTP server below the routes: its bounds, how requests are parsed and checked, and how every answer leaves. It knows no
// resource. Hooks that wait for nothing call back: as promises, the hooks of a small request take 12 % more of the processor time of server and client together (measured).

import type { ServerOptions } from "node:http";
import type { Server as TlsServer } from "node:https";
import type { Socket } from "node:net";
import { fastifyCookie } from "@fastify/cookie";
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyRequest,
  type FastifyServerOptions,
  LogController,
} from "fastify";
import { isRunId, maskedText } from "../../../machines/index.js";
import { randomUUID, setTimeout } from "../../ambient.js";
import type { ServerTls } from "../../config/index.js";
import type { Metrics } from "../../metrics/index.js";
import type { ApiDeps } from "../deps.js";
import { type AccessOptions, authenticate, authorize, logRefusals } from "./access.js";
import { attributeDocuments } from "./attribution.js";
import { parseJsonBodies, refuseEncodings } from "./body.js";
import { refuseOtherSites } from "./browsers.js";
import { answerClientError, installErrors, MAX_SEGMENT, sendError } from "./envelope.js";
import { answerHeaders, setHeaders } from "./headers.js";
import { admitRequests, boundConnections } from "./load-shedding.js";
import { RouteTable, refuseUnknownRoutes, routeOf } from "./routes.js";
import { takeTurns } from "./turns.js";
import { boundUnread, UNREAD } from "./unread.js";
import { closeRefusedUpgrades, closeWithCredential, messageClass } from "./upgrades.js";
import { type Api, validateRequests } from "./validation.js";

/** A whole request, body included, has to arrive within this time. */
const REQUEST_TIMEOUT_MS = 120_000;
/** A body of which nothing arrives for this long is given up. */
const BODY_STALL_MS = 10_000;
/** A connection whose TLS handshake takes longer is closed. */
const HANDSHAKE_MS = 10_000;
/** When the server closes, a connection has this long to send the beginning of its first request: it may be on its way. */
const FIRST_BYTE_MS = 1_000;

export function createServer(deps: ApiDeps, access: AccessOptions): Api {
  const { config, tls, log, shedder, scheduler, metrics, ready, bodyStallMs, unread = UNREAD } = deps;
  const routes = new RouteTable();
  // A request without `Host` is refused by a hook: Node would answer it without an envelope.
  const http = { IncomingMessage: messageClass((url) => routes.isWebSocket(url)), requireHostHeader: false };
  const options: FastifyServerOptions = {
    loggerInstance: log as FastifyBaseLogger,
    // Lines name their request themselves: a logger for each request costs more than the few lines that are written.
    childLoggerFactory: (logger) => logger,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: config.limits.bodyBytes,
    genReqId: () => randomUUID(),
    requestIdHeader: false,
    routerOptions: { maxParamLength: MAX_SEGMENT, ignoreTrailingSlash: true },
    keepAliveTimeout: config.keepAliveMs,
    // A request that arrives while the node drains is still answered.
    return503OnClosing: false,
    forceCloseConnections: "idle",
    requestTimeout: REQUEST_TIMEOUT_MS,
    frameworkErrors: (error, request, reply) => {
      setHeaders(request, reply);
      sendError(error, request, reply);
    },
    clientErrorHandler: answerClientError,
  };
  const app = openFastify(options, http, tls);
  app.setSerializerCompiler(() => (data) => JSON.stringify(data));
  installErrors(app);
  // Cookies are read where a credential is looked for, and nowhere else.
  app.register(fastifyCookie, { hook: false });
  boundUnread(app, unread);
  closeRefusedUpgrades(app);
  if (deps.verifier) closeWithCredential(app, deps.now);
  answerHeaders(app);
  logRefusals(app, access);
  refuseOtherSites(app, config.access, access.cookies.sites);
  authenticate(app, access);
  refuseUnknownRoutes(app, routes);
  authorize(app, access);
  admitRequests(app, shedder);
  refuseEncodings(app);
  boundConnections(app, log);
  parseJsonBodies(app, { bytes: config.limits.bodyBytes, stallMs: bodyStallMs ?? BODY_STALL_MS }, scheduler);
  validateRequests(app);
  attributeDocuments(app);
  takeTurns(app, scheduler);
  maskSecrets(app);
  measureRequests(app, metrics, log.isLevelEnabled("debug"));
  closeKeptConnections(app, ready);
  closeUnusedConnections(app);
  return app;
}

/** Node's two servers differ in what is below HTTP, which no hook or route is concerned with. */
function openFastify(options: FastifyServerOptions, http: ServerOptions, tls: ServerTls | undefined): FastifyInstance {
  if (tls === undefined) return Fastify({ ...options, http });
  const above = options as unknown as FastifyServerOptions<TlsServer>;
  const app = Fastify({ ...above, https: { ...http, ...tls.context, handshakeTimeout: HANDSHAKE_MS } });
  // Open connections keep the certificate that they began with.
  tls.onReplaced((context) => app.server.setSecureContext(context));
  return app as unknown as FastifyInstance;
}

/** The one border of all answers: whatever a route sends, a secret value leaves as its mask. */
function maskSecrets(app: FastifyInstance): void {
  app.addHook("onSend", (_request, _reply, payload, done) => {
    done(null, typeof payload === "string" ? maskedText(payload) : payload);
  });
}

/** Once the node is not ready, every answer asks its client to close the connection that it keeps. */
function closeKeptConnections(app: FastifyInstance, ready: ApiDeps["ready"]): void {
  app.addHook("onSend", (_request, reply, _payload, done) => {
    if (!ready()) reply.header("connection", "close");
    done();
  });
}

/** Browsers open connections in advance. For Node one is not idle before its first request: it would hold up the end for a minute. */
function closeUnusedConnections(app: FastifyInstance): void {
  const open = new Set<Socket>();
  let closing = false;
  const closeIfUnused = (socket: Socket) => {
    if (socket.bytesRead === 0) socket.destroy();
  };
  const closeSoonIfUnused = (socket: Socket) => setTimeout(closeIfUnused, FIRST_BYTE_MS, socket).unref();
  const watch = (socket: Socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
    if (closing) closeSoonIfUnused(socket);
  };
  app.server.on("connection", watch);
  // With TLS, the handshake is no request yet.
  app.server.on("secureConnection", watch);
  app.addHook("preClose", async () => {
    closing = true;
    for (const socket of open) closeSoonIfUnused(socket);
  });
}

function measureRequests(app: FastifyInstance, { httpSeconds }: Metrics, logsRequests: boolean): void {
  app.addHook("onResponse", (request, reply, done) => {
    const route = routeOf(request).url ?? "unmatched";
    const { statusCode: status, elapsedTime: ms } = reply;
    httpSeconds.observe({ method: request.method, route, status: String(status) }, ms / 1000);
    if (logsRequests) logRequest(request, { route, status, ms });
    done();
  });
}

/** The pattern of the route, and of the URL the run alone: the rest may hold what is not for the log. */
function logRequest(
  { id, method, params, log }: FastifyRequest,
  answer: { readonly route: string; readonly status: number; readonly ms: number },
): void {
  const { id: own, run_id: runId = own } = (params ?? {}) as { readonly id?: string; readonly run_id?: string };
  log.debug({ request_id: id, method, ...answer, ...(isRunId(runId) && { runId }) }, "request answered");
}
