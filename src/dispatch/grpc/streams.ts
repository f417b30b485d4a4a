// The worker streams of this node: what runs ask of them, and what they report. Which call gets credit next is the
// dispatcher's decision; the messages on the wire are in stream.ts, the dispatches and their credit in in-flight.ts.

import { status } from "@grpc/grpc-js";
import { type Dispatch, type DispatchId, foreignDispatch, isRunId, misfit } from "../../../machines/index.js";
import type { Log } from "../../log.js";
import type { HelloAck } from "../../sdk/protocol/index.js";
import type { FairScheduler } from "../../work/fair-scheduler.js";
import { type ActionName, versionedAction } from "../action-name.js";
import type { Carrier, Reservation } from "../carrier.js";
import type { LocalStreams } from "../relay/local-streams.js";
import type { ReservationId } from "../voucher-id.js";
import type { ConnectedWorker, DispatchHolder } from "../workers.js";
import type { Report } from "./answers.js";
import { AttachedStreams } from "./attached-streams.js";
import { belongsTo, type CommittedEntry, isCommitted, refusal, withoutStream } from "./entry.js";
import type { WorkerCall } from "./execute-step.js";
import { InFlight, type InFlightOptions } from "./in-flight.js";
import { Recorder } from "./recorder.js";
import { RelayedDispatches } from "./relayed-dispatches.js";
import { type Authenticate, type StreamOwner, WorkerStream } from "./stream.js";

export interface WorkerStreamsOptions extends InFlightOptions {
  readonly nodeId: string;
  readonly nodeCount: () => number;
  readonly log: Log;
  readonly scheduler: Pick<FairScheduler, "compute">;
}

const STOPPING = "the node is stopping";

export class WorkerStreams implements Omit<Carrier, "sharing">, StreamOwner {
  /** What the relay may ask of these streams. */
  readonly relayed: LocalStreams;
  private readonly dispatches: InFlight;
  private readonly recorder: Recorder;
  private readonly attached = new AttachedStreams();
  private readonly ticker: NodeJS.Timeout;
  private nodeCount: number;

  constructor(private readonly options: WorkerStreamsOptions) {
    const { host, limits, log } = options;
    this.dispatches = new InFlight(options);
    this.relayed = new RelayedDispatches(this.dispatches, this);
    this.recorder = new Recorder(host, limits, log, options.now, options.scheduler, (dispatchId) =>
      this.resolved(dispatchId),
    );
    this.nodeCount = options.nodeCount();
    this.ticker = setInterval(() => this.tick(), limits.tickMs).unref();
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

  attach(call: WorkerCall, authenticate?: Authenticate): void {
    const { limits, log } = this.options;
    const stream = new WorkerStream(call, this, limits, log, authenticate);
    const excess = this.attached.enter(stream, limits);
    if (this.dispatches.stopping) stream.close(status.UNAVAILABLE, STOPPING);
    else if (excess !== undefined) stream.close(status.RESOURCE_EXHAUSTED, excess);
  }

  // ---- Carrier

  reserve(dispatchId: DispatchId, name: ActionName): Reservation | undefined {
    return this.dispatches.reserve(dispatchId, name);
  }

  send(dispatch: Dispatch): void {
    const { dispatches } = this;
    const known = dispatches.get(dispatch.dispatchId);
    if (dispatches.stopping || known?.dispatch) return;
    if (dispatches.isExpired(dispatch)) dispatches.resolve(dispatch.dispatchId);
    else if (known) dispatches.commit(known, dispatch);
    else dispatches.sendUnreserved(withoutStream(dispatch));
  }

  /** A dispatch that waits for another worker is left to its deadline: no worker starts a cancelled step. */
  cancel(dispatchId: DispatchId, reason: string): void {
    const entry = this.dispatches.get(dispatchId);
    if (!isCommitted(entry)) return;
    entry.cancelReason = reason;
    this.dispatches.unclaimed.remove(entry);
    entry.stream?.write({ cancel: { dispatch_id: dispatchId, reason } });
  }

  resolved(dispatchId: ReservationId): void {
    this.dispatches.resolve(dispatchId);
  }

  holds(dispatchId: DispatchId): boolean {
    return this.dispatches.get(dispatchId) !== undefined;
  }

  /** Whether a worker that is connected here serves the action: its credit may be all taken, or at other nodes. */
  isServed(name: ActionName): boolean {
    return this.dispatches.pool.isServed(name);
  }

  unheld(): IterableIterator<readonly [name: ActionName, waiting: number]> {
    const counts = new Map<string, readonly [ActionName, number]>();
    for (const { name } of this.dispatches.unheld()) {
      const key = `${name.service} ${versionedAction(name)}`;
      counts.set(key, [name, 1 + (counts.get(key)?.[1] ?? 0)]);
    }
    return counts.values();
  }

  holder(dispatchId: DispatchId): DispatchHolder | undefined {
    return this.dispatches.holder(dispatchId);
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
  }

  // ---- StreamOwner

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
  }

  onCredit(stream: WorkerStream): void {
    this.dispatches.creditFreed(stream.service);
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
  }

  onHeartbeat(stream: WorkerStream, dispatchId: DispatchId): void {
    const entry = this.dispatches.get(dispatchId);
    if (!isCommitted(entry)) return;
    if (!belongsTo(entry, stream)) return stream.write(refusal(entry));
    if (!isHeartbeatDue(entry)) return;
    entry.heartbeatAt = performance.now();
    entry.heartbeatUnderWay = true;
    this.options.host
      .command(entry.dispatch.runId, {
        type: "heartbeat",
        dispatchId,
        actor: `worker:${stream.workerId}`,
        service: stream.service,
      })
      // The next heartbeat makes up for it.
      .catch((error: unknown) => this.options.log.debug({ err: error, dispatchId }, "heartbeat could not be recorded"))
      .finally(() => {
        entry.heartbeatUnderWay = false;
      });
  }

  async onAnswer(stream: WorkerStream, report: Report): Promise<void> {
    const entry = this.dispatches.get(report.dispatch_id);
    if (entry && !belongsTo(entry, stream))
      return this.recorder.refuse(stream, report.dispatch_id, foreignDispatch(entry.name));
    const runId = entry?.dispatch?.runId ?? report.run_id;
    if (isRunId(runId)) {
      this.returnCredit(stream, report.dispatch_id);
      await this.recorder.record(stream, runId, report);
    } else stream.close(status.INVALID_ARGUMENT, `run_id ${misfit.notOfFormat("uuid")}`);
  }

  /** The worker has answered: its credit is free, whichever of its streams the answer came on. */
  private returnCredit(stream: WorkerStream, dispatchId: DispatchId): void {
    const { heldCredit } = this.dispatches;
    const holder = this.dispatches.get(dispatchId)?.stream ?? heldCredit.streamOf(dispatchId);
    // The dispatch was sent again to another worker, which still executes it: that worker's credit stays taken.
    if (holder?.workerId !== stream.workerId) return;
    heldCredit.delete(dispatchId);
    this.dispatches.releaseCredit(holder, dispatchId);
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
