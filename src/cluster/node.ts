// One node, composed by hand: store, runtime, dispatch and API, started in the order in which they need each other and stopped
// in the reverse. Nothing is decided here.
import { compileWorkflow, type RunLimits } from "../../machines/index.js";
import { buildApi, loadDefinitionsDir } from "../api/index.js";
import { DatabaseClock } from "../clock.js";
import { type Config, ConfigError } from "../config/index.js";
import { createDispatcher } from "../dispatch/dispatcher.js";
import { startGrpcServer } from "../dispatch/grpc/server.js";
import { createFeed } from "../feed/index.js";
import { uuidv7 } from "../ids.js";
import type { Logger } from "../log.js";
import { createMetrics, type Metrics } from "../metrics.js";
import { StoreCatalog } from "../run/catalog.js";
import { Committer } from "../run/committer.js";
import { readGrants } from "../run/grants.js";
import { Runtime } from "../run/runtime.js";
import { Schemas } from "../run/schemas.js";
import { Stager } from "../run/stager.js";
import { Membership, SHARDS } from "../shard/membership.js";
import { openDatabase } from "../store/connection.js";
import { migrateDatabase } from "../store/migrate.js";
import { countUnwatched } from "../store/poll.js";
import { Pruner } from "../store/pruner.js";

/** Sessions to Postgres: two commits in flight, the poll, and reads of the API. */
const SESSIONS = 10;
const GAUGE_MS = 5_000;
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

export interface NodeOptions {
  readonly config: Config;
  readonly databaseUrl: string;
  readonly log: Logger;
  /** Switches off timers, in-memory deliveries and NOTIFY: runs then advance by the poll alone. For tests of law 7. */
  readonly hints?: boolean;
  /** What `/metrics` shows where it is more than this node's own. */
  readonly scrape?: () => Promise<{ readonly contentType: string; readonly text: string }>;
}

export async function startNode({ config, databaseUrl, log, hints = true, scrape }: NodeOptions): Promise<NodeHandle> {
  refuseAccessControl(config);
  const grants = readGrants(config);
  await migrateDatabase(databaseUrl, log);
  const nodeId = uuidv7();
  const { sql, close } = openDatabase(databaseUrl, { max: SESSIONS, applicationName: "saga", log });
  const metrics = createMetrics();
  const clock = new DatabaseClock();
  const membership = new Membership(nodeId, sql, clock, log);
  await membership.start();
  const catalog = new StoreCatalog(sql, log);
  await catalog.start();
  const schemas = new Schemas();
  const feed = createFeed({ sql, listenUrl: hints ? databaseUrl : undefined, log });
  const committer = new Committer({ sql, log, metrics });
  const dispatcher = createDispatcher({
    nodeId,
    log,
    now: () => clock.now(),
    nodeCount: () => membership.nodeCount,
    limits: { outputBytes: config.limits.outputBytes },
  });
  const runtime = new Runtime({
    sql,
    clock,
    log,
    metrics,
    committer,
    catalog,
    dispatcher,
    schemas,
    licences: grants,
    startupVariables: async ({ tenantId }) => grants.startupVariables(tenantId),
    onCommit: feed.onCommit,
    limits: runLimits(config),
    stepsPerCommit: config.stepsPerCommit,
    hints,
  });
  dispatcher.bind(runtime);
  const compile = {
    compileWorkflow: (document: unknown, options: Parameters<typeof compileWorkflow>[1]) =>
      compileWorkflow(document, {
        ...options,
        limits: config.limits,
        schemaProblems: (schema) => schemas.problems(schema),
      }),
    machineConfig: (program: { readonly chart: ReturnType<typeof JSON.parse> }) => program.chart,
  };
  if (config.definitionsDir !== undefined)
    await loadDefinitionsDir(config.definitionsDir, { sql, log, compile, catalog });
  const stager = new Stager({ sql, log, runtime, dispatcher, shards: () => SHARDS });
  await stager.start();
  const pruner = new Pruner(sql, log, config.retentionDays);
  pruner.start();
  let ready = true;
  const api = await buildApi({
    config,
    runs: runtime,
    catalog,
    sql,
    feed,
    metrics,
    log,
    compile,
    ready: () => ready,
    ...(scrape && { scrape }),
  });
  await api.listen({ host: config.host, port: config.httpPort });
  const grpc = await startGrpcServer({ host: config.host, port: config.grpcPort, dispatcher, log });
  const gauges = setInterval(() => {
    metrics.dispatchesInFlight.set(dispatcher.inFlight);
    metrics.dispatchesQueued.set(dispatcher.queued);
    countUnwatched(sql).then(
      (count) => metrics.runsUnwatched.set(count),
      () => {}, // The store is away: the gauge keeps its last value.
    );
  }, GAUGE_MS).unref();
  const address = api.server.address();
  const httpPort = typeof address === "object" && address ? address.port : config.httpPort;

  let stopping: Promise<void> | undefined;
  const stop = async () => {
    ready = false;
    clearInterval(gauges);
    await stager.stop();
    await api.close();
    await grpc.stop(GRACE_MS);
    await runtime.stop();
    await committer.stop();
    catalog.stop();
    await feed.stop();
    await pruner.stop();
    await membership.stop();
    await close();
  };
  return {
    nodeId,
    httpPort,
    grpcPort: grpc.port,
    metrics,
    stop: () => {
      stopping ??= stop();
      return stopping;
    },
  };
}

/** It is not built yet, and a service that is thought to be protected is worse than one that does not start. */
function refuseAccessControl({ auth }: Config): void {
  if (auth.kind !== "off") throw new ConfigError(["SAGA_AUTH must be off: this build has no access control"]);
}

function runLimits({ limits }: Config): RunLimits {
  const { entries, outputBytes: output, variablesBytes: variables, metadataBytes: metadata } = limits;
  return { entries, output, variables, metadata };
}
