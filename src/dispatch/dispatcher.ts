// The dispatcher of one node: decides who gets credit next and offers it to the run that queued. How a worker is reached
// is the transports' matter, what a run does with an offer is the run's; nothing is stored here.
import type { ActionCall, Answer, Dispatch, JsonObject, RunCommand } from "../../machines/index.js";
import { overloaded } from "../errors.js";
import type { CommandOptions, Dispatcher, Runs } from "../run/ports.js";
import type { WorkerCall } from "./grpc/messages.js";
import type { Authenticate } from "./grpc/stream.js";
import { GrpcTransport } from "./grpc/transport.js";
import { Offers, Waiting } from "./offers.js";
import type { Taker } from "./relay/issuer.js";
import { type Peers, Relay } from "./relay/relay.js";
import type { Performing } from "./request/perform.js";
import { RequestTransport } from "./request/transport.js";
import {
  type ActionName,
  DEFAULT_LIMITS,
  type DispatchLimits,
  type Log,
  type Reservation,
  type Transport,
  type TransportHost,
  type TransportName,
} from "./transport.js";
import { WaitingLine } from "./waiting-line.js";

export interface DispatcherOptions {
  /** May be bound later (`bind`): the runs need a dispatcher, too. */
  readonly runs?: Pick<Runs, "command">;
  readonly nodeId: string;
  readonly log: Log;
  /** Database time, epoch milliseconds. */
  readonly now: () => number;
  /** Nodes alive, as far as this one knows. */
  readonly nodeCount: () => number;
  readonly limits?: Partial<DispatchLimits>;
  /** What requests of the service's own are made with. Absent: they wait in the queue. */
  readonly egress?: Pick<Performing, "guard" | "secrets">;
  /** Whose workers this node's runs may use as well, and whose runs its workers serve. Absent: it is alone. */
  readonly peers?: Peers;
}

export interface NodeDispatcher extends Dispatcher {
  bind(runs: Pick<Runs, "command">): void;
  /** The nodes alive, after the shards were placed on them: what waits for runs that went to another node waits there. */
  placed(nodeIds: readonly string[]): void;
  /** A question of another node; undefined if it is none to a dispatcher. */
  asked(request: JsonObject): JsonObject | undefined;
  /** What another node tells; passed over if it is of no concern to a dispatcher. */
  told(message: JsonObject, from: string): void;
  /** A worker's new gRPC stream. */
  attach(call: WorkerCall, authenticate?: Authenticate): void;
  readonly limits: DispatchLimits;
  /** Calls that wait for credit. */
  readonly queued: number;
  /** Dispatches handed over and not yet answered. */
  readonly inFlight: number;
  /** Worker streams that have said hello. */
  readonly streams: number;
  /** Hands out nothing more, records within the grace what workers have answered, then closes their streams. */
  stop(graceMs: number): Promise<void>;
}

export function createDispatcher(options: DispatcherOptions): NodeDispatcher {
  return new QueueingDispatcher(options);
}

class QueueingDispatcher implements NodeDispatcher {
  readonly limits: DispatchLimits;
  readonly #log: Log;
  readonly #grpc: GrpcTransport;
  readonly #transports: Partial<Record<TransportName, Transport>>;
  readonly #relay: Relay | undefined;
  /** Invariant: whoever stands in a line has found no credit since credit last came free. */
  readonly #lines: Record<TransportName, WaitingLine<Taker>>;
  /** In a line, being offered, or backing off. */
  readonly #waiting = new Map<string, Waiting>();
  readonly #offers: Offers;
  #runs: Pick<Runs, "command"> | undefined;
  #stopping = false;
  #overflowing = false;

