// The dispatcher: decides which call gets credit next and offers that credit to the call's run. It knows carriers by
// their port only: how a worker is reached is a carrier's decision, what a run does with an offer is the run's. It
// stores nothing.

import type { ActionCall, Answer, Dispatch, DispatchId, Precedence, RunCommand, RunId } from "../../machines/index.js";
import { EVERYTHING } from "../access/index.js";
import type { Bus } from "../bus/bus.js";
import { overloaded } from "../errors.js";
import type { Log } from "../log.js";
import type { CommandOptions, Dispatcher, Runs } from "../run/ports.js";
import type { AwayFrom, Carrier, CarrierHost, CreditWaiter, Reservation, TransportName } from "./carrier.js";
import { type LocalWorkers, WorkerDirectory } from "./directory.js";
import { FairQueue, type ShareOf } from "./fair-queue.js";
import type { DispatchLimits } from "./limits.js";
import { Offers, type OffersHost, QueuedCall } from "./offers.js";
import type { Ownership } from "./ownership.js";
import { type DispatchAsk, isDirectoryAsk, type Tell } from "./relay/messages.js";
import {
  type ActionName,
  byTenant,
  type CalledAction,
  type ConnectedWorker,
  type DispatchHolder,
  type NameCall,
  nameKey,
  nameOf,
  type Obstacle,
  type WaitingAction,
} from "./workers.js";

export interface CallDispatcherOptions {
  readonly nodeId: string;
  readonly ownership: Pick<Ownership, "isMine" | "ownerOf">;
  /** Absent: there are no other nodes. */
  readonly bus?: Pick<Bus, "ask">;
  readonly limits: DispatchLimits;
  readonly log: Log;
  readonly nameCall: NameCall;
  /** How many turns in a row a tenant's calls have. Absent: one. */
  readonly shareOf?: ShareOf | undefined;
}

/** What waits for the credit of one transport. Invariant: it has found no credit since credit last came free. */
interface Lane {
  readonly queue: FairQueue<CreditWaiter>;
  /** Absent: the calls wait in the queue. */
  carrier?: Carrier;
}

export class CallDispatcher implements Dispatcher, LocalWorkers {
  private readonly lanes: Readonly<Record<TransportName, Lane>>;
  private readonly carriers: Carrier[] = [];
  /** Calls that are in a queue, being offered, or backing off. */
  private readonly waiting = new Map<DispatchId, QueuedCall>();
  private readonly offers: Offers;
  /** The workers of all nodes. */
  readonly directory: WorkerDirectory;
  private runs: Runs | undefined;
  private stopping = false;
  private overflowing = false;

  constructor(private readonly options: CallDispatcherOptions) {
    const newLane = (): Lane => ({ queue: new FairQueue(options.shareOf) });
    this.lanes = { grpc: newLane(), http: newLane(), rmq: newLane(), request: newLane() };
    const host: OffersHost = {
      command: (runId, command) => this.command(runId, command),
      isWaiting: (queued) => this.waiting.get(queued.dispatchId) === queued,
      settled: ({ dispatchId }) => void this.waiting.delete(dispatchId),
      requeue: (queued) => this.requeue(queued),
    };
    this.offers = new Offers(host, options.limits, options.log);
    this.directory = new WorkerDirectory({ ...options, local: this });
  }

  /** Calls that wait for credit, and dispatches whose worker is gone. */
  get queued(): number {
    let count = this.waiting.size;
    for (const carrier of this.carriers) for (const [, waiting] of carrier.unheld?.() ?? []) count += waiting;
    return count;
  }

  /** Dispatches handed over and not yet answered. */
  get inFlight(): number {
    return this.carriers.reduce((sum, carrier) => sum + carrier.inFlight, 0);
  }

  /** The carrier takes the transport's calls from now on. */
  add<C extends Carrier>(transport: TransportName, makeCarrier: (host: CarrierHost) => C): C {
    const lane = this.lanes[transport];
    const carrier = makeCarrier({
      queue: lane.queue,
      creditFreed: (group) => this.serve(transport, group),
      command: (runId, command, options) => this.command(runId, command, options),
      offerFirst: (name, fits, reserve) => this.offerFirst(lane, name, fits, reserve),
    });
    lane.carrier = carrier;
    this.carriers.push(carrier);
    return carrier;
  }

