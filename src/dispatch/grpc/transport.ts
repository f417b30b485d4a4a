// The gRPC transport: what runs ask of worker streams, and what the streams tell. Who queues for credit is the dispatcher's
// matter, the bytes on the wire are the stream's and the server's; which dispatch has whose credit stands in flights.ts.

import { status } from "@grpc/grpc-js";
import type { Dispatch } from "../../../machines/index.js";
import { isUuid } from "../../ids.js";
import type { Near } from "../relay/near.js";
import type { ActionName, DispatchLimits, Log, Reservation, Transport } from "../transport.js";
import { isCommitted } from "./flight.js";
import { Flights, type GrpcHost } from "./flights.js";
import { Guests } from "./guests.js";
import type { StepFailure, StepResult, WorkerCall } from "./messages.js";
import { Recorder } from "./recorder.js";
import { type Authenticate, type StreamOwner, WorkerStream } from "./stream.js";

export interface GrpcTransportOptions {
  readonly nodeId: string;
  readonly nodeCount: () => number;
  readonly now: () => number;
  readonly log: Log;
  readonly limits: DispatchLimits;
  readonly host: GrpcHost;
}

export class GrpcTransport implements Transport, StreamOwner {
  /** For the relay. */
  readonly near: Near;
  readonly #flights: Flights;
  readonly #recorder: Recorder;
  readonly #ticker: NodeJS.Timeout;
  #nodeCount: number;

