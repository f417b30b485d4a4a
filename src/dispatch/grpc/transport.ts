// Dispatches on worker streams: which stream gets which, what happens to them when it is lost, and what becomes of the
// answers. Who queues for credit is the dispatcher's matter, the bytes on the wire are the stream's and the server's.
import { status } from "@grpc/grpc-js";
import type { ActionCall, Dispatch } from "../../../machines/index.js";
import type { DispatchLimits, Log, Reservation, Transport, TransportHost } from "../transport.js";
import { WaitingLine } from "../waiting-line.js";
import { Expiring } from "./expiring.js";
import { executeStep, type StepFailure, type StepResult, type WorkerCall } from "./messages.js";
import { Recorder } from "./recorder.js";
import { Roster } from "./roster.js";
import { type Authenticate, isUuid, type StreamOwner, WorkerStream } from "./stream.js";

export interface GrpcTransportOptions {
  readonly nodeId: string;
  readonly nodeCount: () => number;
  readonly now: () => number;
  readonly log: Log;
  readonly limits: DispatchLimits;
  readonly host: TransportHost;
}

/** A dispatch this node holds: reserved while it has no `dispatch`, handed over or to be handed over again once it has. */
interface Flight {
  readonly dispatchId: string;
  readonly call: ActionCall;
  dispatch?: Dispatch;
  /** Whose credit it takes. Absent: its stream was lost, and it waits for a claim or for another worker. */
  stream: WorkerStream | undefined;
  cancelReason?: string;
  heartbeatAt?: number;
  heartbeatUnderWay?: boolean;
}

const SWEEP_MS = 10_000;

export class GrpcTransport implements Transport, StreamOwner {
  readonly #flights = new Map<string, Flight>();
  readonly #roster = new Roster();
  /** Lost, or never seen by a stream of ours: whoever holds them may claim them for a while. */
  readonly #orphans: Expiring<Flight>;
  /** Unclaimed: to any worker with credit, ahead of everything new. */
  readonly #resends = new WaitingLine<Flight>();
  /** Credit taken for a dispatch that is to be committed. */
  readonly #reservations: Expiring<Flight>;
  /** Claims of dispatches not known here yet. */
  readonly #claims: Expiring<WorkerStream>;
  /** Resolved without an answer: the worker may be at it still, so its credit stays taken until the deadline. */
  readonly #ghosts = new Map<string, { readonly stream: WorkerStream; readonly deadlineAt: number }>();
  readonly #recorder: Recorder;
  readonly #ticker: NodeJS.Timeout;
  #nodeCount: number;
  #sweepAt = 0;
  #stopping = false;

  constructor(private readonly options: GrpcTransportOptions) {
    const { host, limits, log } = options;
    this.#orphans = new Expiring(limits.claimWaitMs);
    this.#reservations = new Expiring(limits.reservationMs);
    this.#claims = new Expiring(limits.claimMemoryMs, limits.claims);
    this.#recorder = new Recorder(host, limits, log, (dispatchId) => this.resolved(dispatchId));
    this.#nodeCount = options.nodeCount();
    this.#ticker = setInterval(() => this.#tick(), limits.tickMs).unref();
  }

  get inFlight(): number {
    let count = 0;
    for (const { dispatch, dispatchId, stream } of this.#flights.values()) {
      if (dispatch && stream?.slots.has(dispatchId)) count++;
    }
    return count;
  }

  get streams(): number {
    return this.#roster.size;
  }

