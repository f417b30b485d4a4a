// One channel to one node with one stream on it, opened again with backoff whenever it is lost. It carries messages; what
// they mean is the worker's matter.
import { type ServiceError, status } from "@grpc/grpc-js";
import type { Log } from "./log.js";
import {
  type CoordinatorMessage,
  type ExecuteStep,
  type Hello,
  type HelloAck,
  openClient,
  type WorkerCall,
  type WorkerClient,
  type WorkerMessage,
} from "./protocol.js";
import { jitteredBackoff, type Timing } from "./timing.js";

export interface ConnectionOwner {
  hello(): Hello;
  acknowledged(connection: Connection, ack: HelloAck): void;
  execute(connection: Connection, step: ExecuteStep): void;
  cancelled(dispatchId: string, reason: string): void;
  recorded(dispatchId: string): void;
  lost(connection: Connection): void;
}

export class Connection {
  /** The node its stream landed on, while it is live. */
  nodeId: string | undefined;
  heartbeatIntervalMs = 0;
  /** It has said that it takes no more steps. It stays until those it has are answered. */
  draining = false;
  readonly #client: WorkerClient;
  #call: WorkerCall | undefined;
  #state: "connecting" | "live" | "closed" = "connecting";
  #congested = false;
  #failures = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    target: string,
    private readonly owner: ConnectionOwner,
    private readonly timing: Timing,
    private readonly log: Log,
  ) {
    this.#client = openClient(target);
    this.#open();
  }

  get live(): boolean {
    return this.#state === "live";
  }

  /** The service is slow to read: what can wait should wait. */
  get congested(): boolean {
    return this.#congested;
  }

  /** False if there is no stream to send it on. */
  send(message: WorkerMessage): boolean {
    if (!this.live || !this.#call) return false;
    this.#congested = !this.#call.write(message);
    return true;
  }

  drain(): void {
    if (this.draining) return;
    this.draining = true;
    this.send({ drain: {} });
  }

  close(): void {
    if (this.#state === "closed") return;
    this.#state = "closed";
    clearTimeout(this.#timer);
    const call = this.#call;
    call?.end();
    // The service ends its side in turn. If it does not, nobody is there.
    setTimeout(() => call?.cancel(), this.timing.abortGraceMs).unref();
    this.#client.close();
  }

  #open(): void {
    const call = this.#client.ExecuteStep();
    this.#call = call;
    this.#congested = false;
    call.on("data", (message: CoordinatorMessage) => this.#receive(call, message));
    call.on("drain", () => {
      this.#congested = false;
    });
    call.on("error", (error: ServiceError) => this.#lose(call, error));
    call.on("end", () => this.#lose(call, undefined));
    call.write({ hello: this.owner.hello() });
    this.#timer = setTimeout(() => {
      call.cancel();
      this.#lose(call, undefined);
    }, this.timing.helloMs);
  }

  #receive(call: WorkerCall, message: CoordinatorMessage): void {
    if (this.#call !== call || this.#state === "closed") return;
    if (message.hello_ack) this.#acknowledge(message.hello_ack);
    else if (message.execute) this.owner.execute(this, message.execute);
    else if (message.cancel) this.owner.cancelled(message.cancel.dispatch_id, message.cancel.reason);
    else if (message.recorded) this.owner.recorded(message.recorded.dispatch_id);
  }

  /** Comes again on a live stream when the number of nodes changed. */
  #acknowledge(ack: HelloAck): void {
    clearTimeout(this.#timer);
    this.nodeId = ack.node_id;
    this.heartbeatIntervalMs = ack.heartbeat_interval_ms;
    const fresh = this.#state === "connecting";
    this.#state = "live";
    this.#failures = 0;
    if (fresh && this.draining) this.send({ drain: {} });
    this.owner.acknowledged(this, ack);
  }

  #lose(call: WorkerCall, error: ServiceError | undefined): void {
    if (this.#call !== call || this.#state === "closed") return;
    clearTimeout(this.#timer);
    this.#call = undefined;
    this.nodeId = undefined;
    this.#state = "connecting";
    if (this.#failures === 0 || error?.code === status.UNAUTHENTICATED || error?.code === status.INVALID_ARGUMENT) {
      const reason = error ? `${status[error.code]}: ${error.details}` : "the stream ended";
      this.log.warn({ reason }, "a stream to the service was lost; connecting again");
    }
    this.#timer = setTimeout(() => this.#open(), jitteredBackoff(this.timing, this.#failures++));
    this.owner.lost(this);
  }
}
