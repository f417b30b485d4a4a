// The dispatches of this node's streams, and whose credit each has: what is reserved, executed, lost, claimed. It speaks to
// streams and lets the host know; what runs, workers and other nodes ask is told to it by transport.ts and guests.ts.
import type { Dispatch } from "../../../machines/index.js";
import { Expiring } from "../expiring.js";
import type { ActionName, DispatchLimits, Reservation, TransportHost } from "../transport.js";
import { type Committed, type Flight, isCommitted } from "./flight.js";
import { Ghosts } from "./ghosts.js";
import { Lost } from "./lost.js";
import { executeStep } from "./messages.js";
import { Roster } from "./roster.js";
import type { WorkerStream } from "./stream.js";

export interface GrpcHost extends TransportHost {
  /** What was lost waits for any worker, and none here has credit. */
  wanting(): void;
  isMine(dispatchId: string): boolean;
  /** Its stream is gone, and another node owns its run, or gave it to us. */
  lost(dispatch: Dispatch): void;
  /** A worker holds what this node does not know. */
  claimed(dispatchId: string, workerId: string): void;
}

export interface FlightsOptions {
  readonly now: () => number;
  readonly limits: DispatchLimits;
  readonly host: GrpcHost;
}

/** How often, and how long after its deadline, what nobody resolved is forgotten. */
const SWEEP_MS = 10_000;

export class Flights {
  readonly roster = new Roster();
  readonly lost: Lost;
  readonly ghosts = new Ghosts();
  /** From then on nothing is handed out. */
  stopping = false;
  readonly #flights = new Map<string, Flight>();
  /** Credit taken for a dispatch that is to be committed. */
  readonly #reservations: Expiring<Flight>;
  /** Claims of dispatches not known here yet. */
  readonly #claims: Expiring<WorkerStream>;
  #sweepAt = 0;

  constructor(private readonly options: FlightsOptions) {
    const { limits } = options;
    this.lost = new Lost(limits.claimWaitMs);
    this.#reservations = new Expiring(limits.reservationMs);
    this.#claims = new Expiring(limits.claimMemoryMs, limits.claims);
  }

  get(id: string): Flight | undefined {
    return this.#flights.get(id);
  }

  all(): IterableIterator<Flight> {
    return this.#flights.values();
  }

  reserve(id: string, name: ActionName): Reservation | undefined {
    if (this.stopping) return undefined;
    const known = this.#flights.get(id);
    if (known?.stream) return { workerId: known.stream.workerId };
    if (known?.dispatch) return undefined;
    const stream = this.roster.select(name);
    if (!stream) return undefined;
    const reserved: Flight = { id, name, stream };
    this.#flights.set(id, reserved);
    this.#reservations.set(id, reserved);
    this.#take(stream, id);
    return { workerId: stream.workerId };
  }

  /** What was reserved is committed now. */
  commit(reserved: Flight, dispatch: Dispatch): void {
    const flight: Committed = Object.assign(reserved, { dispatch });
    this.#reservations.delete(flight.id);
    if (flight.stream) this.#say(flight, flight.stream);
    else this.sendAgain(flight);
  }

  /** With that stream's credit. */
  execute(flight: Committed, stream: WorkerStream): void {
    this.#board(flight, stream);
    this.#say(flight, stream);
  }

  /** The worker has it: nothing is executed anew. */
  bind(flight: Committed, stream: WorkerStream): void {
    this.#board(flight, stream);
    sayCancel(flight, stream);
  }

  /** Committed by another node, or before this one owned the run: somebody may hold it already. */
  sendUnknown(flight: Committed): void {
    this.#flights.set(flight.id, flight);
    const claimant = this.claimant(flight.id);
    this.#claims.delete(flight.id);
    if (claimant) this.bind(flight, claimant);
    else this.lost.mayBeClaimed(flight);
  }

  /** To any worker, ahead of what is new. */
  sendAgain(flight: Committed): void {
    this.#flights.set(flight.id, flight);
    if (!this.lost.unclaimed(flight)) return;
    this.#serveLost(flight.name.service);
    if (!flight.stream) this.options.host.wanting();
  }

