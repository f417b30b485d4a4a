// The HTTP API: one Fastify plugin a resource, one error envelope, one OpenAPI document. It decides nothing about runs: it
// reads the request strictly, asks the ports below, and writes the answer.
import { randomUUID } from "node:crypto";
import fastifyWebsocket from "@fastify/websocket";
import Fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from "fastify";
import type { Sql } from "postgres";
import type { Compiled, CompileOptions, Json, JsonObject, Program } from "../../machines/index.js";
import type { Feed } from "../feed/index.js";
import type { Logger } from "../log.js";
import type { Metrics } from "../metrics.js";
import type { Admission } from "../run/admission.js";
import type { Catalog, EventAnnouncer, Runs } from "../run/ports.js";
import { admitRequests, boundConnections } from "./admission.js";
import { parseJsonBodies } from "./body.js";
import { commandRoutes } from "./commands.js";
import { documentation } from "./docs.js";
import { answerClientError, installErrors, sendError } from "./envelope.js";
import { eventRoutes } from "./events.js";
import { healthRoutes } from "./health.js";
import { metricsRoutes } from "./metrics.js";
import { registryRoutes } from "./registry.js";
import { rehearsalRoutes } from "./rehearsals.js";
import { ruleRoutes } from "./rules.js";
import { sagaRoutes } from "./sagas.js";
import { RESOURCES } from "./schemas.js";
import { closeStreams, streamRoutes } from "./stream.js";
import { userTaskRoutes } from "./user-tasks.js";
import { workflowRoutes } from "./workflows.js";

export { loadDefinitionsDir } from "./definitions-dir.js";

export interface ApiConfig {
  /** Absent: `rmq` registrations are refused. */
  readonly amqpUrl?: string;
  readonly limits: { readonly bodyBytes: number; readonly outputBytes: number };
}

export interface Compiler {
  compileWorkflow(document: unknown, options: CompileOptions): Compiled;
  /** The XState machine configuration of a program. */
  machineConfig(program: Program): JsonObject;
}

export interface ApiDeps {
  readonly config: ApiConfig;
  readonly runs: Runs;
  readonly admission: Pick<Admission, "admit">;
  readonly catalog: Pick<Catalog, "program" | "published" | "action" | "rule" | "refresh">;
  /** Problems of a value under a JSON Schema. */
  readonly schemas: { conforms(schema: JsonObject, value: Json): readonly string[] };
  readonly sql: Sql;
  readonly feed: Feed;
  readonly announcer: EventAnnouncer;
  readonly metrics: Metrics;
  /** What `/metrics` shows, where that is more than this process's own; default: its own. */
  readonly scrape?: () => Promise<{ readonly contentType: string; readonly text: string }>;
  readonly log: Logger;
  readonly compile: Compiler;
  /** Migrated, and not draining. Whether the store answers is asked by the probe itself. */
  ready(): boolean;
  /** Milliseconds between pings of open streams. */
  readonly pingMs?: number;
}

/** A whole request, body included, has to arrive within this time. */
const REQUEST_ARRIVES_MS = 120_000;

/** Ready to listen or to be injected into. Closing it ends all streams with 1001 and waits for requests in flight. */
export async function buildApi(deps: ApiDeps): Promise<FastifyInstance> {
  const app: FastifyInstance = Fastify({
    loggerInstance: deps.log as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: deps.config.limits.bodyBytes,
    genReqId: () => randomUUID(),
    requestIdHeader: false,
    // Ids have up to 128 characters; each may be written as three.
    routerOptions: { maxParamLength: 512 },
    // While it drains, a request that came is still answered.
    return503OnClosing: false,
    forceCloseConnections: "idle",
    // A request whose body never comes holds a place of admission.
    requestTimeout: REQUEST_ARRIVES_MS,
    frameworkErrors: (error, request, reply) => sendError(error, request, reply),
    clientErrorHandler: answerClientError,
  });
  // Bodies and parameters are checked by their routes, which say more than a validator can; answers go out as they were built.
  app.setValidatorCompiler(() => () => true);
  app.setSerializerCompiler(() => (data) => JSON.stringify(data));
  for (const resource of RESOURCES) app.addSchema(resource);
  installErrors(app);
  admitRequests(app, deps.admission);
  boundConnections(app, deps.log);
  parseJsonBodies(app);
  measureRequests(app, deps.metrics);
  sayGoodbye(app, deps);
  await documentation(app);
  await app.register(fastifyWebsocket, { options: { maxPayload: 64 * 1024 }, preClose: closeStreams });
  for (const routes of [
    healthRoutes,
    metricsRoutes,
    sagaRoutes,
    commandRoutes,
    streamRoutes,
    userTaskRoutes,
    eventRoutes,
    workflowRoutes,
    rehearsalRoutes,
    ruleRoutes,
    registryRoutes,
  ]) {
    app.register(async (scope) => routes(scope, deps));
  }
  await app.ready();
  return app;
}

/** A client that keeps its connection learns with its next answer that it must not send another request over it. */
function sayGoodbye(app: FastifyInstance, { ready }: ApiDeps): void {
  app.addHook("onSend", async (_, reply) => {
    if (!ready()) reply.header("connection", "close");
  });
}

function measureRequests(app: FastifyInstance, { httpSeconds }: Metrics): void {
  app.addHook("onResponse", async (request, reply) => {
    const route = request.routeOptions.url ?? "unmatched";
    httpSeconds.observe({ method: request.method, route, status: String(reply.statusCode) }, reply.elapsedTime / 1000);
  });
}
