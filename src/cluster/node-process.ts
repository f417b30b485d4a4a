// One node process as the primary sees it: forked, ready, asked to stop, over. It does not decide when any of that happens.
import type { ChildProcess } from "node:child_process";
import cluster, { type Worker } from "node:cluster";
import type { Logger } from "../log.js";
import { watchHandoffs } from "./handoffs.js";
import { isMessage, type NodeMetrics, type ToNode, type ToPrimary } from "./messages.js";

export interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** Milliseconds since the fork. */
  readonly lived: number;
}

export interface Ready {
  readonly nodeId: string;
  readonly http: number;
  readonly grpc: number;
}

export interface ChildHooks {
  /** It asks for the metrics of all nodes: the answer is a `page` message with this id. */
  onPageAsk(child: Child, id: number): void;
  onMetrics(child: Child, id: number, metrics: NodeMetrics): void;
  readonly log: Logger;
}

export class Child {
  /** True once it serves; false if it ended before. Never rejects. */
  readonly ready: Promise<boolean>;
  /** Never rejects. */
  readonly ended: Promise<Ending>;
  /** Known from its readiness on. */
  details: Ready | undefined;
  isOver = false;
  /** Its end is wanted: nobody starts another in its place. */
  dismissed = false;
  /** Looks at it that found no word from it since the look before. */
  private silentLooks = 0;
  private readonly worker: Worker;

  /** Throws where the system has no room for another process. */
  constructor(
    environment: Readonly<Record<string, string>>,
    private readonly hooks: ChildHooks,
  ) {
    const since = performance.now();
    this.worker = cluster.fork(environment);
    const closeHandoffs = watchHandoffs(this.process);
    this.ended = new Promise((resolve) => {
      const over = (code: number | null, signal: NodeJS.Signals | null) => {
        this.isOver = true;
        closeHandoffs();
        resolve({ code, signal, lived: performance.now() - since });
      };
      this.worker.once("exit", over);
      this.worker.on("error", (error) => {
        hooks.log.error({ err: error, node: this.pid }, "a node process, or its channel, has an error");
        // Without a number it never was: no exit follows.
        if (this.pid === undefined) over(null, null);
      });
    });
    this.ready = new Promise((resolve) => {
      this.worker.on("message", (message: unknown) => this.hear(message, () => resolve(true)));
      void this.ended.then(() => resolve(false));
    });
  }

  /** For the other conversation over its channel, that of the bus. */
  get process(): ChildProcess {
    return this.worker.process;
  }

  get pid(): number | undefined {
    return this.process.pid;
  }

  private hear(heard: unknown, onReady: () => void): void {
    if (!isMessage(heard)) return;
    this.silentLooks = 0;
    const message = heard as ToPrimary;
    if (message.type === "ready") {
      this.details = { nodeId: message.nodeId, http: message.http, grpc: message.grpc };
      onReady();
    } else if (message.type === "page.ask") this.hooks.onPageAsk(this, message.id);
    else if (message.type === "metrics") this.hooks.onMetrics(this, message.id, message.metrics);
  }

  /** How many looks in a row, this one included, have found it silent. */
  look(): number {
    return this.silentLooks++;
  }

  /** To a child that is gone it says nothing. */
  tell(message: ToNode): void {
    // With a callback an error is not an event: the exit that follows says all there is to say.
    if (this.worker.isConnected()) this.worker.send(message, () => {});
  }

  /** Orderly: it drains and ends by itself. */
  dismiss(): void {
    this.dismissed = true;
    this.tell({ type: "stop" });
    // Before its first line of code runs it hears nothing. Twice told is once told.
    void this.ready.then((serves) => serves && this.tell({ type: "stop" }));
  }

  /** At once. It is our own child, and its number is free only after we have heard of its end. */
  kill(): void {
    if (!this.isOver) this.process.kill("SIGKILL");
  }
}