  attach(call: WorkerCall, authenticate?: Authenticate): void {
    const stream = new WorkerStream(call, this, this.options.limits, this.options.log, authenticate);
    if (this.#stopping) stream.close(status.UNAVAILABLE, "the node is stopping");
  }

  reserve(dispatchId: string, call: ActionCall): Reservation | undefined {
    if (this.#stopping) return undefined;
    const flight = this.#flights.get(dispatchId);
    if (flight?.stream) return { workerId: flight.stream.workerId };
    if (flight?.dispatch) return undefined;
    const stream = this.#roster.select(call);
    if (!stream) return undefined;
    const reserved: Flight = { dispatchId, call, stream };
    this.#flights.set(dispatchId, reserved);
    this.#reservations.set(dispatchId, reserved);
    this.#take(stream, dispatchId);
    return { workerId: stream.workerId };
  }

  send(dispatch: Dispatch): void {
    const { dispatchId, call } = dispatch;
    const known = this.#flights.get(dispatchId);
    if (this.#stopping || known?.dispatch) return;
    if (this.#expired(dispatch)) {
      this.resolved(dispatchId);
      return;
    }
    const claimant = this.#claims.get(dispatchId);
    const flight: Flight = known ?? { dispatchId, call, stream: claimant?.isOpen ? claimant : undefined };
    flight.dispatch = dispatch;
    this.#flights.set(dispatchId, flight);
    this.#reservations.delete(dispatchId);
    this.#claims.delete(dispatchId);
    if (!known && flight.stream) this.#take(flight.stream, dispatchId);
    else if (flight.stream) this.#execute(flight, dispatch, flight.stream);
    else if (known) this.#resend(flight);
    else this.#orphans.set(dispatchId, flight);
  }

  /** What waits for another worker is left to its deadline: a cancelled step is begun nowhere. */
  cancel(dispatchId: string, reason: string): void {
    const flight = this.#flights.get(dispatchId);
    if (!flight?.dispatch) return;
    flight.cancelReason = reason;
    this.#resends.remove(flight.call, dispatchId);
    flight.stream?.write({ cancel: { dispatch_id: dispatchId, reason } });
  }

  resolved(dispatchId: string): void {
    const flight = this.#flights.get(dispatchId);
    if (!flight) return;
    this.#forget(flight);
    const { stream, dispatch } = flight;
    if (!stream?.slots.has(dispatchId)) return;
    if (dispatch && !this.#expired(dispatch)) {
      this.#ghosts.set(dispatchId, { stream, deadlineAt: dispatch.deadlineAt });
    } else this.#release(stream, dispatchId);
  }

  holds(dispatchId: string): boolean {
    return this.#flights.has(dispatchId);
  }

  async stop(graceMs: number): Promise<void> {
    this.#stopping = true;
    clearInterval(this.#ticker);
    let timer: NodeJS.Timeout | undefined;
    const grace = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, graceMs);
    });
    await Promise.race([grace, this.#recorder.idle()]);
    clearTimeout(timer);
    for (const stream of this.#roster.all()) stream.close(status.UNAVAILABLE, "the node is stopping");
    this.#flights.clear();
    this.#resends.clear();
  }

  greeted(stream: WorkerStream, inFlight: readonly string[]): void {
    if (this.#stopping) {
      stream.close(status.UNAVAILABLE, "the node is stopping");
      return;
    }
    this.#roster.add(stream);
    stream.write(this.#acknowledgement());
    for (const dispatchId of inFlight) this.#claim(stream, dispatchId);
    this.#freed(stream.service);
  }

  drained(stream: WorkerStream): void {
    // What is only reserved was promised before the drain; it finds another worker when it is sent.
    for (const dispatchId of [...stream.slots]) {
      const flight = this.#flights.get(dispatchId);
      if (flight && !flight.dispatch) this.#unbind(flight, stream);
    }
  }

  ended(stream: WorkerStream): void {
    this.#roster.remove(stream);
    for (const [dispatchId, ghost] of this.#ghosts) if (ghost.stream === stream) this.#ghosts.delete(dispatchId);
    for (const dispatchId of [...stream.held]) {
      const flight = this.#flights.get(dispatchId);
      if (flight?.stream !== stream) continue;
      this.#unbind(flight, stream);
      if (flight.dispatch) this.#orphans.set(dispatchId, flight);
    }
    stream.slots.clear();
    stream.held.clear();
  }

  heartbeat(stream: WorkerStream, dispatchId: string): void {
    const flight = this.#flights.get(dispatchId);
    const { dispatch, call } = flight ?? {};
    if (!flight || !dispatch || !call?.heartbeatTimeoutMs || flight.heartbeatUnderWay) return;
    const at = performance.now();
    if (flight.heartbeatAt !== undefined && at - flight.heartbeatAt < call.heartbeatTimeoutMs / 3) return;
    flight.heartbeatAt = at;
    flight.heartbeatUnderWay = true;
    const actor = `worker:${stream.workerId}`;
    this.options.host
      .command(dispatch.runId, { type: "heartbeat", dispatchId, actor })
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
    const holder = this.#flights.get(dispatchId)?.stream ?? this.#ghosts.get(dispatchId)?.stream;
    // Another worker is at it as well (it was sent again): that one's credit stays taken.
    if (holder?.workerId !== stream.workerId) return;
    this.#ghosts.delete(dispatchId);
    this.#release(holder, dispatchId);
  }

  #claim(stream: WorkerStream, dispatchId: string): void {
    const flight = this.#flights.get(dispatchId);
    if (!flight?.dispatch) {
      if (!flight) this.#claims.set(dispatchId, stream);
      return;
    }
    const holder = flight.stream;
    // It was sent again to another worker, which lives: both will answer, and the first answer counts.
    if (holder && holder.workerId !== stream.workerId) return;
    if (holder) this.#unbind(flight, holder);
    this.#orphans.delete(dispatchId);
    this.#resends.remove(flight.call, dispatchId);
    flight.stream = stream;
    this.#take(stream, dispatchId);
    if (flight.cancelReason !== undefined) {
      stream.write({ cancel: { dispatch_id: dispatchId, reason: flight.cancelReason } });
    }
  }

  #execute(flight: Flight, dispatch: Dispatch, stream: WorkerStream): void {
    stream.write({ execute: executeStep(dispatch, dispatch.deadlineAt - this.options.now()) });
    if (flight.cancelReason !== undefined) {
      stream.write({ cancel: { dispatch_id: dispatch.dispatchId, reason: flight.cancelReason } });
    }
  }

  #resend(flight: Flight): void {
    if (this.#resends.add(flight.call, flight.dispatchId, flight)) this.#serveResends(flight.call.service);
  }

  #serveResends(service: string): void {
    this.#resends.serve(service, (flight) => {
      const { dispatch, dispatchId } = flight;
      if (!dispatch || this.#expired(dispatch)) {
        this.#flights.delete(dispatchId);
        return true;
      }
      const stream = this.#roster.select(flight.call);
      if (!stream) return false;
      flight.stream = stream;
      this.#take(stream, dispatchId);
      this.#execute(flight, dispatch, stream);
      return true;
    });
  }

  /** Credit for a service may be there: first what was lost, then what is new. */
  #freed(service: string): void {
    if (this.#stopping) return;
    this.#serveResends(service);
    this.options.host.creditFreed(service);
  }

  #take(stream: WorkerStream, dispatchId: string): void {
    stream.slots.add(dispatchId);
    stream.held.add(dispatchId);
    this.#roster.served(stream);
  }

