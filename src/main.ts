// The entry of the service: reads the configuration, starts the embedded Postgres if no database is configured, and runs one node
// in this process or a primary with several. It stops in order on SIGTERM. A forked node begins here too.
// Each process imports only what it runs: loading the code of a node takes a second, and a primary runs none.
import cluster from "node:cluster";
import type { PrimaryOptions } from "./cluster/primary.js";
import { type Config, isAccessOn, loadConfig, publicUrlAt } from "./config/index.js";
import { createLogger, type Logger } from "./log.js";
import type { EmbeddedPostgres } from "./store/embedded/postgres.js";

/** A stop that hangs must not keep the process alive. The nodes of a primary have 30 s of the longer time. */
const STOP_TIMEOUT_MS = 30_000;
const STOP_NODES_TIMEOUT_MS = 45_000;

/** Errors that an operator can correct: they are shown without a stack. */
const OPERATOR_ERRORS: readonly string[] = [
  "ConfigError",
  "CertificateError",
  "DefinitionsError",
  "NodeDidNotStart",
  "UnusableDatabase",
  "DataDirInUse",
  "UnusableDataDir",
  "AddressNotFree",
];

interface Service {
  readonly httpPort: number;
  readonly grpcPort: number;
  start(): Promise<void>;
  /** Safe before the start has ended. Throws if it was not orderly. */
  stop(): Promise<void>;
  replaceNodes(): Promise<void>;
}

async function main(): Promise<void> {
  const { config, warnings } = loadConfig();
  const log = createLogger(config);
  for (const warning of warnings) log.warn(warning);
  if (isAccessOn(config)) log.info({ credentials: config.credentials }, "access control is on");
  const { refuseTakenPorts } = await import("./cluster/ports.js");
  await refuseTakenPorts(config);
  const embedded = config.databaseUrl === undefined ? await startDatabase(config, log) : undefined;
  const databaseUrl = config.databaseUrl ?? embedded?.socketUrl ?? "";
  const service = await createService({ config, databaseUrl, log });
  const timeoutMs = config.workers === 1 ? STOP_TIMEOUT_MS : STOP_NODES_TIMEOUT_MS;
  const stopping = stopOnSignal({ service, embedded, timeoutMs, log });
  try {
    const { awaitDatabase } = await import("./store/migrate/readiness.js");
    await awaitDatabase(databaseUrl, log);
    await service.start();
    if (!stopping.begun) log.info(addressesOf(service, config), "ready");
  } catch (error) {
    // A start that fails because of the stop is not reported, and the stop ends the process.
    if (stopping.begun) return;
    await service.stop().catch(() => undefined);
    await embedded?.stop();
    throw error;
  }
}

function addressesOf({ httpPort: http, grpcPort: grpc }: Service, config: Config) {
  return { http, grpc, ...(config.console && { console: `${publicUrlAt(http, config)}/console` }) };
}

async function startDatabase({ dataDir }: Config, log: Logger): Promise<EmbeddedPostgres> {
  const { startEmbeddedPostgres } = await import("./store/embedded/postgres.js");
  return startEmbeddedPostgres({ dataDir, log });
}

/** One node needs no primary: fewer moving parts, and a faster start. */
async function createService(options: PrimaryOptions): Promise<Service> {
  if (options.config.workers === 1) {
    const { OneNode } = await import("./cluster/one-node.js");
    return new OneNode(options);
  }
  const { Primary } = await import("./cluster/primary.js");
  return new Primary(options);
}

async function runForkedNode(): Promise<void> {
  const forked = await import("./cluster/forked-node.js");
  await forked.runForkedNode();
}

interface Stopping {
  readonly service: Service;
  readonly embedded: EmbeddedPostgres | undefined;
  readonly timeoutMs: number;
  readonly log: Logger;
}

/** SIGTERM and SIGINT stop the service, SIGHUP replaces its nodes. */
function stopOnSignal(options: Stopping): { begun: boolean } {
  const { service, log } = options;
  const state = { begun: false };
  const stop = (signal: NodeJS.Signals) => {
    log.info({ signal }, "stopping");
    state.begun = true;
    void stopAndExit(options);
  };
  process.once("SIGTERM", stop);
  process.once("SIGINT", stop);
  process.on("SIGHUP", (signal) => {
    log.info({ signal }, "replacing nodes");
    void service.replaceNodes();
  });
  return state;
}

async function stopAndExit({ service, embedded, timeoutMs, log }: Stopping): Promise<void> {
  setTimeout(() => {
    log.fatal("stop timed out");
    process.exit(1);
  }, timeoutMs).unref();
  let code = 0;
  for (const part of [service, embedded])
    await part?.stop().catch((error: unknown) => {
      log.fatal({ err: error }, "stop failed");
      code = 1;
    });
  process.exit(code);
}

(cluster.isPrimary ? main() : runForkedNode()).catch((error: unknown) => {
  const text = error instanceof Error && !OPERATOR_ERRORS.includes(error.name) ? error.stack : undefined;
  process.stderr.write(`${text ?? (error instanceof Error ? error.message : String(error))}\n`);
  process.exit(1);
});
