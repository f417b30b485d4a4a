// The HTTP API: one plugin a resource on one server, with one error envelope and one OpenAPI document. It decides nothing about
// runs: it reads requests strictly, asks its ports, and answers.
import fastifyWebsocket from "@fastify/websocket";
import type { FastifyInstance } from "fastify";
import { actRoutes } from "./acts.js";
import { apiKeyRoutes } from "./api-keys.js";
import { authRoutes } from "./auth.js";
import { bulkRoutes } from "./bulk.js";
import { childRoutes } from "./children.js";
import { clusterRoutes } from "./cluster.js";
import { commandRoutes } from "./commands.js";
import { consoleRoutes } from "./console.js";
import { dataKeyRoutes } from "./data-keys.js";
import type { ApiDeps, Shared } from "./deps.js";
import { eventRoutes } from "./events.js";
import { addExamples } from "./examples.js";
import { explainRoutes } from "./explain.js";
import { forkRoutes } from "./fork.js";
import { healthRoutes, metricsRoutes } from "./health.js";
import { accessOf } from "./http/access.js";
import { chooseProtocol } from "./http/credentials.js";
import { answerHandshakeError } from "./http/envelope.js";
import { documentation } from "./http/openapi.js";
import { createServer } from "./http/server.js";
import type { Api } from "./http/validation.js";
import { inspectRoutes } from "./inspect.js";
import { migrateRoutes } from "./migrate.js";
import { nameOperations } from "./operation-ids.js";
import { performanceRoutes } from "./performance.js";
import { queryRoutes } from "./query.js";
import { registryRoutes } from "./registry.js";
import { rehearsalRoutes } from "./rehearsals.js";
import { reportRoutes } from "./reports.js";
import { rerunRoutes } from "./rerun.js";
import { ruleRoutes } from "./rules.js";
import { RunReader } from "./run-reader.js";
import { sagaRoutes } from "./sagas.js";
import { RESOURCES } from "./schemas.js";
import { startRoutes } from "./starts.js";
import { closeStreams, streamRoutes } from "./stream.js";
import { triggerRoutes } from "./triggers.js";
import { userTaskRoutes } from "./user-tasks.js";
import { Waiters } from "./waiting.js";
import { workerRoutes } from "./workers.js";
import { workflowRoutes } from "./workflows.js";

export { loadDefinitionsDir } from "./definitions-dir.js";
export type { ApiConfig, ApiDeps, Compiler } from "./deps.js";

const PLUGINS: readonly ((app: Api, deps: ApiDeps & Shared) => void)[] = [
  healthRoutes,
  metricsRoutes,
  startRoutes,
  sagaRoutes,
  childRoutes,
  commandRoutes,
  actRoutes,
  rerunRoutes,
  forkRoutes,
  migrateRoutes,
  bulkRoutes,
  explainRoutes,
  queryRoutes,
  reportRoutes,
  streamRoutes,
  inspectRoutes,
  consoleRoutes,
  userTaskRoutes,
  eventRoutes,
  triggerRoutes,
  workflowRoutes,
  performanceRoutes,
  rehearsalRoutes,
  ruleRoutes,
  registryRoutes,
  workerRoutes,
  clusterRoutes,
  apiKeyRoutes,
  dataKeyRoutes,
];

/** A frame from a client carries nothing that the service reads. */
const MAX_CLIENT_FRAME = 64 * 1024;

/** What the schemas of the routes do not have. */
function complete(paths: Readonly<Record<string, object>>): void {
  nameOperations(paths);
  addExamples(paths);
}

/** Ready to listen or to be injected into. Closing it ends all streams with 1001 and waits for open requests. */
export async function buildApi(deps: ApiDeps): Promise<FastifyInstance> {
  const access = accessOf(deps);
  const app = createServer(deps, access);
  for (const [name, schema] of Object.entries(RESOURCES)) app.addSchema({ ...schema, $id: name });
  await documentation(app, { hasConsole: deps.config.console !== undefined, complete });
  const options = { maxPayload: MAX_CLIENT_FRAME, handleProtocols: chooseProtocol };
  await app.register(fastifyWebsocket, { options, preClose: closeStreams });
  app.websocketServer.on("wsClientError", answerHandshakeError);
  app.register(async (scope) => authRoutes(scope, deps, access));
  const shared = sharedOf(deps);
  app.addHook("preClose", async () => shared.waiters.stop());
  for (const plugin of PLUGINS) app.register(async (scope) => plugin(scope, { ...deps, ...shared }));
  await app.ready();
  return app;
}

function sharedOf({ readPool, workers, feed, now, maxWaiters }: ApiDeps): Shared {
  const runReader = new RunReader(readPool, workers);
  return { runReader, waiters: new Waiters(runReader, feed, now, maxWaiters) };
}
