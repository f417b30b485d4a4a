// The gRPC carrier: the workers connected to this node, and through the relay those connected to other nodes. It only
// routes between the two: streams.ts and relay/ do the work.
import type { ActionCall, Dispatch, DispatchId } from "../../../machines/index.js";
import type { ActionName } from "../action-name.js";
import type { Carrier, CarrierHost, CreditSharing, Reservation } from "../carrier.js";
import type { Ownership, Peers } from "../ownership.js";
import { Relay } from "../relay/relay.js";
import type { ConnectedWorker, DispatchHolder, Obstacle } from "../workers.js";
import type { WorkerCall } from "./execute-step.js";
import type { StreamsHost } from "./in-flight.js";
import type { Authenticate } from "./stream.js";
import { WorkerStreams, type WorkerStreamsOptions } from "./streams.js";

/** What the gRPC server needs of the carrier. */
export interface GrpcWorkers {
  /** A worker's new stream. Without `authenticate` every worker is admitted. */
  attach(call: WorkerCall, authenticate?: Authenticate): void;
  /** Number of streams that have said hello. */
  readonly connected: number;
}

export interface GrpcCarrierOptions extends Omit<WorkerStreamsOptions, "host"> {
  readonly host: CarrierHost;
  readonly ownership: Ownership;
  /** Absent: no other node shares its workers. */
  readonly peers?: Peers;
}

export class GrpcCarrier implements Carrier, GrpcWorkers {
  private readonly streams: WorkerStreams;
  private readonly relay: Relay | undefined;

  constructor(options: GrpcCarrierOptions) {
    const { host, ownership, peers } = options;
    const streamsHost: StreamsHost = {
      creditFreed: (service) => host.creditFreed(service),
      command: (runId, command, commandOptions) => host.command(runId, command, commandOptions),
      isMine: (dispatchId) => ownership.isMine(dispatchId),
      creditWanted: () => this.relay?.creditWanted(),
      streamLost: (dispatch) => this.relay?.streamLost(dispatch),
      claimed: (dispatchId, by) => this.relay?.claimed(dispatchId, by),
    };
    this.streams = new WorkerStreams({ ...options, host: streamsHost });
    this.relay = peers && new Relay({ ...options, bus: peers.bus, streams: this.streams.relayed });
  }

  get sharing(): CreditSharing | undefined {
    return this.relay;
  }

  get inFlight(): number {
    return this.streams.inFlight;
  }

  get connected(): number {
    return this.streams.connected;
  }

  attach(call: WorkerCall, authenticate?: Authenticate): void {
    this.streams.attach(call, authenticate);
  }

  reserve(dispatchId: DispatchId, call: ActionCall): Reservation | undefined {
    return this.relay?.reserved(dispatchId) ?? this.streams.reserve(dispatchId, call);
  }

  send(dispatch: Dispatch): void {
    if (!this.relay?.send(dispatch)) this.streams.send(dispatch);
  }

  cancel(dispatchId: DispatchId, reason: string): void {
    this.streams.cancel(dispatchId, reason);
    this.relay?.cancel(dispatchId, reason);
  }

  resolved(dispatchId: DispatchId): void {
    this.streams.resolved(dispatchId);
    this.relay?.resolved(dispatchId);
  }

  holds(dispatchId: DispatchId): boolean {
    return this.streams.holds(dispatchId) || (this.relay?.holds(dispatchId) ?? false);
  }

  workers(): Iterable<ConnectedWorker> {
    return this.streams.workers();
  }

  obstacle(name: ActionName): Obstacle {
    return { reason: this.streams.isServed(name) ? "no_credit" : "no_worker" };
  }

  unheld(): Iterable<readonly [name: ActionName, waiting: number]> {
    return this.streams.unheld();
  }

  holder(dispatchId: DispatchId): DispatchHolder | undefined {
    return this.relay?.holder(dispatchId) ?? this.streams.holder(dispatchId);
  }

  async stop(graceMs: number): Promise<void> {
    await this.streams.stop(graceMs);
    // Last: other nodes must learn which of their dispatches lost their stream.
    this.relay?.stop();
  }
}
