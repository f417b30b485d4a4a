// The service's entry: configuration, the embedded Postgres where none is given, one node; and an orderly end on SIGTERM.
import { startNode } from "./cluster/node.js";
import { ConfigError, loadConfig } from "./config/index.js";
import { createLogger } from "./log.js";
import { startEmbeddedPostgres } from "./store/embedded.js";

/** An orderly stop that hangs must not keep the process for ever. */
const STOP_WITHIN_MS = 30_000;

async function main(): Promise<void> {
  const { config, warnings } = loadConfig();
  const log = createLogger(config);
  for (const warning of warnings) log.warn(warning);
  const embedded =
    config.databaseUrl === undefined ? await startEmbeddedPostgres({ dataDir: config.dataDir, log }) : undefined;
  const databaseUrl = config.databaseUrl ?? embedded?.url ?? "";
  const node = await startNode({ config, databaseUrl, log }).catch(async (error) => {
    await embedded?.stop();
    throw error;
  });
  log.info({ http: node.httpPort, grpc: node.grpcPort }, "ready");

  const stop = (signal: NodeJS.Signals) => {
    log.info({ signal }, "stopping");
    setTimeout(() => {
      log.fatal("the orderly stop took too long");
      process.exit(1);
    }, STOP_WITHIN_MS).unref();
    node
      .stop()
      .then(() => embedded?.stop())
      .then(
        () => process.exit(0),
        (error) => {
          log.fatal({ err: error }, "the orderly stop failed");
          process.exit(1);
        },
      );
  };
  process.once("SIGTERM", stop);
  process.once("SIGINT", stop);
}

main().catch((error: unknown) => {
  // What an operator can mend is said plainly; anything else with its stack.
  const known = error instanceof ConfigError || (error instanceof Error && error.name === "DefinitionsError");
  process.stderr.write(`${known ? (error as Error).message : error instanceof Error ? error.stack : String(error)}\n`);
  process.exit(1);
});
