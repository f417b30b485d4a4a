// One channel to one node with one stream on it. Whenever the stream is lost, both are opened again, with backoff. It carries messages;
// worker.ts handles them.
import { type ServiceError, status } from "@grpc/grpc-js";
import {
  type BatchedWorkerMessage,
  type CoordinatorMessage,
  type ExecuteStep,
  type Hello,
  type HelloAck,
  Outgoing,
  type WorkerMessage,
} from "../protocol/index.js";
import type { Address, Addresses } from "./addresses.js";
import { type Client, openClient, type WorkerCall } from "./client.js";
import type { CreditStream } from "./credit.js";
import { type Log, reasonOf } from "./log.js";
import { jitteredBackoff, type Timing } from "./timing.js";
import type { TlsOptions } from "./tls.js";

/** Where the service's gRPC is. */
export interface Place {
  readonly addresses: Pick<Addresses, "next">;
  readonly tls?: TlsOptions | undefined;
}

export interface ConnectionOwner {
  /** The credential of the next stream; empty if there is none. */
  token(): string | Promise<string>;
  /** The first message of every stream. */
  hello(token: string): Hello;
  onHelloAck(connection: Connection, ack: HelloAck): void;
  /** A connection that was lost has a stream again, to a service that may have another database than before. */
  onReconnected(): void;
  onExecute(connection: Connection, step: ExecuteStep): void;
  onCancel(dispatchId: string, reason: string): void;
  onRecorded(dispatchId: string): void;
  /** The service never has more steps than this unanswered on its stream, from now on. */
  onCredited(connection: Connection, maxInFlight: number): void;
  /** The stream is gone; the connection opens another. */
  onLost(connection: Connection): void;
}