  constructor(private readonly options: GrpcTransportOptions) {
    const { host, limits, log } = options;
    this.#flights = new Flights(options);
    this.near = new Guests(this.#flights, this);
    this.#recorder = new Recorder(host, limits, log, (dispatchId) => this.resolved(dispatchId));
    this.#nodeCount = options.nodeCount();
    this.#ticker = setInterval(() => this.#tick(), limits.tickMs).unref();
  }

  get inFlight(): number {
    let count = 0;
    for (const { dispatch, id, stream } of this.#flights.all()) if (dispatch && stream?.slots.has(id)) count++;
    return count;
  }

  get streams(): number {
    return this.#flights.roster.size;
  }

  attach(call: WorkerCall, authenticate?: Authenticate): void {
    const stream = new WorkerStream(call, this, this.options.limits, this.options.log, authenticate);
    if (this.#flights.stopping) stream.close(status.UNAVAILABLE, "the node is stopping");
  }

  // ---- Transport: what runs ask

  reserve(dispatchId: string, name: ActionName): Reservation | undefined {
    return this.#flights.reserve(dispatchId, name);
  }

  send(dispatch: Dispatch): void {
    const { dispatchId: id, call: name } = dispatch;
    const flights = this.#flights;
    const known = flights.get(id);
    if (flights.stopping || known?.dispatch) return;
    if (flights.expired(dispatch)) flights.resolve(id);
    else if (known) flights.commit(known, dispatch);
    else flights.sendUnknown({ id, name, dispatch, stream: undefined });
  }

  /** What waits for another worker is left to its deadline: a cancelled step is begun nowhere. */
  cancel(dispatchId: string, reason: string): void {
    const flight = this.#flights.get(dispatchId);
    if (!isCommitted(flight)) return;
    flight.cancelReason = reason;
    this.#flights.lost.remove(flight);
    flight.stream?.write({ cancel: { dispatch_id: dispatchId, reason } });
  }

  resolved(dispatchId: string): void {
    this.#flights.resolve(dispatchId);
  }

  holds(dispatchId: string): boolean {
    return this.#flights.get(dispatchId) !== undefined;
  }

  async stop(graceMs: number): Promise<void> {
    this.#flights.stopping = true;
    clearInterval(this.#ticker);
    let timer: NodeJS.Timeout | undefined;
    const grace = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, graceMs);
    });
    await Promise.race([grace, this.#recorder.idle()]);
    clearTimeout(timer);
    for (const stream of this.#flights.roster.all()) stream.close(status.UNAVAILABLE, "the node is stopping");
    this.#flights.clear();
  }

  // ---- StreamOwner: what the streams tell

  greeted(stream: WorkerStream, inFlight: readonly string[]): void {
    if (this.#flights.stopping) {
      stream.close(status.UNAVAILABLE, "the node is stopping");
      return;
    }
    this.#flights.roster.add(stream);
    stream.write(this.#acknowledgement());
    for (const dispatchId of inFlight) this.#flights.claim(stream, dispatchId);
    this.#flights.freed(stream.service);
  }

  drained(stream: WorkerStream): void {
    // What is only reserved was promised before the drain; it finds another worker when it is sent.
    for (const dispatchId of [...stream.slots]) {
      const flight = this.#flights.get(dispatchId);
      if (flight && !flight.dispatch) this.#flights.unbind(flight, stream);
    }
  }

  ended(stream: WorkerStream): void {
    this.#flights.roster.remove(stream);
    this.#flights.ghosts.drop(stream);
    for (const dispatchId of [...stream.held]) {
      const flight = this.#flights.get(dispatchId);
      if (flight?.stream !== stream) continue;
      this.#flights.unbind(flight, stream);
      if (isCommitted(flight)) this.#flights.bereft(flight);
    }
    stream.slots.clear();
    stream.held.clear();
  }

  heartbeat(stream: WorkerStream, dispatchId: string): void {
    const flight = this.#flights.get(dispatchId);
    if (!isCommitted(flight) || flight.heartbeatUnderWay) return;
    const { runId, call } = flight.dispatch;
    const at = performance.now();
    if (!call.heartbeatTimeoutMs) return;
    if (flight.heartbeatAt !== undefined && at - flight.heartbeatAt < call.heartbeatTimeoutMs / 3) return;
    flight.heartbeatAt = at;
    flight.heartbeatUnderWay = true;
    const actor = `worker:${stream.workerId}`;
    this.options.host
      .command(runId, { type: "heartbeat", dispatchId, actor })
      // Not worth failing anything: the next heartbeat says the same.
      .catch((error: unknown) => this.options.log.debug({ err: error, dispatchId }, "a heartbeat was not recorded"))
      .finally(() => {
        flight.heartbeatUnderWay = false;
      });
  }

  async answered(stream: WorkerStream, report: StepResult | StepFailure): Promise<void> {
    const runId = this.#flights.get(report.dispatch_id)?.dispatch?.runId ?? report.run_id;
    if (isUuid(runId)) {
      this.#giveBack(stream, report.dispatch_id);
      await this.#recorder.take(stream, runId, report);
    } else stream.close(status.INVALID_ARGUMENT, "run_id is no uuid");
  }

  /** The worker has answered: its credit is free, whichever of its streams the answer came on. */
  #giveBack(stream: WorkerStream, dispatchId: string): void {
    const flights = this.#flights;
    const holder = flights.get(dispatchId)?.stream ?? flights.ghosts.streamOf(dispatchId);
    // Another worker is at it as well (it was sent again): that one's credit stays taken.
    if (holder?.workerId !== stream.workerId) return;
    flights.ghosts.delete(dispatchId);
    flights.release(holder, dispatchId);
  }

  #acknowledgement() {
    const { nodeId, limits } = this.options;
    return {
      hello_ack: {
        node_id: nodeId,
        heartbeat_interval_ms: limits.heartbeatIntervalMs,
        node_count: Math.max(this.#nodeCount, 1),
      },
    };
  }

  #tick(): void {
    this.#flights.tick();
    this.#announceNodes();
  }

  /** Workers open one channel per node: they are told when the number of nodes changed. */
  #announceNodes(): void {
    const count = this.options.nodeCount();
    if (count === this.#nodeCount) return;
    this.#nodeCount = count;
    for (const stream of this.#flights.roster.all()) stream.write(this.#acknowledgement());
  }
}
