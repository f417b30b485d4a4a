// One node process as the primary sees it: forked, ready, asked to stop, ended. The supervisor decides when.
import type { ChildProcess } from "node:child_process";
import cluster, { type Worker } from "node:cluster";
import { closeSync } from "node:fs";
import type { Logger } from "../log.js";
import type { PageFormat } from "../metrics/page.js";
import { openNamelessFile, readLastWords } from "../trial/last-words.js";
import { watchHandoffs } from "./handoffs.js";
import { isMessage, LAST_WORDS, type NodeMetrics, type ToNode, type ToPrimary } from "./messages.js";

export interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** Milliseconds since it was ready; 0 if it never was. */
  readonly served: number;
}

export interface Ready {
  readonly nodeId: string;
  readonly http: number;
  readonly grpc: number;
}

export interface NodeProcessHooks {
  /** The node asks for the metrics of all nodes. Answer with a `page` message with this id. */
  onPageAsk(node: NodeProcess, id: number, format?: PageFormat): void;
  onMetrics(node: NodeProcess, id: number, metrics: NodeMetrics): void;
  readonly log: Logger;
}

export class NodeProcess {
  /** True once the node serves; false if it ended before. Never rejects. */
  readonly ready: Promise<boolean>;
  /** Never rejects. */
  readonly ended: Promise<Ending>;
  /** Known once the node is ready. */
  details: Ready | undefined;
  hasEnded = false;
  /** Once it has ended: what it was deciding on then, a run id or the key of a start. */
  lastWords: string | undefined;
  /** The end of this node is intended: it gets no replacement. */
  retired = false;
  /** On the monotonic clock. */
  private readyAt: number | undefined;
  /** Checks since the last message. */
  private silentChecks = 0;
  private readonly worker: Worker;

  /** Throws if the system cannot start another process. */
  constructor(
    environment: Readonly<Record<string, string>>,
    private readonly hooks: NodeProcessHooks,
  ) {
    const words = new NamelessWords(hooks.log);
    this.worker = words.fork(environment);
    this.ended = this.watchEnd(words);
    this.ready = new Promise((resolve) => {
      this.worker.on("message", (message: unknown) => this.receive(message, () => resolve(true)));
      void this.ended.then(() => resolve(false));
    });
  }

  /** For the bus, which uses the same channel. */
  get process(): ChildProcess {
    return this.worker.process;
  }

  get pid(): number | undefined {
    return this.process.pid;
  }

  private watchEnd(words: NamelessWords): Promise<Ending> {
    const closeHandoffs = watchHandoffs(this.process);
    return new Promise((resolve) => {
      const end = (code: number | null, signal: NodeJS.Signals | null) => {
        this.hasEnded = true;
        closeHandoffs();
        this.lastWords = words.take();
        resolve({ code, signal, served: performance.now() - (this.readyAt ?? performance.now()) });
      };
      this.worker.once("exit", end);
      this.worker.on("error", (error) => {
        this.hooks.log.error({ err: error, node: this.pid }, "node process or its channel failed");
        // Without a process id the process never existed, and no exit follows.
        if (this.pid === undefined) end(null, null);
      });
    });
  }

  private receive(received: unknown, onReady: () => void): void {
    if (!isMessage(received)) return;
    this.silentChecks = 0;
    const message = received as ToPrimary;
    if (message.type === "ready") {
      this.readyAt = performance.now();
      this.details = { nodeId: message.nodeId, http: message.http, grpc: message.grpc };
      onReady();
    } else if (message.type === "page.ask") this.hooks.onPageAsk(this, message.id, message.format);
    else if (message.type === "metrics") this.hooks.onMetrics(this, message.id, message.metrics);
  }

  /** How many checks in a row, including this one, have found the node silent. */
  checkSilence(): number {
    return this.silentChecks++;
  }

  /** Does nothing if the process has ended. */
  send(message: ToNode): void {
    // With a callback a failure raises no error event. The exit that follows is enough.
    if (this.worker.isConnected()) this.worker.send(message, () => {});
  }

  /** Asks the node to drain and to end. */
  retire(): void {
    this.retired = true;
    this.send({ type: "stop" });
    // A message before the first line of the node's code is lost, so it is repeated. A node ignores the second one.
    void this.ready.then((serves) => serves && this.send({ type: "stop" }));
  }

  /** At once. The process is our own child, and the system reuses its id only after its exit was reported here. */
  kill(): void {
    if (!this.hasEnded) this.process.kill("SIGKILL");
  }
}

/** The file in which a node says its last words. Without one the node has none. */
class NamelessWords {
  private file: number | undefined;

  constructor(private readonly log: Logger) {}

  fork(environment: Readonly<Record<string, string>>): Worker {
    this.file = this.openOrNone();
    const inherited = ["inherit", "inherit", "inherit", "ipc"] as const;
    const stdio = this.file === undefined ? [...inherited] : [...inherited, this.file];
    // The settings of node:cluster count for the forks that follow.
    cluster.setupPrimary({ stdio, args: this.file === undefined ? [] : [LAST_WORDS.argument] });
    try {
      return cluster.fork(environment);
    } catch (error) {
      this.take();
      throw error;
    }
  }

  /** After the end of the node. */
  take(): string | undefined {
    if (this.file === undefined) return undefined;
    const { file } = this;
    this.file = undefined;
    const said = readLastWords(file);
    closeSync(file);
    return said;
  }

  private openOrNone(): number | undefined {
    try {
      return openNamelessFile();
    } catch (error) {
      this.log.warn(
        { err: error },
        "the folder of temporary files cannot be written to: a run that kills its node is found late",
      );
      return undefined;
    }
  }
}
