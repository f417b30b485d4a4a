// One stream of a worker, seen from the service: its hello, all that it sent with the time of it, and what it is sent. The cases judge it.
import type { ServerDuplexStream } from "@grpc/grpc-js";
import type {
  BatchedWorkerMessage,
  Hello,
  HelloAck,
  StepFailure,
  StepResult,
  WorkerMessage,
} from "../sdk/protocol/index.js";
import type { Outbound } from "./wire.js";

export type WorkerCall = ServerDuplexStream<WorkerMessage, Outbound>;

/** Monotonic milliseconds. */
export interface Seen<T> {
  readonly at: number;
  readonly value: T;
}

export type Answer = { readonly result: StepResult } | { readonly failure: StepFailure };

/** How the service behaves on a stream. The default is the newest service, on its best day. */
export interface Manners {
  readonly batches: boolean;
  readonly credit: boolean;
  /** Credit is answered at once. */
  readonly credits: boolean;
  /** Answers are acknowledged at once. */
  readonly records: boolean;
  /** Every message has members of a newer protocol. */
  readonly fromTheFuture: boolean;
}

export const BEST: Manners = { batches: true, credit: true, credits: true, records: true, fromTheFuture: false };

/** Long, so that a worker that heartbeats by it alone misses short timeouts. */
const ADVISED_HEARTBEAT_MS = 10_000;

export interface StreamOwner {
  onAnswer(stream: Stream, dispatchId: string, answer: Answer): void;
  onHeartbeat(dispatchId: string): void;
}

export class Stream {
  readonly openedAt = performance.now();
  hello: Hello | undefined;
  /** The first message that is not what its place wants. */
  disorder: string | undefined;
  readonly credits: Seen<number>[] = [];
  /** How many messages each batch had. */
  readonly batches: Seen<number>[] = [];
  drainedAt: number | undefined;
  /** The worker has closed its side, or the connection is gone. */
  endedAt: number | undefined;
  /** The service never has more steps than this unanswered; undefined until the worker has given credit. */
  credit: number | undefined;

  constructor(
    private readonly call: WorkerCall,
    private readonly owner: StreamOwner,
    public manners: Manners,
  ) {
    call.on("data", (message: WorkerMessage) => this.receive(message));
    call.on("end", () => this.onInputEnd());
    for (const event of ["cancelled", "close", "error"] as const) call.on(event, () => this.end());
  }

  /** It has said hello, has credit and has not ended. */
  get isReady(): boolean {
    return this.hello !== undefined && this.credit !== undefined && this.isLive && this.drainedAt === undefined;
  }

  get isLive(): boolean {
    return this.endedAt === undefined;
  }

  /** The credential of its metadata, without "Bearer". */
  get bearer(): string | undefined {
    const [header] = this.call.metadata.get("authorization");
    return header === undefined ? undefined : String(header).replace(/^bearer +/i, "");
  }

  send(message: Outbound): void {
    if (this.isLive) this.call.write(this.manners.fromTheFuture ? { ...message, fromTheFuture: true } : message);
  }

  /** A message that no release knows. */
  sendUnknown(): void {
    if (this.isLive) this.call.write({ fromTheFuture: true });
  }

  /** Ends it as a node does that is stopped in good order. */
  close(): void {
    this.call.end();
    this.end();
  }

  /** Answers the credit that waits for it. */
  grant(): void {
    const asked = this.credits.at(-1)?.value;
    if (asked === undefined) return;
    this.credit = asked;
    this.send({ credited: { max_in_flight: asked } });
  }

  private receive(message: WorkerMessage): void {
    if (!this.hello) {
      if (message.hello) return this.onHello(message.hello);
      this.disorder ??= `the first message of a stream was ${message.message ?? "unknown"}, not hello`;
      return;
    }
    if (message.hello) this.disorder ??= "a second hello came on a stream";
    if (message.batch) {
      this.batches.push(seen(message.batch.messages.length));
      for (const each of message.batch.messages) this.take(each);
    } else this.take(message);
  }

  private onHello(hello: Hello): void {
    this.hello = hello;
    const { batches, credit } = this.manners;
    const ack: HelloAck = {
      node_id: "conformance",
      heartbeat_interval_ms: ADVISED_HEARTBEAT_MS,
      node_count: 1,
      batches,
      credit,
    };
    this.send({ hello_ack: ack });
    if (!credit || !hello.credit) this.credit = Math.max(hello.max_in_flight, 1);
  }

  private take(message: BatchedWorkerMessage | WorkerMessage): void {
    const { result, failure, heartbeat, drain, credit } = message;
    if (result) this.owner.onAnswer(this, result.dispatch_id, { result });
    else if (failure) this.owner.onAnswer(this, failure.dispatch_id, { failure });
    else if (heartbeat) this.owner.onHeartbeat(heartbeat.dispatch_id);
    else if (drain) this.drainedAt ??= performance.now();
    else if (credit) {
      this.credits.push(seen(credit.max_in_flight));
      if (this.manners.credits) this.grant();
    }
  }

  private onInputEnd(): void {
    if (!this.isLive) return;
    this.call.end();
    this.end();
  }

  private end(): void {
    this.endedAt ??= performance.now();
  }
}

const seen = <T>(value: T): Seen<T> => ({ at: performance.now(), value });
