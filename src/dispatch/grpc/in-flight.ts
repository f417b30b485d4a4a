// The dispatches of this node's streams, and the credit that each of them takes: reserved, executed, unclaimed,
// claimed. Runs and workers reach it through carrier.ts, other nodes through relayed-dispatches.ts.

import { type Dispatch, type DispatchId, foreignDispatch } from "../../../machines/index.js";
import { performance } from "../../ambient.js";
import type { CarrierHost, Reservation } from "../carrier.js";
import { ExpiringMap } from "../expiring-map.js";
import { FairQueue } from "../fair-queue.js";
import type { DispatchLimits } from "../limits.js";
import type { Claimant } from "../relay/local-streams.js";
import type { ReservationId } from "../relay/messages.js";
import { type CallbackToken, executeStep, noToken } from "../step-message.js";
import { type ActionName, type DispatchHolder, FOREIGN_TENANT, type NameCall, type WaitingCount } from "../workers.js";
import type { WorkerStream } from "./stream.js";
import { StreamPool } from "./stream-pool.js";

/** A dispatch, or the credit that is set aside for one. Reserved while it has no `dispatch`; once it has one, it is handed over, or about to be handed over again. */
export interface Entry {
  /** The dispatch's id, or that of a voucher whose dispatch has not come yet. */
  readonly id: ReservationId;
  readonly name: ActionName;
  dispatch?: Dispatch;
  /**
   * The stream whose credit it takes. Undefined: the stream is lost, and the entry waits for a claim or for another
   * worker.
   */
  stream: WorkerStream | undefined;
  /** The node that owns the run handed it over. If its stream is lost, that node continues with it. */
  relayed?: boolean;
  cancelReason?: string;
  /** Its worker is gone, as far as this node knows: since when, in database time, and which worker that was. */
  lost?: { readonly since: number; readonly workerId?: string } | undefined;
  /** When a heartbeat was last sent to the run, on the monotonic clock. */
  heartbeatAt?: number;
  heartbeatUnderWay?: boolean;
}

export type CommittedEntry = Entry & { readonly id: DispatchId; dispatch: Dispatch };

export function isCommitted(entry: Entry | undefined): entry is CommittedEntry {
  return entry?.dispatch !== undefined;
}

/** A dispatch belongs to the service that it was given to, and to the workers that serve its run's tenant. */
export function belongsTo({ name }: Pick<Entry, "name">, stream: WorkerStream): boolean {
  return name.service === stream.service && stream.servesTenant(name.tenantId);
}

/** Why the stream's worker, of another service or tenant, has nothing to say about the dispatch. */
export function reasonOfRefusal({ name }: Entry, stream: WorkerStream): string {
  return stream.servesTenant(name.tenantId) ? foreignDispatch(name) : FOREIGN_TENANT;
}

export interface InFlightHost extends Pick<CarrierHost, "creditFreed"> {
  /** A dispatch without a stream waits for any worker, and no worker here has credit for it. */
  creditWanted(): void;
  isMine(dispatchId: DispatchId): boolean;
  /**
   * The dispatch's stream is gone, and another node continues with it: it owns the run, or it handed the dispatch to
   * this node.
   */
  streamLost(dispatch: Dispatch): void;
  /** A worker holds a dispatch that this node does not know. */
  claimed(dispatchId: DispatchId, by: Claimant): void;
  /** A worker of another service or tenant says that it holds the dispatch. */
  refused(entry: Entry, stream: WorkerStream): void;
}

export interface InFlightOptions {
  /** Database time, epoch milliseconds. */
  readonly now: () => number;
  readonly limits: DispatchLimits;
  readonly nameCall: NameCall;
  readonly tokenOf: CallbackToken;
  readonly host: InFlightHost;
}

/** How often overdue dispatches are forgotten, and how long after its deadline a dispatch is overdue. */
const OVERDUE_MS = 10_000;

