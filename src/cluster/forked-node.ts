// What a forked process does: one node, and the conversation with its primary. It ends in order when it is told to, on a
// signal of its own, and when its primary is gone.
import cluster, { type Worker } from "node:cluster";
import { loadConfig } from "../config/index.js";
import { createLogger, type Logger } from "../log.js";
import { isMessage, type ToNode, type ToPrimary } from "./messages.js";
import { MetricsAsker } from "./metrics-page.js";
import { type NodeHandle, startNode } from "./node.js";

/** The primary kills at 30 s; this is for a node whose primary is gone. */
const STOP_WITHIN_MS = 30_000;

const PULSE_MS = 1_000;

/** Returns when the node serves. Throws what startNode throws. */
export async function runForkedNode(): Promise<void> {
  const { worker } = cluster;
  if (worker === undefined) throw new Error("This process is not a node of a primary");
  const { config } = loadConfig();
  const log = createLogger(config);
  const asker = new MetricsAsker((message) => tell(worker, message));
  const starting = startNode({ config, databaseUrl: config.databaseUrl ?? "", log, scrape: () => asker.page() });
  stopWhenTold(worker, starting, log);
  const node = await starting;
  process.on("message", (heard) => {
    if (isMessage(heard)) answer(worker, heard as ToNode, node, asker);
  });
  tell(worker, { type: "ready", nodeId: node.nodeId, http: node.httpPort, grpc: node.grpcPort });
  setInterval(() => tell(worker, { type: "pulse" }), PULSE_MS).unref();
}

function stopWhenTold(worker: Worker, starting: Promise<NodeHandle>, log: Logger): void {
  let stopping = false;
  const stop = (reason: string) => {
    if (stopping) return;
    stopping = true;
    log.info({ reason }, "a node stops");
    void endProcess(starting, log);
  };
  process.on("message", (heard) => {
    if (isMessage(heard) && heard.type === "stop") stop("the primary says so");
  });
  worker.once("disconnect", () => {
    // node:cluster would end the process here and now. (This runs before it looks.)
    worker.exitedAfterDisconnect = true;
    stop("the primary is gone");
  });
  // A terminal sends its signals to all processes at once. SIGHUP is the primary's affair.
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => stop(signal));
  process.on("SIGHUP", () => {});
}

/** Also in the middle of the start: it is waited for. A start that fails ends the process by itself. */
async function endProcess(starting: Promise<NodeHandle>, log: Logger): Promise<void> {
  setTimeout(() => {
    log.fatal("the orderly stop of a node took too long");
    process.exit(1);
  }, STOP_WITHIN_MS);
  try {
    await (await starting).stop();
    process.exit(0);
  } catch (error) {
    log.fatal({ err: error }, "the orderly stop of a node failed");
    process.exit(1);
  }
}

function answer(worker: Worker, message: ToNode, node: NodeHandle, asker: MetricsAsker): void {
  if (message.type === "page") asker.hear(message.id, message.page);
  if (message.type !== "metrics.ask") return;
  node.metrics.registry.getMetricsAsJSON().then(
    (metrics) => tell(worker, { type: "metrics", id: message.id, metrics }),
    () => {}, // The page is made without it.
  );
}

/** A primary that is gone hears nothing; that it is gone is told by the `disconnect`. */
function tell(worker: Worker, message: ToPrimary): void {
  if (worker.isConnected()) worker.send(message, () => {});
}