  constructor(options: DispatcherOptions) {
    this.limits = Object.freeze({ ...DEFAULT_LIMITS, ...options.limits });
    this.#log = options.log;
    this.#runs = options.runs;
    this.#lines = {
      grpc: new WaitingLine(),
      http: new WaitingLine(),
      rmq: new WaitingLine(),
      request: new WaitingLine(),
    };
    const shared = { ...options, limits: this.limits };
    this.#grpc = new GrpcTransport({
      ...shared,
      host: {
        ...this.#hostOf("grpc"),
        wanting: () => this.#relay?.want(),
        isMine: (dispatchId) => this.#relay?.isMine(dispatchId) ?? true,
        lost: (dispatch) => this.#relay?.lost(dispatch),
        claimed: (dispatchId, workerId) => this.#relay?.claimed(dispatchId, workerId),
      },
    });
    const { egress } = options;
    const request = egress && new RequestTransport({ ...shared, ...egress, host: this.#hostOf("request") });
    this.#transports = { grpc: this.#grpc, ...(request && { request }) };
    this.#relay = options.peers && this.#relayTo(options, options.peers);
    this.#offers = new Offers(
      {
        command: (runId, command, commandOptions) => this.#command(runId, command, commandOptions),
        isCurrent: (waiting) => this.#waiting.get(waiting.dispatchId) === waiting,
        settled: ({ dispatchId }) => void this.#waiting.delete(dispatchId),
        again: (waiting) => this.#lineUpAgain(waiting),
      },
      this.limits,
      this.#log,
    );
  }

  #hostOf(name: TransportName): TransportHost {
    return {
      creditFreed: (service) => this.#serve(name, service),
      command: (runId, command, options) => this.#command(runId, command, options),
    };
  }

  #relayTo({ nodeId, log, now }: DispatcherOptions, peers: Peers): Relay {
    return new Relay({
      ...{ nodeId, log, now, peers, limits: this.limits, near: this.#grpc.near, line: this.#lines.grpc },
      host: {
        command: (runId, command) => this.#command(runId, command),
        serve: (service) => this.#serve("grpc", service),
        offer: (name, fits, reserve) => this.#offerElsewhere(name, fits, reserve),
      },
    });
  }

  get queued(): number {
    return this.#waiting.size;
  }

  get inFlight(): number {
    return Object.values(this.#transports).reduce((sum, transport) => sum + transport.inFlight, 0);
  }

  get streams(): number {
    return this.#grpc.streams;
  }

  bind(runs: Pick<Runs, "command">): void {
    this.#runs = runs;
  }

  attach(call: WorkerCall, authenticate?: Authenticate): void {
    this.#grpc.attach(call, authenticate);
  }

  placed(nodeIds: readonly string[]): void {
    const relay = this.#relay;
    if (!relay) return;
    for (const dispatchId of [...this.#waiting.keys()]) if (!relay.isMine(dispatchId)) this.#leave(dispatchId);
    relay.placed(nodeIds);
  }

  asked(request: JsonObject): JsonObject | undefined {
    return this.#relay?.asked(request);
  }

  told(message: JsonObject, from: string): void {
    this.#relay?.told(message, from);
  }

  reserve(dispatchId: string, call: ActionCall): Reservation | undefined {
    if (this.#stopping) return undefined;
    const reservation =
      this.#relay?.reserved(dispatchId) ?? this.#transports[call.transport]?.reserve(dispatchId, call);
    // It is the caller's now: an offer under way for it must not give the credit back when it is refused.
    if (reservation) this.#leave(dispatchId);
    return reservation;
  }

  enqueue(runId: string, dispatchId: string, call: ActionCall): void {
    if (this.#stopping || this.holds(dispatchId)) return;
    if (this.#isFull()) return;
    const waiting = new Waiting(runId, dispatchId, call, (self) => this.#take(self));
    this.#waiting.set(dispatchId, waiting);
    const line = this.#lines[call.transport];
    if (!line.add(call, dispatchId, waiting)) return;
    this.#serve(call.transport, call.service);
    if (line === this.#lines.grpc && line.size > 0) this.#relay?.want();
  }

  send(dispatch: Dispatch): void {
    if (this.#stopping) return;
    this.#leave(dispatch.dispatchId);
    if (!this.#relay?.send(dispatch)) this.#transports[dispatch.call.transport]?.send(dispatch);
  }

  cancel(dispatchId: string, reason: string): void {
    for (const transport of Object.values(this.#transports)) transport.cancel(dispatchId, reason);
    this.#relay?.cancel(dispatchId, reason);
  }

  resolved(dispatchId: string): void {
    this.#leave(dispatchId);
    for (const transport of Object.values(this.#transports)) transport.resolved(dispatchId);
    this.#relay?.resolved(dispatchId);
  }

  holds(dispatchId: string): boolean {
    if (this.#waiting.has(dispatchId) || this.#relay?.holds(dispatchId)) return true;
    return Object.values(this.#transports).some((transport) => transport.holds(dispatchId));
  }

  async stop(graceMs: number): Promise<void> {
    this.#stopping = true;
    this.#offers.stop();
    for (const line of Object.values(this.#lines)) line.clear();
    await Promise.all(Object.values(this.#transports).map((transport) => transport.stop(graceMs)));
    this.#waiting.clear();
    // Last: the others are told of the streams that ended.
    this.#relay?.stop();
  }

  #serve(name: TransportName, service?: string): void {
    if (this.#stopping) return;
    const take = (taker: Taker) => taker.take();
    if (service === undefined) this.#lines[name].serveAll(take);
    else this.#lines[name].serve(service, take);
    if (name === "grpc") this.#relay?.serveIdle(service);
  }

  #take(waiting: Waiting): boolean {
    const transport = this.#transports[waiting.call.transport];
    if (!transport || this.#offers.heldUp) return false;
    const reservation = transport.reserve(waiting.dispatchId, waiting.call);
    if (reservation) void this.#offers.make(waiting, reservation, transport);
    return reservation !== undefined;
  }

  /** The first that waits for the action gets the credit of a worker of another node. */
  #offerElsewhere(
    name: ActionName,
    fits: (call: ActionCall) => boolean,
    reserve: (dispatchId: string) => Reservation,
  ): boolean {
    if (this.#stopping || this.#offers.heldUp || !this.#relay) return false;
    const waiting = this.#lines.grpc.takeFirst(name, (taker) => taker instanceof Waiting && fits(taker.call));
    if (!(waiting instanceof Waiting)) return false;
    void this.#offers.make(waiting, reserve(waiting.dispatchId), this.#relay);
    return true;
  }

  /** Its run could not answer. */
  #lineUpAgain(waiting: Waiting): void {
    const { call, dispatchId } = waiting;
    this.#lines[call.transport].add(call, dispatchId, waiting, { again: true });
    // All of them: others may have been held up by the limit on those that back off.
    this.#serve(call.transport);
  }

  /** Takes it out of the queue, wherever in it it stands. */
  #leave(dispatchId: string): void {
    const waiting = this.#waiting.get(dispatchId);
    if (!waiting) return;
    this.#waiting.delete(dispatchId);
    this.#lines[waiting.call.transport].remove(waiting.call, dispatchId);
    this.#offers.forget(dispatchId);
  }

  #isFull(): boolean {
    const full = this.#waiting.size >= this.limits.queued;
    if (full && !this.#overflowing) this.#log.warn({ queued: this.#waiting.size }, "the dispatch queue is full");
    this.#overflowing = full;
    return full;
  }

  async #command(runId: string, command: RunCommand, options?: CommandOptions): Promise<Answer> {
    if (!this.#runs) throw overloaded("the node is starting");
    return this.#runs.command(runId, command, options);
  }
}