  claim(stream: WorkerStream, dispatchId: string): void {
    const flight = this.#flights.get(dispatchId);
    if (!flight) {
      this.#claims.set(dispatchId, stream);
      this.options.host.claimed(dispatchId, stream.workerId);
    }
    if (!isCommitted(flight)) return;
    const holder = flight.stream;
    // It was sent again to another worker, which lives: both will answer, and the first answer counts.
    if (holder && holder.workerId !== stream.workerId) return;
    if (holder) this.unbind(flight, holder);
    this.lost.remove(flight);
    this.bind(flight, stream);
  }

  claimant(dispatchId: string): WorkerStream | undefined {
    const stream = this.#claims.get(dispatchId);
    return stream?.isOpen ? stream : undefined;
  }

  /** Nothing is owed for it any more. A worker that has not answered is at it still: its credit stays taken. */
  resolve(id: string): void {
    const flight = this.#flights.get(id);
    if (!flight) return;
    this.forget(flight);
    const { stream, dispatch } = flight;
    if (!stream?.slots.has(id)) return;
    if (dispatch && !this.expired(dispatch)) this.ghosts.set(id, stream, dispatch.deadlineAt);
    else this.release(stream, id);
  }

  forget(flight: Flight): void {
    this.#flights.delete(flight.id);
    this.#reservations.delete(flight.id);
    this.lost.remove(flight);
    flight.stream?.held.delete(flight.id);
  }

  unbind(flight: Flight, stream: WorkerStream): void {
    flight.stream = undefined;
    stream.slots.delete(flight.id);
    stream.held.delete(flight.id);
  }

  release(stream: WorkerStream, id: string): void {
    if (stream.slots.delete(id)) this.freed(stream.service);
  }

  /** Credit for a service may be there: first what was lost, then what is new. */
  freed(service: string): void {
    if (this.stopping) return;
    this.#serveLost(service);
    this.options.host.creditFreed(service);
  }

  /** Its stream has ended. */
  bereft(flight: Committed): void {
    const { host } = this.options;
    if (!flight.guest && host.isMine(flight.id)) return this.lost.mayBeClaimed(flight);
    this.forget(flight);
    host.lost(flight.dispatch);
  }

  expired(dispatch: Dispatch): boolean {
    return dispatch.deadlineAt <= this.options.now();
  }

  /** Everything here that waits for time to pass. */
  tick(): void {
    for (const [id] of this.#reservations.takeDue()) this.resolve(id);
    for (const flight of this.lost.takeDue()) if (flight.cancelReason === undefined) this.sendAgain(flight);
    this.#claims.takeDue();
    for (const [id, stream] of this.ghosts.takeDue(this.options.now())) this.release(stream, id);
    if (performance.now() >= this.#sweepAt) this.#sweep();
  }

  clear(): void {
    this.#flights.clear();
    this.lost.clear();
  }

  #board(flight: Committed, stream: WorkerStream): void {
    flight.stream = stream;
    this.#flights.set(flight.id, flight);
    this.#take(stream, flight.id);
  }

  #say(flight: Committed, stream: WorkerStream): void {
    const { dispatch } = flight;
    stream.write({ execute: executeStep(dispatch, dispatch.deadlineAt - this.options.now()) });
    sayCancel(flight, stream);
  }

  #serveLost(service: string): void {
    this.lost.serve(service, (flight) => {
      if (this.expired(flight.dispatch)) {
        this.#flights.delete(flight.id);
        return true;
      }
      const stream = this.roster.select(flight.name);
      if (stream) this.execute(flight, stream);
      return stream !== undefined;
    });
  }

  #take(stream: WorkerStream, id: string): void {
    stream.slots.add(id);
    stream.held.add(id);
    this.roster.served(stream);
  }

  /** A run that went to another node was resolved there: what is long past its deadline is forgotten here as well. */
  #sweep(): void {
    this.#sweepAt = performance.now() + SWEEP_MS;
    const overdue = this.options.now() - SWEEP_MS;
    for (const { dispatch, id } of [...this.#flights.values()])
      if (dispatch && dispatch.deadlineAt < overdue) this.resolve(id);
  }
}

function sayCancel({ id, cancelReason }: Flight, stream: WorkerStream): void {
  if (cancelReason !== undefined) stream.write({ cancel: { dispatch_id: id, reason: cancelReason } });
}
