// The dispatcher of one node, composed by hand with its carriers. One more carrier is one more `add`.
import type { Log } from "../log.js";
import type { Dispatcher, Runs, Workers } from "../run/ports.js";
import { CallDispatcher } from "./dispatcher.js";
import { GrpcCarrier, type GrpcWorkers } from "./grpc/carrier.js";
import { DEFAULT_LIMITS, type DispatchLimits } from "./limits.js";
import { Ownership, type Peers } from "./ownership.js";
import type { Ask, DirectoryAsk, Tell } from "./relay/messages.js";
import type { RequestEnvironment } from "./request/attempt.js";
import { RequestCarrier } from "./request/carrier.js";

export interface DispatcherOptions {
  /** May be bound later (`bind`), because the runs need a dispatcher, too. */
  readonly runs?: Pick<Runs, "command">;
  readonly nodeId: string;
  readonly log: Log;
  /** Database time, epoch milliseconds. */
  readonly now: () => number;
  /** Number of live nodes, as far as this node knows. */
  readonly nodeCount: () => number;
  readonly limits?: Partial<DispatchLimits>;
  /** Guard and secrets for the requests that the service makes itself. Absent: these requests wait in the queue. */
  readonly egress?: Pick<RequestEnvironment, "guard" | "secrets">;
  /** The nodes that share their workers with this one. Absent: the node is alone. */
  readonly peers?: Peers;
}

export interface NodeDispatcher extends Dispatcher {
  /** Until the runs are bound, every command to them fails with 503. */
  bind(runs: Pick<Runs, "command">): void;
  /**
   * The live nodes, after the shards were placed on them. Calls of runs that went to another node leave the queue: they
   * wait there.
   */
  placed(nodeIds: readonly string[]): void;
  /** The answer to another node's question, or undefined if this node has no peers. */
  asked(request: Ask | DirectoryAsk): object | undefined;
  /** A message of another node. */
  told(message: Tell, from: string): void;
  readonly limits: DispatchLimits;
  /** Calls that wait for credit. */
  readonly queued: number;
  /** Dispatches handed over and not yet answered. */
  readonly inFlight: number;
  /** The workers that are connected to this node over gRPC. */
  readonly workers: GrpcWorkers;
  /** The workers of all nodes. */
  readonly directory: Workers;
  /**
   * Hands out no more dispatches, records within the grace period the answers that have arrived, then closes the
   * streams.
   */
  stop(graceMs: number): Promise<void>;
}

export function createDispatcher(options: DispatcherOptions): NodeDispatcher {
  const limits: DispatchLimits = Object.freeze({ ...DEFAULT_LIMITS, ...options.limits });
  const { nodeId, peers, egress, runs, log } = options;
  const ownership = new Ownership(nodeId, peers);
  const dispatcher = new CallDispatcher({ nodeId, ownership, limits, log, ...(peers && { bus: peers.bus }) });
  if (runs) dispatcher.bind(runs);
  const workers = dispatcher.add("grpc", (host) => new GrpcCarrier({ ...options, limits, ownership, host }));
  if (egress) dispatcher.add("request", (host) => new RequestCarrier({ ...options, ...egress, limits, host }));
  return Object.assign(dispatcher, { limits, workers });
}