export class InFlight {
  readonly pool = new StreamPool();
  readonly unclaimed: Unclaimed;
  readonly heldCredit: HeldCredit;
  /** Once it is true, nothing is handed out. */
  stopping = false;
  private readonly entries = new Map<ReservationId, Entry>();
  /** Credit taken for dispatches that are not committed yet. */
  private readonly reservations: ExpiringMap<Entry, ReservationId>;
  /** Streams whose workers claimed dispatches that are not known here yet. */
  private readonly claims: ExpiringMap<WorkerStream, DispatchId>;
  private forgetOverdueAt = 0;

  constructor(private readonly options: InFlightOptions) {
    const { limits } = options;
    this.unclaimed = new Unclaimed(limits.claimWaitMs);
    this.reservations = new ExpiringMap(limits.reservationMs);
    this.claims = new ExpiringMap(limits.claimMemoryMs, limits.claims);
    this.heldCredit = new HeldCredit(limits.claims);
  }

  get(id: ReservationId): Entry | undefined {
    return this.entries.get(id);
  }

  all(): IterableIterator<Entry> {
    return this.entries.values();
  }

  reserve(id: ReservationId, name: ActionName): Reservation | undefined {
    if (this.stopping) return undefined;
    const known = this.entries.get(id);
    if (known?.stream) return { workerId: known.stream.workerId };
    if (known?.dispatch) return undefined;
    const stream = this.pool.select(name);
    if (!stream) return undefined;
    const entry: Entry = { id, name, stream };
    this.entries.set(id, entry);
    this.reservations.set(id, entry);
    this.takeCredit(stream, id);
    return { workerId: stream.workerId };
  }

  send(dispatch: Dispatch): void {
    const known = this.entries.get(dispatch.dispatchId);
    if (this.stopping || known?.dispatch) return;
    if (this.isExpired(dispatch)) this.resolve(dispatch.dispatchId);
    else if (known) this.commit(known, dispatch);
    else this.sendUnreserved(this.withoutStream(dispatch));
  }

  /** A committed dispatch that no stream holds. */
  withoutStream(dispatch: Dispatch): CommittedEntry {
    const name = this.options.nameCall(dispatch.call, dispatch.tenantId);
    return { id: dispatch.dispatchId, name, dispatch, stream: undefined };
  }

  /** A dispatch that waits for another worker is left to its deadline: no worker starts a cancelled step. */
  cancel(dispatchId: DispatchId, reason: string): void {
    const entry = this.entries.get(dispatchId);
    if (!isCommitted(entry)) return;
    entry.cancelReason = reason;
    this.unclaimed.remove(entry);
    if (entry.stream) writeCancel(entry, entry.stream);
  }

  /** The dispatch of a reservation is committed now. */
  private commit(reserved: Entry, dispatch: Dispatch): void {
    const entry: CommittedEntry = Object.assign(reserved, { id: dispatch.dispatchId, dispatch });
    this.reservations.delete(entry.id);
    if (entry.stream) this.writeExecute(entry, entry.stream);
    else this.resend(entry);
  }

  /** Hands the dispatch to the stream's worker, with the stream's credit. */
  execute(entry: CommittedEntry, stream: WorkerStream): void {
    this.assign(entry, stream);
    this.writeExecute(entry, stream);
  }

  /** The stream's worker already has the dispatch: it is not executed again. */
  private bind(entry: CommittedEntry, stream: WorkerStream): void {
    this.assign(entry, stream);
    writeCancel(entry, stream);
  }

  /**
   * Without a reservation: a former owner or another node may have sent the dispatch, so a worker may already hold it.
   */
  sendUnreserved(entry: CommittedEntry): void {
    this.entries.set(entry.id, entry);
    const claimant = this.claimant(entry.id, entry.name);
    this.claims.delete(entry.id);
    if (claimant) return this.bind(entry, claimant);
    entry.lost = { since: this.options.now() };
    this.unclaimed.awaitClaim(entry);
  }

