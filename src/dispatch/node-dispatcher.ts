// The dispatcher of one node, composed by hand with its carriers: the streams of gRPC, and an outlet for each transport that pushes.

import type { DispatchId } from "../../machines/index.js";
import type { Log } from "../log.js";
import type { Dispatcher, Runs } from "../run/ports.js";
import type { FairScheduler } from "../work/fair-scheduler.js";
import type { AwayFrom, TransportName } from "./carrier.js";
import { CallDispatcher } from "./dispatcher.js";
import type { ShareOf } from "./fair-queue.js";
import { GrpcCarrier, type GrpcWorkers } from "./grpc/carrier.js";
import { HttpOutlet, type HttpOutletOptions } from "./http/outlet.js";
import { DEFAULT_LIMITS, type DispatchLimits } from "./limits.js";
import { Ownership, type Peers } from "./ownership.js";
import { PushCarrier, type PushCarrierOptions } from "./push/carrier.js";
import type { Delivery, Outlet } from "./push/outlet.js";
import { RabbitMqOutlet, type RabbitMqOutletOptions } from "./rabbitmq/outlet.js";
import type { DispatchAsk, Tell } from "./relay/messages.js";
import type { RequestEnvironment } from "./request/attempt.js";
import { RequestOutlet } from "./request/outlet.js";
import { type CallbackToken, noToken } from "./step-message.js";
import { byAction, byTenant, type ConnectedWorker, type WaitingAction, type Workers } from "./workers.js";

export interface DispatcherOptions {
  /** May be bound later (`bind`), because the runs need a dispatcher, too. */
  readonly runs?: Runs;
  readonly nodeId: string;
  readonly log: Log;
  /** Database time, epoch milliseconds. */
  readonly now: () => number;
  /** Number of live nodes, as far as this node knows. */
  readonly nodeCount: () => number;
  /** Shares the event loop between dispatches and other work. */
  readonly scheduler: Pick<FairScheduler, "compute">;
  readonly limits?: Partial<DispatchLimits>;
  /** Guard and secrets for the requests that the service makes itself. Absent: these requests wait in the queue. */
  readonly egress?: Pick<RequestEnvironment, "guard" | "secrets" | "userOf" | "secretUsed">;
  /** How workers are called that open no stream. Absent: their calls wait in the queue. */
  readonly callbacks?: Callbacks;
  /** Told of every try to hand a dispatch over to a worker that has no stream. */
  readonly delivered?: (transport: TransportName, kind: Delivery["kind"]) => void;
  /** With access on, workers serve the runs of their tenants, and dispatches carry the credential of their reports. */
  readonly access?: DispatchAccess;
  /** How many turns in a row a tenant's calls have. Absent: one. */
  readonly shareOf?: ShareOf;
  /** The nodes that share their workers with this one. Absent: the node is alone. */
  readonly peers?: Peers;
  /** Which of these dispatches still have their outbox rows. Absent: all. */
  readonly withRows?: (dispatchIds: readonly DispatchId[]) => Promise<readonly DispatchId[]>;
}

export interface DispatchAccess {
  /** The credential of the reports on a dispatch. */
  readonly callbackToken: CallbackToken;
}

/** Workers that the service calls, and that report over the API. */
export interface Callbacks {
  /** The public URL of the service. */
  readonly publicUrl: () => string;
  /** Removes the outbox rows of dispatches that workers have accepted. */
  readonly removeRows: (dispatchIds: readonly DispatchId[]) => Promise<void>;
  readonly http?: Pick<HttpOutletOptions, "guard" | "signing">;
  readonly rabbitmq?: Pick<RabbitMqOutletOptions, "url" | "connect">;
}

export interface NodeDispatcher extends Dispatcher {
  /** Until the runs are bound, every command to them fails with 503. */
  bind(runs: Runs): void;
  /**
   * The live nodes, after the shards were placed on them. Calls of runs that went to another node leave the queue: they
   * wait there.
   */
  placed(nodeIds: readonly string[]): void;
  /** The answer to another node's question, or undefined if this node has no peers. */
  asked(request: DispatchAsk): object | undefined;
  /** A message of another node. */
  told(message: Tell, from: string): void;
  readonly limits: DispatchLimits;
  /** Calls that wait for credit, and dispatches whose worker is gone. */
  readonly queued: number;
  /** Dispatches handed over and not yet answered. */
  readonly inFlight: number;
  /** The workers that this node knows, and the calls of its runs that wait for one. */
  connectedWorkers(): Iterable<ConnectedWorker>;
  waitingCalls(): Iterable<WaitingAction>;
  /** The destinations that take no calls of this node at present. */
  away(): Iterable<AwayFrom>;
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
  const { nodeId, peers, runs, log } = options;
  const ownership = new Ownership(nodeId, peers);
  const nameCall = options.access ? byTenant : byAction;
  const shareOf = options.shareOf;
  const dispatcher = new CallDispatcher({
    ...{ nodeId, ownership, limits, log, nameCall, shareOf, ...(peers && { bus: peers.bus }) },
  });
  if (runs) dispatcher.bind(runs);
  const workers = dispatcher.add(
    "grpc",
    (host) => new GrpcCarrier({ ...options, limits, ownership, host, nameCall, tokenOf: tokenOf(options) }),
  );
  for (const { transport, slots, outlet } of outlets(options, limits))
    dispatcher.add(
      transport,
      (host) => new PushCarrier({ ...pushing(options, transport), ownership, limits, slots, outlet, host }),
    );
  return Object.assign(dispatcher, { limits, workers });
}

interface OutletOf {
  readonly transport: TransportName;
  readonly slots: PushCarrierOptions["slots"];
  readonly outlet: Outlet;
}

function outlets(options: DispatcherOptions, limits: DispatchLimits): OutletOf[] {
  const { egress, callbacks, now, log, scheduler } = options;
  const { outputBytes, messageBytes } = limits;
  const found: OutletOf[] = [];
  if (egress) {
    const slots = { all: limits.requests, each: limits.requestsPerHost };
    found.push({ transport: "request", slots, outlet: new RequestOutlet({ ...egress, outputBytes, now, scheduler }) });
  }
  if (callbacks?.http) {
    const slots = { all: limits.httpCalls, each: limits.httpCallsPerHost };
    const { http, publicUrl } = callbacks;
    const callback = { publicUrl, tokenOf: tokenOf(options) };
    const outlet = new HttpOutlet({ ...http, ...callback, outputBytes, now, log, scheduler });
    found.push({ transport: "http", slots, outlet });
  }
  if (callbacks?.rabbitmq) {
    const slots = { all: limits.messages, each: limits.messagesPerQueue };
    const outlet = new RabbitMqOutlet({
      ...callbacks.rabbitmq,
      publicUrl: callbacks.publicUrl,
      tokenOf: tokenOf(options),
      messageBytes,
      now,
      log,
    });
    found.push({ transport: "rmq", slots, outlet });
  }
  return found;
}

const tokenOf = ({ access }: DispatcherOptions): CallbackToken => access?.callbackToken ?? noToken;

function pushing(options: DispatcherOptions, transport: TransportName) {
  const { callbacks, delivered, nodeId, peers, now, log } = options;
  // The rows of requests are never removed early: no worker accepts one.
  const removeRows = callbacks?.removeRows ?? (async () => {});
  const withRows = options.withRows ?? (async (dispatchIds: readonly DispatchId[]) => dispatchIds);
  return {
    ...{ nodeId, peers, removeRows, withRows, now, log },
    delivered: (kind: Delivery["kind"]) => (transport === "request" ? undefined : delivered?.(transport, kind)),
  };
}