  /** Until the runs are bound, every command fails with 503. */
  bind(runs: Runs): void {
    this.runs = runs;
  }

  placed(nodeIds: readonly string[]): void {
    const isMine = (dispatchId: DispatchId) => this.options.ownership.isMine(dispatchId);
    for (const dispatchId of [...this.waiting.keys()]) if (!isMine(dispatchId)) this.leave(dispatchId);
    this.directory.placed(nodeIds);
    for (const carrier of this.carriers) {
      carrier.placed?.(nodeIds);
      carrier.sharing?.placed(nodeIds);
    }
  }

  /** The destinations that take no calls at present. */
  *away(): IterableIterator<AwayFrom> {
    for (const transport of Object.keys(this.lanes) as TransportName[])
      for (const away of this.lanes[transport].carrier?.away?.() ?? []) yield { transport, ...away };
  }

  asked(request: DispatchAsk): object | undefined {
    if (request.kind === "dispatch.held") {
      const { dispatch_ids: ids, node_id: nodeId } = request;
      return { held: this.carriers.flatMap((carrier) => carrier.kept?.(ids, nodeId) ?? []) };
    }
    if (isDirectoryAsk(request)) return this.directory.asked(request);
    for (const { sharing } of this.carriers) {
      const answer = sharing?.asked(request);
      if (answer) return answer;
    }
    return undefined;
  }

  told(message: Tell, from: string): void {
    for (const { sharing } of this.carriers) sharing?.told(message, from);
  }

  reserve(dispatchId: DispatchId, call: ActionCall, tenantId?: string): Reservation | undefined {
    if (this.stopping) return undefined;
    const reservation = this.lanes[call.transport].carrier?.reserve(dispatchId, this.options.nameCall(call, tenantId));
    // The caller has it now: an offer under way for this call must not return the credit when the run refuses it.
    if (reservation) this.leave(dispatchId);
    return reservation;
  }

  enqueue(runId: RunId, dispatchId: DispatchId, asked: ActionCall, tenantId?: string, precedence?: Precedence): void {
    if (this.stopping || this.isHeldByCarrier(dispatchId)) return;
    const call = this.options.nameCall(asked, tenantId);
    const known = this.waiting.get(dispatchId);
    if (known && nameKey(known.call) === nameKey(call)) return;
    // Otherwise its run was given to a tenant while the call waited.
    this.leave(dispatchId);
    if (this.isFull()) return;
    const { queue, carrier } = this.lanes[call.transport];
    const pool = carrier?.poolOf?.(call);
    const queued = new QueuedCall(runId, dispatchId, call, pool, (self) => this.tryOffer(self));
    this.waiting.set(dispatchId, queued);
    if (!queue.add(call, dispatchId, queued, { pool, precedence })) return;
    this.serve(call.transport, pool?.group ?? call.service);
    if (queue.size > 0) carrier?.sharing?.creditWanted();
  }

  send(dispatch: Dispatch): void {
    if (this.stopping) return;
    this.leave(dispatch.dispatchId);
    this.lanes[dispatch.call.transport].carrier?.send(dispatch);
  }

  cancel(dispatchId: DispatchId, reason: string): void {
    for (const carrier of this.carriers) carrier.cancel(dispatchId, reason);
  }

  resolved(dispatchId: DispatchId): void {
    this.leave(dispatchId);
    for (const carrier of this.carriers) carrier.resolved(dispatchId);
  }

  holds(dispatchId: DispatchId): boolean {
    return this.waiting.has(dispatchId) || this.isHeldByCarrier(dispatchId);
  }

  waitsWithoutTenant(dispatchId: DispatchId): boolean {
    const queued = this.waiting.get(dispatchId);
    return queued !== undefined && queued.call.tenantId === undefined && this.options.nameCall === byTenant;
  }

  // ---- LocalWorkers