  /** Sends it to any worker, ahead of new calls. */
  resend(entry: CommittedEntry): void {
    this.entries.set(entry.id, entry);
    entry.lost ??= { since: this.options.now() };
    if (!this.unclaimed.awaitWorker(entry)) return;
    this.serveUnclaimed(entry.name.service);
    if (!entry.stream) this.options.host.creditWanted();
  }

  /** The stream's worker says that it holds the dispatch. */
  claim(stream: WorkerStream, dispatchId: DispatchId): void {
    const entry = this.entries.get(dispatchId);
    if (!entry) {
      this.claims.set(dispatchId, stream);
      this.holdUnknown(stream, dispatchId);
      this.options.host.claimed(dispatchId, stream.claimant);
    }
    if (entry && !belongsTo(entry, stream)) return this.options.host.refused(entry, stream);
    if (!isCommitted(entry)) return;
    const holder = entry.stream;
    // It was sent again to another worker, which is alive: both will answer, and the first answer counts.
    if (holder && holder.workerId !== stream.workerId)
      return this.holdCredit(stream, dispatchId, entry.dispatch.deadlineAt);
    if (holder) this.unbind(entry, holder);
    this.unclaimed.remove(entry);
    this.bind(entry, stream);
  }

  /**
   * No run on this node waits for the dispatch, and its worker may execute it all the same: until the deadline, if it is known. A run that does
   * wait for it is found while the claim is remembered.
   */
  private holdUnknown(stream: WorkerStream, dispatchId: DispatchId): void {
    const { now, limits } = this.options;
    const before = this.heldCredit.get(dispatchId);
    if (!before && this.heldCredit.isFull) return;
    const isItsOwn = before?.workerId === stream.workerId;
    this.holdCredit(stream, dispatchId, isItsOwn ? before.deadlineAt : now() + limits.claimMemoryMs);
  }

  private holdCredit(stream: WorkerStream, id: ReservationId, deadlineAt: number): void {
    const before = this.heldCredit.get(id)?.stream;
    if (before && before !== stream) this.releaseCredit(before, id);
    this.heldCredit.set(id, stream, deadlineAt);
    stream.slots.add(id);
  }

  /** The worker has answered, on whichever of its streams: its credit is free. Another worker that executes the dispatch as well keeps its own. */
  returnCredit(workerId: string, dispatchId: DispatchId): void {
    const held = this.heldCredit.get(dispatchId);
    if (held?.workerId === workerId) {
      this.heldCredit.delete(dispatchId);
      if (held.stream) this.releaseCredit(held.stream, dispatchId);
    }
    const holder = this.entries.get(dispatchId)?.stream;
    if (holder?.workerId === workerId) this.releaseCredit(holder, dispatchId);
  }

  claimant(dispatchId: DispatchId, name: ActionName): WorkerStream | undefined {
    const stream = this.claims.get(dispatchId);
    return stream?.isOpen && belongsTo({ name }, stream) ? stream : undefined;
  }

  /** The run waits for it no longer. A worker that has not answered may still execute it: its credit stays taken. */
  resolve(id: ReservationId): void {
    const entry = this.entries.get(id);
    if (!entry) return;
    this.forget(entry);
    const { stream, dispatch } = entry;
    if (!stream?.slots.has(id)) return;
    if (dispatch && !this.isExpired(dispatch)) this.holdCredit(stream, id, dispatch.deadlineAt);
    else this.releaseCredit(stream, id);
  }

  forget(entry: Entry): void {
    this.entries.delete(entry.id);
    this.reservations.delete(entry.id);
    this.unclaimed.remove(entry);
    entry.stream?.held.delete(entry.id);
  }

  unbind(entry: Entry, stream: WorkerStream): void {
    entry.stream = undefined;
    stream.slots.delete(entry.id);
    stream.held.delete(entry.id);
    stream.creditReturned();
  }

  releaseCredit(stream: WorkerStream, id: ReservationId): void {
    if (!stream.slots.delete(id)) return;
    stream.creditReturned();
    this.creditFreed(stream.service);
  }

