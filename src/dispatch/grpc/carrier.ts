// The gRPC carrier: the workers connected to this node, and through the relay those connected to other nodes. Which call gets credit next is
// the dispatcher's decision; the messages on the wire are in stream.ts, the dispatches and their credit in in-flight.ts.

import { status } from "@grpc/grpc-js";
import { type Dispatch, type DispatchId, misfit, parseRunId } from "../../../machines/index.js";
import { clearInterval, clearTimeout, performance, setInterval, setTimeout } from "../../ambient.js";
import type { Log } from "../../log.js";
import type { HelloAck } from "../../sdk/protocol/index.js";
import type { FairScheduler } from "../../work/fair-scheduler.js";
import { aboutDispatch, type Carrier, type CarrierHost, type CreditSharing, type Reservation } from "../carrier.js";
import type { DispatchLimits } from "../limits.js";
import type { Ownership, Peers } from "../ownership.js";
import { Relay } from "../relay/relay.js";
import type { CallbackToken } from "../step-message.js";
import {
  type ActionName,
  type ConnectedWorker,
  type DispatchHolder,
  type NameCall,
  nameKey,
  type Obstacle,
  type WaitingCount,
  type WantedCall,
} from "../workers.js";
import { type Report, reporter } from "./answers.js";
import type { GrpcDoor } from "./door.js";
import { belongsTo, type CommittedEntry, type Entry, InFlight, isCommitted, reasonOfRefusal } from "./in-flight.js";
import { Recorder } from "./recorder.js";
import { RelayedDispatches } from "./relayed-dispatches.js";
import { type StreamOwner, type WorkerCall, WorkerStream } from "./stream.js";
import { AttachedStreams } from "./stream-pool.js";

/** What the gRPC server needs of the carrier. */
export interface GrpcWorkers {
  /** A worker's new stream. Without a door every worker is admitted. */
  attach(call: WorkerCall, door?: GrpcDoor): void;
  /** Number of streams that have said hello. */
  readonly connected: number;
}

export interface GrpcCarrierOptions {
  readonly nodeId: string;
  readonly nodeCount: () => number;
  readonly log: Log;
  readonly scheduler: Pick<FairScheduler, "compute">;
  /** Database time, epoch milliseconds. */
  readonly now: () => number;
  readonly limits: DispatchLimits;
  readonly nameCall: NameCall;
  readonly tokenOf: CallbackToken;
  readonly host: CarrierHost;
  readonly ownership: Ownership;
  /** Absent: no other node shares its workers. */
  readonly peers?: Peers;
}

const STOPPING = "the node is stopping";

export class GrpcCarrier implements Carrier, GrpcWorkers, StreamOwner {
  private readonly dispatches: InFlight;
  private readonly relay: Relay | undefined;
  private readonly recorder: Recorder;
  private readonly attached = new AttachedStreams();
  private readonly ticker: NodeJS.Timeout;
  private nodeCount: number;

  constructor(private readonly options: GrpcCarrierOptions) {
    const { host, ownership, peers, limits, log, now, scheduler, nameCall, tokenOf } = options;
    this.dispatches = new InFlight({
      ...{ now, limits, nameCall, tokenOf },
      host: {
        creditFreed: (service) => host.creditFreed(service),
        isMine: (dispatchId) => ownership.isMine(dispatchId),
        creditWanted: () => this.relay?.creditWanted(),
        streamLost: (dispatch) => this.relay?.streamLost(dispatch),
        claimed: (dispatchId, by) => this.relay?.claimed(dispatchId, by),
        refused: (entry, stream) => this.refuse(entry, stream),
      },
    });
    this.relay = peers && new Relay({ ...options, bus: peers.bus, streams: new RelayedDispatches(this.dispatches) });
    this.recorder = new Recorder(host, limits, log, now, scheduler, (dispatchId) =>
      this.dispatches.resolve(dispatchId),
    );
    this.nodeCount = options.nodeCount();
    this.ticker = setInterval(() => this.tick(), limits.tickMs).unref();
  }

  get sharing(): CreditSharing | undefined {
    return this.relay;
  }

