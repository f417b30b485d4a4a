// One node: the inner half and its ports, started in the order in which they need each other and stopped in the reverse.
import type { Server } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { type CompileOptions, compileWorkflow, type Program } from "../../machines/index.js";
import { buildApi, loadDefinitionsDir } from "../api/index.js";
import { type Config, ConfigError } from "../config/index.js";
import { startGrpcServer } from "../dispatch/grpc/server.js";
import type { Metrics } from "../metrics.js";
import type { Catalog } from "../run/ports.js";
import { migrateDatabase } from "../store/migrate.js";
import { type Core, type CoreOptions, createCore } from "./core.js";

/** How long clients have to give up the connections that they keep: each is told so with its next answer. */
const FAREWELL_MS = 500;
/** How long workers have to be heard on the way down. */
const GRACE_MS = 5_000;

export interface NodeHandle {
  readonly nodeId: string;
  readonly httpPort: number;
  readonly grpcPort: number;
  /** Its own alone. */
  readonly metrics: Metrics;
  /** Readiness first, then intake, then what is in hand. Complete on return, safe twice. */
  stop(): Promise<void>;
}

export interface NodeOptions extends CoreOptions {
  /** What `/metrics` shows where it is more than this node's own. */
  readonly scrape?: () => Promise<{ readonly contentType: string; readonly text: string }>;
}

export async function startNode(options: NodeOptions): Promise<NodeHandle> {
  const { config, databaseUrl, log } = options;
  refuseAccessControl(config);
  await migrateDatabase(databaseUrl, log);
  const core = await createCore(options);
  if (config.definitionsDir !== undefined)
    await loadDefinitionsDir(config.definitionsDir, { ...core, log, compile: compilerOf(core, config) });
  await core.start();
  const { ports, close } = await openPorts(core, options);
  let stopping: Promise<void> | undefined;
  const stop = async () => {
    await close();
    await core.stop();
  };
  return {
    ...{ nodeId: core.nodeId, metrics: core.metrics },
    ...ports,
    stop: () => {
      stopping ??= stop();
      return stopping;
    },
  };
}

async function openPorts(core: Core, { config, log, scrape }: NodeOptions) {
  const { router: runs, dispatcher } = core;
  let ready = true;
  const compile = compilerOf(core, config);
  const more = { compile, catalog: toldToAll(core), ready: () => ready, ...(scrape && { scrape }) };
  const api = await buildApi({ ...core, config, runs, log, ...more });
  await api.listen({ host: config.host, port: config.httpPort });
  const grpc = await startGrpcServer({ host: config.host, port: config.grpcPort, dispatcher, log });
  const address = api.server.address();
  const httpPort = typeof address === "object" && address ? address.port : config.httpPort;
  const close = async () => {
    ready = false;
    await untilClientsLeft(api.server);
    await core.drain();
    await api.close();
    await grpc.stop(GRACE_MS);
  };
  return { ports: { httpPort, grpcPort: grpc.port }, close };
}

/** A connection that is closed the moment its client sends over it is a request that fails, and a POST is not sent again. */
async function untilClientsLeft(server: Server): Promise<void> {
  const latest = performance.now() + FAREWELL_MS;
  const count = () =>
    new Promise<number>((resolve) => server.getConnections((error, open) => resolve(error ? 0 : open)));
  while (performance.now() < latest && (await count()) > 0) await delay(20);
}

/** The catalog as the API uses it: what it publishes or registers, all nodes are to know. */
function toldToAll({ catalog, router }: Core): Pick<Catalog, "action" | "program" | "published" | "refresh" | "rule"> {
  return {
    program: (definitionId) => catalog.program(definitionId),
    published: (workflowId, version) => catalog.published(workflowId, version),
    action: (service, name, version) => catalog.action(service, name, version),
    rule: (ruleId) => catalog.rule(ruleId),
    refresh: () => router.refreshCatalogs(),
  };
}

/** The machine's compiler with what only the shell has: limits from the settings, and a validator of JSON Schemas. */
function compilerOf({ schemas }: Core, { limits }: Config) {
  return {
    compileWorkflow: (document: unknown, options: CompileOptions) =>
      compileWorkflow(document, { ...options, limits, schemaProblems: (schema) => schemas.problems(schema) }),
    machineConfig: (program: Program) => program.chart,
  };
}

/** It is not built yet, and a service that is thought to be protected is worse than one that does not start. */
function refuseAccessControl({ auth }: Config): void {
  if (auth.kind !== "off") throw new ConfigError(["SAGA_AUTH must be off: this build has no access control"]);
}