  /** Credit for a service may be free: unclaimed dispatches are served first, then new calls. */
  creditFreed(service: string): void {
    if (this.stopping) return;
    this.serveUnclaimed(service);
    this.options.host.creditFreed(service);
  }

  /** The dispatch's stream has ended. */
  streamLost(entry: CommittedEntry, { workerId }: WorkerStream): void {
    const { host, now } = this.options;
    entry.lost = { since: now(), workerId };
    if (!entry.relayed && host.isMine(entry.id)) return this.unclaimed.awaitClaim(entry);
    this.forget(entry);
    host.streamLost(entry.dispatch);
  }

  /** The committed dispatches that no worker holds or is about to claim. A cancelled one is among them: its own worker alone may still answer it. */
  *unheld(): IterableIterator<CommittedEntry> {
    for (const entry of this.entries.values())
      if (isCommitted(entry) && !entry.stream && !this.unclaimed.awaitsClaim(entry)) yield entry;
  }

  holder(id: DispatchId): DispatchHolder | undefined {
    const entry = this.entries.get(id);
    if (!isCommitted(entry)) return undefined;
    const { stream, lost } = entry;
    if (stream) return { workerId: stream.workerId };
    const { since: goneSince, ...known } = lost ?? {};
    return { ...known, ...(!this.unclaimed.awaitsClaim(entry) && { goneSince }) };
  }

  isExpired(dispatch: Dispatch): boolean {
    return dispatch.deadlineAt <= this.options.now();
  }

  /** Everything here that waits for time to pass. */
  tick(): void {
    for (const [id] of this.reservations.takeDue()) this.resolve(id);
    for (const entry of this.unclaimed.takeDue()) if (entry.cancelReason === undefined) this.resend(entry);
    this.claims.takeDue();
    for (const [id, stream] of this.heldCredit.takeDue(this.options.now())) this.releaseCredit(stream, id);
    if (performance.now() >= this.forgetOverdueAt) this.forgetOverdue();
  }

  clear(): void {
    this.entries.clear();
    this.unclaimed.clear();
  }

  private assign(entry: CommittedEntry, stream: WorkerStream): void {
    entry.stream = stream;
    entry.lost = undefined;
    this.entries.set(entry.id, entry);
    if (this.heldCredit.get(entry.id)?.stream === stream) this.heldCredit.delete(entry.id);
    this.takeCredit(stream, entry.id);
  }

  private writeExecute(entry: CommittedEntry, stream: WorkerStream): void {
    const { dispatch } = entry;
    const { now } = this.options;
    const tokenOf = stream.takesTokens ? this.options.tokenOf : noToken;
    stream.write({ execute: executeStep(dispatch, dispatch.deadlineAt - now(), tokenOf) });
    writeCancel(entry, stream);
  }

  private serveUnclaimed(service: string): void {
    this.unclaimed.serve(service, (entry) => {
      if (this.isExpired(entry.dispatch)) {
        this.entries.delete(entry.id);
        return true;
      }
      const stream = this.pool.select(entry.name);
      if (stream) this.execute(entry, stream);
      return stream !== undefined;
    });
  }

  private takeCredit(stream: WorkerStream, id: ReservationId): void {
    stream.slots.add(id);
    stream.held.add(id);
    this.pool.served(stream);
  }

  /**
   * A run that went to another node was resolved there, so this node forgets dispatches that are long past their
   * deadline.
   */
  private forgetOverdue(): void {
    this.forgetOverdueAt = performance.now() + OVERDUE_MS;
    const overdue = this.options.now() - OVERDUE_MS;
    for (const { dispatch, id } of [...this.entries.values()])
      if (dispatch && dispatch.deadlineAt < overdue) this.resolve(id);
  }
}

function writeCancel({ id, cancelReason }: Entry, stream: WorkerStream): void {
  if (cancelReason !== undefined) stream.write({ cancel: { dispatch_id: id, reason: cancelReason } });
}

