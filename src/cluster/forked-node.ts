// A forked process: one node, and its messages with the primary. It stops in order when the primary asks for it, on a signal,
// and when the primary is gone.
import cluster, { type Worker } from "node:cluster";
import { loadConfig } from "../config/index.js";
import { createLogger, type Logger } from "../log.js";
import type { PageFormat } from "../metrics/page.js";
import { LastWords } from "../trial/last-words.js";
import { isMessage, LAST_WORDS, type ToNode, type ToPrimary } from "./messages.js";
import { MetricsAsker } from "./metrics-page.js";
import { type NodeHandle, startNode } from "./node.js";

/** The primary kills a node after 30 s; this limit is for a node whose primary is gone. */
const STOP_WITHIN_MS = 30_000;

/** The primary takes a node without a pulse for unresponsive. */
const PULSE_MS = 1_000;

/** Returns when the node serves. Throws the errors of startNode. */
export async function runForkedNode(): Promise<void> {
  const { worker } = cluster;
  if (worker === undefined) throw new Error("this process was not forked by a primary");
  const { config } = loadConfig();
  const log = createLogger(config);
  const asker = new MetricsAsker((message) => send(worker, message));
  const databaseUrl = config.databaseUrl ?? "";
  const scrape = (format: PageFormat) => asker.page(format);
  const starting = startNode({ config, databaseUrl, log, scrape, lastWords: givenLastWords() });
  stopOnRequest(worker, starting, log);
  const node = await starting;
  process.on("message", (message) => {
    if (isMessage(message)) answer(worker, message as ToNode, node, asker);
  });
  send(worker, { type: "ready", nodeId: node.nodeId, http: node.httpPort, grpc: node.grpcPort });
  setInterval(() => send(worker, { type: "pulse" }), PULSE_MS).unref();
}

function stopOnRequest(worker: Worker, starting: Promise<NodeHandle>, log: Logger): void {
  let stopping = false;
  const stop = (reason: string) => {
    if (stopping) return;
    stopping = true;
    log.info({ reason }, "node stopping");
    void endProcess(worker, starting, log);
  };
  process.on("message", (message) => {
    if (isMessage(message) && message.type === "stop") stop("requested by the primary");
  });
  worker.once("disconnect", () => {
    // Without this node:cluster would end the process at once; it checks the flag after this listener.
    worker.exitedAfterDisconnect = true;
    stop("the primary is gone");
  });
  // A terminal sends its signals to all processes at once. SIGHUP is for the primary.
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => stop(signal));
  process.on("SIGHUP", () => {});
}

/** The primary gives an open file to the node, and says so: an older primary gives none. */
function givenLastWords(): LastWords | undefined {
  return process.argv.includes(LAST_WORDS.argument) ? new LastWords(LAST_WORDS.file) : undefined;
}

/** Waits for a start in progress. A start that fails ends the process by itself. */
async function endProcess(worker: Worker, starting: Promise<NodeHandle>, log: Logger): Promise<void> {
  setTimeout(() => {
    log.fatal("node stop timed out");
    process.exit(1);
  }, STOP_WITHIN_MS);
  try {
    const node = await starting;
    await node.stop();
    await report(worker, node, UNASKED);
    process.exit(0);
  } catch (error) {
    log.fatal({ err: error }, "node stop failed");
    process.exit(1);
  }
}

function answer(worker: Worker, message: ToNode, node: NodeHandle, asker: MetricsAsker): void {
  if (message.type === "suspect") node.suspect(message.key);
  if (message.type === "certificate") node.replaceCertificate();
  if (message.type === "page") asker.receive(message.id, message.page);
  if (message.type === "metrics.ask") void report(worker, node, message.id);
}

/** No round of the primary has it: what the node has counted since it was asked last is for the next one. */
const UNASKED = 0;

/** Resolves when it is on its way. Without it the page is made of the last report of this node. */
async function report(worker: Worker, { metrics: { registry } }: NodeHandle, id: number): Promise<void> {
  const metrics = await registry.getMetricsAsJSON().catch(() => undefined);
  if (metrics) await new Promise<void>((resolve) => send(worker, { type: "metrics", id, metrics }, resolve));
}

/** A primary that is gone gets no message; the `disconnect` event reports that. */
function send(worker: Worker, message: ToPrimary, sent = () => {}): void {
  if (worker.isConnected()) worker.send(message, sent);
  else sent();
}
