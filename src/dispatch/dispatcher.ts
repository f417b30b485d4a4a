// The dispatcher of one node: decides who gets credit next and offers it to the run that queued. How a worker is reached
// is the transports' matter, what a run does with an offer is the run's; nothing is stored here.
import { randomUUID } from "node:crypto";
import type { ActionCall, Answer, Dispatch, RunCommand } from "../../machines/index.js";
import { overloaded, SagaError } from "../errors.js";
import type { CommandOptions, Dispatcher, Runs } from "../run/ports.js";
import type { WorkerCall } from "./grpc/messages.js";
import type { Authenticate } from "./grpc/stream.js";
import { GrpcTransport } from "./grpc/transport.js";
import {
  DEFAULT_LIMITS,
  type DispatchLimits,
  type Log,
  type Reservation,
  type Transport,
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
}

/** A call that waits for credit. Its offers keep their command's id, so that a repeated one is known as such (law 6). */
interface Waiting {
  readonly runId: string;
  readonly dispatchId: string;
  readonly call: ActionCall;
  readonly commandId: string;
  tries: number;
}

export interface NodeDispatcher extends Dispatcher {
  bind(runs: Pick<Runs, "command">): void;
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
  /** Invariant: whoever stands in a line has found no credit since credit last came free. */
  readonly #lines: Record<TransportName, WaitingLine<Waiting>>;
  /** In a line, being offered, or backing off. */
  readonly #waiting = new Map<string, Waiting>();
  readonly #backingOff = new Map<string, NodeJS.Timeout>();
  #runs: Pick<Runs, "command"> | undefined;
  #stopping = false;
  #overflowing = false;

  constructor(options: DispatcherOptions) {
    this.limits = Object.freeze({ ...DEFAULT_LIMITS, ...options.limits });
    this.#log = options.log;
    this.#runs = options.runs;
    this.#grpc = new GrpcTransport({
      ...options,
      limits: this.limits,
      host: {
        creditFreed: (service) => this.#serve("grpc", service),
        command: (runId, command, commandOptions) => this.#command(runId, command, commandOptions),
      },
    });
    this.#transports = { grpc: this.#grpc };
    this.#lines = { grpc: new WaitingLine(), http: new WaitingLine(), rmq: new WaitingLine() };
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

  reserve(dispatchId: string, call: ActionCall): Reservation | undefined {
    if (this.#stopping) return undefined;
    const reservation = this.#transports[call.transport]?.reserve(dispatchId, call);
    // It is the caller's now: an offer under way for it must not give the credit back when it is refused.
    if (reservation) this.#leave(dispatchId);
    return reservation;
  }

  enqueue(runId: string, dispatchId: string, call: ActionCall): void {
    if (this.#stopping || this.holds(dispatchId)) return;
    if (this.#isFull()) return;
    const waiting: Waiting = { runId, dispatchId, call, commandId: randomUUID(), tries: 0 };
    this.#waiting.set(dispatchId, waiting);
    const first = this.#lines[call.transport].add(call, dispatchId, waiting);
    if (first) this.#serve(call.transport, call.service);
  }

  send(dispatch: Dispatch): void {
    if (this.#stopping) return;
    this.#leave(dispatch.dispatchId);
    this.#transports[dispatch.call.transport]?.send(dispatch);
  }

  cancel(dispatchId: string, reason: string): void {
    for (const transport of Object.values(this.#transports)) transport.cancel(dispatchId, reason);
  }

  resolved(dispatchId: string): void {
    this.#leave(dispatchId);
    for (const transport of Object.values(this.#transports)) transport.resolved(dispatchId);
  }

  holds(dispatchId: string): boolean {
    if (this.#waiting.has(dispatchId)) return true;
    return Object.values(this.#transports).some((transport) => transport.holds(dispatchId));
  }

  async stop(graceMs: number): Promise<void> {
    this.#stopping = true;
    for (const timer of this.#backingOff.values()) clearTimeout(timer);
    this.#backingOff.clear();
    for (const line of Object.values(this.#lines)) line.clear();
    await Promise.all(Object.values(this.#transports).map((transport) => transport.stop(graceMs)));
    this.#waiting.clear();
  }

  #serve(name: TransportName, service?: string): void {
    const transport = this.#transports[name];
    if (this.#stopping || !transport) return;
    const take = (waiting: Waiting): boolean => {
      // The store is in trouble: one more offer would only fail as well.
      if (this.#backingOff.size >= this.limits.backingOff) return false;
      const reservation = transport.reserve(waiting.dispatchId, waiting.call);
      if (reservation) void this.#offer(waiting, reservation, transport);
      return reservation !== undefined;
    };
    if (service === undefined) this.#lines[name].serveAll(take);
    else this.#lines[name].serve(service, take);
  }

  /** Each offer holds the credit that it offers, so there are never more offers under way than credit. */
  async #offer(waiting: Waiting, { workerId }: Reservation, transport: Transport): Promise<void> {
    const { runId, dispatchId, commandId } = waiting;
    const named = workerId === undefined ? {} : { workerId };
    try {
      const answer = await this.#command(runId, { type: "offer", dispatchId, ...named }, { id: commandId });
      if (!this.#isCurrent(waiting)) return;
      this.#waiting.delete(dispatchId);
      if (isRefusal(answer)) transport.resolved(dispatchId);
    } catch (error) {
      if (!this.#isCurrent(waiting)) return;
      const again = error instanceof SagaError && error.status === 503;
      if (again) this.#backOff(waiting);
      else this.#waiting.delete(dispatchId);
      if (!(error instanceof SagaError)) this.#log.error({ err: error, runId, dispatchId }, "an offer failed");
      transport.resolved(dispatchId);
    }
  }

  #backOff(waiting: Waiting): void {
    if (this.#stopping) return;
    const { offerBackoffMs, offerBackoffMaxMs } = this.limits;
    const delay = Math.min(offerBackoffMs * 2 ** waiting.tries++, offerBackoffMaxMs);
    const timer = setTimeout(() => {
      this.#backingOff.delete(waiting.dispatchId);
      this.#lines[waiting.call.transport].add(waiting.call, waiting.dispatchId, waiting, true);
      // All of them: others may have been held up by the limit on those that back off.
      this.#serve(waiting.call.transport);
    }, delay);
    timer.unref();
    this.#backingOff.set(waiting.dispatchId, timer);
  }

  #isCurrent(waiting: Waiting): boolean {
    return this.#waiting.get(waiting.dispatchId) === waiting;
  }

  /** Takes it out of the queue, wherever in it it stands. */
  #leave(dispatchId: string): void {
    const waiting = this.#waiting.get(dispatchId);
    if (!waiting) return;
    this.#waiting.delete(dispatchId);
    this.#lines[waiting.call.transport].remove(waiting.call, dispatchId);
    clearTimeout(this.#backingOff.get(dispatchId));
    this.#backingOff.delete(dispatchId);
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

/** The run no longer waits for it. */
function isRefusal(answer: Answer): boolean {
  return answer.type === "refused" || (answer.type === "report" && answer.stale);
}