/**
 * Dispatches without a stream. First each waits for its worker to claim it; unclaimed, it waits for any worker with credit, ahead of everything new.
 * It sends nothing and has no timer.
 */
class Unclaimed {
  private readonly claimable: ExpiringMap<CommittedEntry, ReservationId>;
  private readonly queue = new FairQueue<CommittedEntry>();

  constructor(claimWaitMs: number) {
    this.claimable = new ExpiringMap(claimWaitMs);
  }

  /** Its stream is gone, or was never on this node: its worker may come back and claim it. */
  awaitClaim(entry: CommittedEntry): void {
    this.claimable.set(entry.id, entry);
  }

  /**
   * It waits for any worker. True if it is the only one of its action. If it is not, the others have already found no
   * credit.
   */
  awaitWorker(entry: CommittedEntry): boolean {
    return this.queue.add(entry.name, entry.id, entry);
  }

  /** Its own worker may still come back for it. */
  awaitsClaim({ id }: Entry): boolean {
    return this.claimable.get(id) !== undefined;
  }

  remove({ id, name }: Entry): void {
    this.claimable.delete(id);
    this.queue.remove(name, id);
  }

  /** Removes and returns the dispatches that were not claimed in time. */
  takeDue(): CommittedEntry[] {
    return this.claimable.takeDue().map(([, entry]) => entry);
  }

  serve(service: string, tryServe: (entry: CommittedEntry) => boolean): void {
    this.queue.serve(service, tryServe);
  }

  takeFirst(name: ActionName, fits: (entry: CommittedEntry) => boolean): CommittedEntry | undefined {
    return this.queue.takeFirst(name, fits);
  }

  /** The actions of the dispatches that wait for any worker, and how many. */
  counts(): IterableIterator<WaitingCount> {
    return this.queue.ownCounts();
  }

  clear(): void {
    this.claimable.clear();
    this.queue.clear();
  }
}

interface Held {
  readonly workerId: string;
  /** Undefined: it has ended. The worker may name the dispatch on another one. */
  readonly stream: WorkerStream | undefined;
  /** Database time, epoch milliseconds. */
  readonly deadlineAt: number;
}

/**
 * Credit of steps that no run here waits for, and that were not answered: the worker may still execute them, so their credit stays taken until their
 * deadline. It returns no credit itself: it says which is due.
 */
class HeldCredit {
  private readonly held = new Map<ReservationId, Held>();

  /** Above `max`, steps that no stream holds are forgotten, and steps that are not known are not added. */
  constructor(private readonly max: number) {}

  get(dispatchId: ReservationId): Held | undefined {
    return this.held.get(dispatchId);
  }

  set(dispatchId: ReservationId, stream: WorkerStream, deadlineAt: number): void {
    this.held.set(dispatchId, { workerId: stream.workerId, stream, deadlineAt });
  }

  delete(dispatchId: ReservationId): void {
    this.held.delete(dispatchId);
  }

  get isFull(): boolean {
    return this.held.size >= this.max;
  }

  /** The stream has ended. What its worker executes stays known: it may name it on another stream. */
  dropStream(stream: WorkerStream): void {
    for (const [dispatchId, held] of this.held)
      if (held.stream === stream && this.isFull) this.held.delete(dispatchId);
      else if (held.stream === stream) this.held.set(dispatchId, { ...held, stream: undefined });
  }

  /** Removes the dispatches whose deadline has passed, and returns those that a stream holds. `now` is database time. */
  takeDue(now: number): [dispatchId: ReservationId, stream: WorkerStream][] {
    const due: [ReservationId, WorkerStream][] = [];
    for (const [dispatchId, { stream, deadlineAt }] of this.held) {
      if (deadlineAt > now) continue;
      this.held.delete(dispatchId);
      if (stream) due.push([dispatchId, stream]);
    }
    return due;
  }
}