export class Connection implements CreditStream {
  /** The node that its stream landed on, while it is live. */
  nodeId: string | undefined;
  heartbeatIntervalMs = 0;
  /** Its credit can be changed. An older service goes by the hello. */
  takesCredit = false;
  /** It has asked the service for no more steps, and stays open until the steps it has are answered. */
  draining = false;
  /** Where it was connected last, for the log. */
  private target = "";
  private client: Client | undefined;
  private call: WorkerCall | undefined;
  private outgoing: Outgoing<BatchedWorkerMessage, WorkerMessage> | undefined;
  private state: "connecting" | "live" | "closed" = "connecting";
  private isCongested = false;
  private failures = 0;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly place: Place,
    private readonly owner: ConnectionOwner,
    private readonly timing: Timing,
    private readonly log: Log,
  ) {
    this.open();
  }

  get live(): boolean {
    return this.state === "live";
  }

  /** The service is slow to read: messages that can wait should wait. */
  get congested(): boolean {
    return this.isCongested;
  }

  /** False if there is no live stream to send it on. */
  send(message: BatchedWorkerMessage): boolean {
    if (!this.live || !this.outgoing) return false;
    this.outgoing.send(message);
    return true;
  }

  sendCredit(maxInFlight: number): void {
    this.send({ credit: { max_in_flight: maxInFlight } });
  }

  drain(): void {
    if (this.draining) return;
    this.draining = true;
    this.send({ drain: {} });
  }

  close(): void {
    if (this.state === "closed") return;
    this.state = "closed";
    clearTimeout(this.timer);
    const { call, client } = this;
    this.outgoing?.flush();
    call?.end();
    // The service ends its side in turn. If it does not in time, the connection is closed.
    setTimeout(() => client?.abandon(), this.timing.abortGraceMs).unref();
    client?.close();
  }

  /** With the present credential: that of the last stream may have ended. */
  private open(): void {
    const token = this.owner.token();
    const address = this.place.addresses.next();
    if (typeof token === "string" && !(address instanceof Promise)) return this.openStream(token, address);
    Promise.all([token, address]).then(
      ([present, where]) => {
        if (this.state !== "closed") this.openStream(present, where);
      },
      (error: unknown) => {
        if (this.state !== "closed")
          this.openAgain(`the token could not be had: ${reasonOf(error)}`, this.failures === 0);
      },
    );
  }

  private openStream(token: string, address: Address): void {
    // Always over a new TCP connection. gRPC waits without a limit for the first frame of a server, so a channel whose connection
    // was accepted and is never answered would keep every further stream waiting.
    this.client?.abandon();
    this.target = address.authority ?? address.target;
    this.client = openClient(address, this.place.tls, this.timing);
    const call = this.client.ExecuteStep();
    this.call = call;
    this.outgoing = this.outgoingOn(call);
    this.isCongested = false;
    call.on("data", (message: CoordinatorMessage) => this.receive(call, message));
    call.on("drain", () => {
      this.isCongested = false;
    });
    call.on("error", (error: ServiceError) => this.lose(call, error));
    call.on("end", () => this.lose(call, undefined));
    call.write({ hello: this.owner.hello(token) });
    this.timer = setTimeout(() => {
      call.cancel();
      this.lose(call, undefined);
    }, this.timing.helloMs);
  }

  /** It never blocks: gRPC keeps what the service is slow to read, and messages that can wait do so before they come here. */
  private outgoingOn(call: WorkerCall): Outgoing<BatchedWorkerMessage, WorkerMessage> {
    const write = (message: WorkerMessage) => {
      this.isCongested = !call.write(message);
      return true;
    };
    const weigh = ({ result }: BatchedWorkerMessage) => result?.result_json.length ?? 0;
    return new Outgoing({ write, weigh, batchOf: (messages): WorkerMessage => ({ batch: { messages } }) });
  }

  private receive(call: WorkerCall, message: CoordinatorMessage): void {
    if (this.call !== call || this.state === "closed") return;
    for (const each of message.batch?.messages ?? []) this.receive(call, each);
    if (message.hello_ack) this.onHelloAck(message.hello_ack);
    else if (message.execute) this.owner.onExecute(this, message.execute);
    else if (message.cancel) this.owner.onCancel(message.cancel.dispatch_id, message.cancel.reason);
    else if (message.recorded) this.owner.onRecorded(message.recorded.dispatch_id);
    else if (message.credited) this.owner.onCredited(this, message.credited.max_in_flight);
  }

  /** Arrives again on a live stream when the number of nodes changes. */
  private onHelloAck(ack: HelloAck): void {
    clearTimeout(this.timer);
    this.nodeId = ack.node_id;
    this.heartbeatIntervalMs = ack.heartbeat_interval_ms;
    this.takesCredit = ack.credit;
    if (this.outgoing) this.outgoing.batches = ack.batches;
    const fresh = this.state === "connecting";
    this.state = "live";
    const again = this.failures > 0;
    this.failures = 0;
    if (again) {
      this.log.info({ nodeId: ack.node_id }, "connected to the service again");
      this.owner.onReconnected();
    }
    if (fresh && this.draining) this.send({ drain: {} });
    this.owner.onHelloAck(this, ack);
  }

  private lose(call: WorkerCall, error: ServiceError | undefined): void {
    if (this.call !== call || this.state === "closed") return;
    clearTimeout(this.timer);
    this.call = undefined;
    this.outgoing = undefined;
    this.nodeId = undefined;
    this.state = "connecting";
    const reason = error ? `${status[error.code]}: ${error.details}` : "the stream ended";
    this.openAgain(reason, this.failures === 0 || (error !== undefined && REFUSALS.has(error.code)));
    this.owner.onLost(this);
  }

  private openAgain(reason: string, isNews: boolean): void {
    if (isNews) this.log.warn({ target: this.target, reason }, "stream to the service lost, reconnecting");
    this.timer = setTimeout(() => this.open(), jitteredBackoff(this.timing, this.failures++));
  }
}

/** What someone has to mend. */
const REFUSALS: ReadonlySet<status> = new Set([
  status.UNAUTHENTICATED,
  status.PERMISSION_DENIED,
  status.INVALID_ARGUMENT,
]);