  get inFlight(): number {
    let count = 0;
    for (const { dispatch, id, stream } of this.dispatches.all()) if (dispatch && stream?.slots.has(id)) count++;
    return count;
  }

  get connected(): number {
    return this.dispatches.pool.size;
  }

  *workers(): Iterable<ConnectedWorker> {
    for (const stream of this.dispatches.pool.all()) yield stream.worker;
  }

  attach(call: WorkerCall, door?: GrpcDoor): void {
    const { limits, log } = this.options;
    const stream = new WorkerStream(call, this, limits, log, door);
    const excess = this.attached.enter(stream, limits);
    if (this.dispatches.stopping) stream.close(status.UNAVAILABLE, STOPPING);
    else if (excess !== undefined) stream.close(status.RESOURCE_EXHAUSTED, excess);
  }

  // ---- What runs ask

  reserve(dispatchId: DispatchId, call: WantedCall): Reservation | undefined {
    return this.relay?.reserved(dispatchId) ?? this.dispatches.reserve(dispatchId, call);
  }

  send(dispatch: Dispatch): void {
    if (!this.relay?.send(dispatch)) this.dispatches.send(dispatch);
  }

  cancel(dispatchId: DispatchId, reason: string): void {
    this.dispatches.cancel(dispatchId, reason);
    this.relay?.cancel(dispatchId, reason);
  }

  resolved(dispatchId: DispatchId): void {
    this.dispatches.resolve(dispatchId);
    this.relay?.resolved(dispatchId);
  }

  holds(dispatchId: DispatchId): boolean {
    return this.dispatches.get(dispatchId) !== undefined || (this.relay?.holds(dispatchId) ?? false);
  }

  /** A worker that is connected here may serve the action although it has no credit here: it may be all taken, or at other nodes. */
  obstacle(name: ActionName): Obstacle {
    return { reason: this.dispatches.pool.isServed(name) ? "no_credit" : "no_worker" };
  }

  unheld(): IterableIterator<WaitingCount> {
    const counts = new Map<string, readonly [ActionName, number]>();
    for (const { name } of this.dispatches.unheld()) {
      const key = nameKey(name);
      counts.set(key, [name, 1 + (counts.get(key)?.[1] ?? 0)]);
    }
    return counts.values();
  }

  holder(dispatchId: DispatchId): DispatchHolder | undefined {
    return this.relay?.holder(dispatchId) ?? this.dispatches.holder(dispatchId);
  }