  *connectedWorkers(): Iterable<ConnectedWorker> {
    for (const carrier of this.carriers) yield* carrier.workers?.() ?? [];
  }

  *waitingCalls(): Iterable<WaitingAction> {
    for (const transport of Object.keys(this.lanes) as TransportName[]) {
      const { queue, carrier } = this.lanes[transport];
      for (const counts of [queue.ownCounts(), carrier?.unheld?.() ?? []])
        for (const [name, calls] of counts) yield { ...nameOf(name), transport, calls };
    }
  }

  holder(dispatchId: DispatchId): DispatchHolder | undefined {
    for (const carrier of this.carriers) {
      const holder = carrier.holder?.(dispatchId);
      if (holder) return holder;
    }
    return undefined;
  }

  obstacle({ transport, ...name }: CalledAction): Obstacle | undefined {
    const { carrier } = this.lanes[transport] ?? {};
    if (!carrier)
      return { reason: "no_worker", detail: `this service has no connection for the transport ${transport}` };
    return carrier.obstacle?.(name);
  }

  async stop(graceMs: number): Promise<void> {
    this.stopping = true;
    this.offers.stop();
    for (const { queue } of Object.values(this.lanes)) queue.clear();
    await Promise.all(this.carriers.map((carrier) => carrier.stop(graceMs)));
    this.waiting.clear();
  }

  /** `group`: of pools, or a service. */
  private serve(transport: TransportName, group?: string): void {
    if (this.stopping) return;
    const { queue, carrier } = this.lanes[transport];
    const tryServe = (waiter: CreditWaiter) => waiter.tryServe();
    if (group === undefined) queue.serveAll(tryServe);
    else queue.serve(group, tryServe);
    carrier?.sharing?.creditLeft(group);
  }

  private tryOffer(queued: QueuedCall): boolean {
    const { carrier } = this.lanes[queued.call.transport];
    if (!carrier || this.offers.heldUp) return false;
    const reservation = carrier.reserve(queued.dispatchId, queued.call);
    if (reservation) void this.offers.make(queued, reservation, carrier);
    return reservation !== undefined;
  }

  private offerFirst(
    { queue, carrier }: Lane,
    name: ActionName,
    fits: (call: ActionCall) => boolean,
    reserve: (dispatchId: DispatchId) => Reservation,
  ): boolean {
    if (this.stopping || this.offers.heldUp || !carrier) return false;
    const queued = queue.takeFirst(name, (waiter) => waiter instanceof QueuedCall && fits(waiter.call));
    if (!(queued instanceof QueuedCall)) return false;
    void this.offers.make(queued, reserve(queued.dispatchId), carrier);
    return true;
  }

  /** The call's run could not answer the offer. */
  private requeue(queued: QueuedCall): void {
    const { call, pool, dispatchId } = queued;
    this.lanes[call.transport].queue.add(call, dispatchId, queued, { requeued: true, pool });
    // All services: the limit on calls that back off may have held up others.
    this.serve(call.transport);
  }

  /** Removes the call from the queue, from its offer or from its backoff. */
  private leave(dispatchId: DispatchId): void {
    const queued = this.waiting.get(dispatchId);
    if (!queued) return;
    this.waiting.delete(dispatchId);
    this.lanes[queued.call.transport].queue.remove(queued.call, dispatchId, queued);
    this.offers.forget(dispatchId);
  }

  private isHeldByCarrier(dispatchId: DispatchId): boolean {
    return this.carriers.some((carrier) => carrier.holds(dispatchId));
  }

  private isFull(): boolean {
    const full = this.waiting.size >= this.options.limits.queued;
    if (full && !this.overflowing)
      this.options.log.warn({ queued: this.waiting.size }, "dispatch queue full, leaving further calls to the poll");
    this.overflowing = full;
    return full;
  }

  private async command(runId: RunId, command: RunCommand, options: Partial<CommandOptions> = {}): Promise<Answer> {
    if (!this.runs) throw overloaded("the node is starting");
    return this.runs.command(runId, command, { reach: EVERYTHING, ...options });
  }
}
