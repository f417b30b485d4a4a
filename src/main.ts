// The service's entry: configuration, the embedded Postgres where none is given, and one node in this process or a primary
// with several; an orderly end on SIGTERM. A forked node begins here, too.
import cluster from "node:cluster";
import { runForkedNode } from "./cluster/forked.js";
import { type NodeHandle, startNode } from "./cluster/node.js";
import { Primary, type PrimaryOptions } from "./cluster/primary.js";
import { loadConfig } from "./config/index.js";
import { createLogger, type Logger } from "./log.js";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "./store/embedded.js";

/** An orderly stop that hangs must not keep the process for ever. The primary's nodes have 30 s of it. */
const STOP_WITHIN_MS = 30_000;
const STOP_NODES_WITHIN_MS = 45_000;

interface Service {
  readonly httpPort: number;
  readonly grpcPort: number;
  start(): Promise<void>;
  /** Safe before the start is over. Throws if it was not orderly. */
  stop(): Promise<void>;
  replaceNodes(): Promise<void>;
}

async function main(): Promise<void> {
  const { config, warnings } = loadConfig();
  const log = createLogger(config);
  for (const warning of warnings) log.warn(warning);
  const embedded =
    config.databaseUrl === undefined ? await startEmbeddedPostgres({ dataDir: config.dataDir, log }) : undefined;
  const options = { config, databaseUrl: config.databaseUrl ?? embedded?.url ?? "", log };
  // One node needs no primary: fewer parts that move, and a faster start.
  const service: Service = config.workers === 1 ? new OneNode(options) : new Primary(options);
  const ending = endOnSignal(service, embedded, config.workers === 1 ? STOP_WITHIN_MS : STOP_NODES_WITHIN_MS, log);
  try {
    await service.start();
    if (!ending.begun) log.info({ http: service.httpPort, grpc: service.grpcPort }, "ready");
  } catch (error) {
    // What fails because it was told to stop needs no words, and the stop ends the process.
    if (ending.begun) return;
    await service.stop().catch(() => undefined);
    await embedded?.stop();
    throw error;
  }
}

class OneNode implements Service {
  private node: NodeHandle | undefined;
  constructor(private readonly options: PrimaryOptions) {}

  get httpPort(): number {
    return this.node?.httpPort ?? 0;
  }
  get grpcPort(): number {
    return this.node?.grpcPort ?? 0;
  }
  async start(): Promise<void> {
    this.node = await startNode(this.options);
  }
  async stop(): Promise<void> {
    await this.node?.stop();
  }
  async replaceNodes(): Promise<void> {
    this.options.log.warn("one node has no successor: SAGA_WORKERS is 1, and nothing is replaced");
  }
}

function endOnSignal(
  service: Service,
  embedded: EmbeddedPostgres | undefined,
  within: number,
  log: Logger,
): { begun: boolean } {
  const ending = { begun: false };
  const end = async (signal: NodeJS.Signals) => {
    log.info({ signal }, "stopping");
    ending.begun = true;
    setTimeout(() => {
      log.fatal("the orderly stop took too long");
      process.exit(1);
    }, within).unref();
    let code = 0;
    for (const part of [service, embedded])
      await part?.stop().catch((error: unknown) => {
        log.fatal({ err: error }, "the orderly stop failed");
        code = 1;
      });
    process.exit(code);
  };
  process.once("SIGTERM", end);
  process.once("SIGINT", end);
  process.on("SIGHUP", (signal) => {
    log.info({ signal }, "replacing the nodes");
    void service.replaceNodes();
  });
  return ending;
}

(cluster.isPrimary ? main() : runForkedNode()).catch((error: unknown) => {
  // What an operator can mend is said plainly; anything else with its stack.
  const known = error instanceof Error && ["ConfigError", "DefinitionsError", "NodeDidNotStart"].includes(error.name);
  process.stderr.write(`${known ? error.message : error instanceof Error ? error.stack : String(error)}\n`);
  process.exit(1);
});