  async stop(graceMs: number): Promise<void> {
    this.dispatches.stopping = true;
    clearInterval(this.ticker);
    let timer: NodeJS.Timeout | undefined;
    const grace = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, graceMs);
    });
    await Promise.race([grace, this.recorder.idle()]);
    clearTimeout(timer);
    for (const stream of this.dispatches.pool.all()) stream.close(status.UNAVAILABLE, STOPPING);
    this.dispatches.clear();
    // Last: other nodes must learn which of their dispatches lost their stream.
    this.relay?.stop();
  }

  // ---- What streams report

  onHello(stream: WorkerStream, inFlight: readonly DispatchId[]): void {
    if (this.dispatches.stopping) {
      stream.close(status.UNAVAILABLE, STOPPING);
      return;
    }
    const excess = this.dispatches.pool.excessOf(stream, this.options.limits);
    if (excess !== undefined) {
      stream.close(status.RESOURCE_EXHAUSTED, excess);
      return;
    }
    stream.since = this.options.now();
    this.dispatches.pool.add(stream);
    stream.write({ hello_ack: this.helloAck() });
    for (const dispatchId of inFlight) this.dispatches.claim(stream, dispatchId);
    this.dispatches.creditFreed(stream.service);
  }

  onDrain(stream: WorkerStream): void {
    // A reservation was promised before the drain: its dispatch finds another worker when it is sent.
    for (const dispatchId of [...stream.slots]) {
      const entry = this.dispatches.get(dispatchId);
      if (entry && !entry.dispatch) this.dispatches.unbind(entry, stream);
    }
    this.onTakesSteps();
  }

  onCredit(stream: WorkerStream): void {
    this.dispatches.creditFreed(stream.service);
  }

  /**
   * Other nodes give the calls of a node without a worker their turns, and those of any other node only what is left. They would not learn of the
   * change before the demand is repeated, and a worker moves its last credit from node to node every second.
   */
  onTakesSteps(): void {
    this.relay?.creditWanted();
  }

  onEnd(stream: WorkerStream): void {
    this.attached.leave(stream);
    this.dispatches.pool.remove(stream);
    this.dispatches.heldCredit.dropStream(stream);
    for (const dispatchId of [...stream.held]) {
      const entry = this.dispatches.get(dispatchId);
      if (entry?.stream !== stream) continue;
      this.dispatches.unbind(entry, stream);
      if (isCommitted(entry)) this.dispatches.streamLost(entry, stream);
    }
    stream.slots.clear();
    stream.held.clear();
    this.onTakesSteps();
  }

  onHeartbeat(stream: WorkerStream, dispatchId: DispatchId): void {
    const entry = this.dispatches.get(dispatchId);
    if (!isCommitted(entry)) return;
    if (!belongsTo(entry, stream)) return this.refuse(entry, stream);
    if (!isHeartbeatDue(entry)) return;
    entry.heartbeatAt = performance.now();
    entry.heartbeatUnderWay = true;
    this.options.host
      .command(
        entry.dispatch.runId,
        { type: "heartbeat", dispatchId, ...reporter(stream.reporting) },
        { reach: stream.reach },
      )
      // The next heartbeat makes up for it.
      .catch((error: unknown) =>
        this.options.log.debug({ err: error, ...aboutDispatch(entry.dispatch) }, "heartbeat could not be recorded"),
      )
      .finally(() => {
        entry.heartbeatUnderWay = false;
      });
  }

  async onAnswer(stream: WorkerStream, report: Report): Promise<void> {
    const entry = this.dispatches.get(report.dispatch_id);
    if (entry && !belongsTo(entry, stream))
      return this.recorder.refuse(stream, report.dispatch_id, reasonOfRefusal(entry, stream));
    const runId = entry?.dispatch?.runId ?? parseRunId(report.run_id);
    if (runId === undefined) return stream.close(status.INVALID_ARGUMENT, `run_id ${misfit.notOfFormat("uuid")}`);
    this.dispatches.returnCredit(stream.workerId, report.dispatch_id);
    await this.recorder.record(stream, runId, report, entry !== undefined);
  }

  /** It stays with its worker. The reason travels in a cancel. */
  private refuse(entry: Entry, stream: WorkerStream): void {
    const { dispatch } = entry;
    const reason = reasonOfRefusal(entry, stream);
    if (!dispatch) return;
    stream.refused(dispatch.dispatchId, reason);
    stream.write({ cancel: { dispatch_id: dispatch.dispatchId, reason } });
  }

  private helloAck(): HelloAck {
    const { nodeId, limits } = this.options;
    return {
      node_id: nodeId,
      heartbeat_interval_ms: limits.heartbeatIntervalMs,
      node_count: Math.max(this.nodeCount, 1),
      batches: true,
      credit: true,
    };
  }

  private tick(): void {
    this.dispatches.tick();
    this.announceNodeCount();
  }

  /** Workers open one channel per node, so every stream learns when the number of nodes changes. */
  private announceNodeCount(): void {
    const count = this.options.nodeCount();
    if (count === this.nodeCount) return;
    this.nodeCount = count;
    for (const stream of this.dispatches.pool.all()) stream.write({ hello_ack: this.helloAck() });
  }
}

/** At most three heartbeats per heartbeat timeout reach the run, one at a time. */
function isHeartbeatDue({ dispatch, heartbeatAt, heartbeatUnderWay }: CommittedEntry): boolean {
  const { heartbeatTimeoutMs } = dispatch.call;
  if (heartbeatUnderWay || !heartbeatTimeoutMs) return false;
  return heartbeatAt === undefined || performance.now() - heartbeatAt >= heartbeatTimeoutMs / 3;
}