  #release(stream: WorkerStream, dispatchId: string): void {
    if (stream.slots.delete(dispatchId)) this.#freed(stream.service);
  }

  #unbind(flight: Flight, stream: WorkerStream): void {
    flight.stream = undefined;
    stream.slots.delete(flight.dispatchId);
    stream.held.delete(flight.dispatchId);
  }

  #forget(flight: Flight): void {
    const { dispatchId, call, stream } = flight;
    this.#flights.delete(dispatchId);
    this.#reservations.delete(dispatchId);
    this.#orphans.delete(dispatchId);
    this.#resends.remove(call, dispatchId);
    stream?.held.delete(dispatchId);
  }

  #expired(dispatch: Dispatch): boolean {
    return dispatch.deadlineAt <= this.options.now();
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

  /** Everything here that waits for time to pass. */
  #tick(): void {
    for (const [dispatchId] of this.#reservations.takeDue()) this.resolved(dispatchId);
    for (const [, flight] of this.#orphans.takeDue()) if (flight.cancelReason === undefined) this.#resend(flight);
    this.#claims.takeDue();
    this.#releaseGhosts();
    if (performance.now() >= this.#sweepAt) this.#sweep();
    this.#announceNodes();
  }

  /** A run that went to another node was resolved there: what is long past its deadline is forgotten here as well. */
  #sweep(): void {
    this.#sweepAt = performance.now() + SWEEP_MS;
    const overdue = this.options.now() - SWEEP_MS;
    for (const { dispatch, dispatchId } of [...this.#flights.values()]) {
      if (dispatch && dispatch.deadlineAt < overdue) this.resolved(dispatchId);
    }
  }

  #releaseGhosts(): void {
    const now = this.options.now();
    for (const [dispatchId, { stream, deadlineAt }] of this.#ghosts) {
      if (deadlineAt > now) continue;
      this.#ghosts.delete(dispatchId);
      this.#release(stream, dispatchId);
    }
  }

  /** Workers open one channel per node: they are told when the number of nodes changed. */
  #announceNodes(): void {
    const count = this.options.nodeCount();
    if (count === this.#nodeCount) return;
    this.#nodeCount = count;
    for (const stream of this.#roster.all()) stream.write(this.#acknowledgement());
  }
}
