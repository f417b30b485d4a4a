// The carrier of outlets: hands dispatches over to whoever does not come for them, through one outlet. It gives credit while a destination
// has slots and is not away, tries a hand-over again while nothing has arrived, and then gives the call back to its run. How a
// dispatch is sent, and what an answer means, is the outlet's.
import type { ActionCall, Dispatch, DispatchId } from "../../../machines/index.js";
import type { ConnectedWorker, Obstacle } from "../../run/ports.js";
import type { ActionName } from "../action-name.js";
import type { Carrier, CarrierHost, Reservation } from "../carrier.js";
import { ExpiringMap } from "../expiring-map.js";
import { FairQueue, type Pool } from "../fair-queue.js";
import { Slots } from "../slots.js";
import { AcceptedDispatches, type AcceptedOptions } from "./accepted.js";
import { Addresses } from "./addresses.js";
import { type AwayDestination, Destinations } from "./destinations.js";
import { HeldDispatch } from "./held-dispatch.js";
import type { Delivery, Outlet } from "./outlet.js";
import { Reporter, type ReporterOptions } from "./reporter.js";

export interface PushCarrierOptions extends ReporterOptions {
  readonly outlet: Outlet;
  readonly host: CarrierHost;
  /** Concurrent tries, in all and to one destination. */
  readonly slots: { readonly all: number; readonly each: number };
  /** Removes the outbox rows of accepted dispatches. */
  readonly removeRows: AcceptedOptions["remove"];
  /** Told of every try that ended. */
  readonly delivered: (kind: Delivery["kind"]) => void;
}

export class PushCarrier implements Carrier {
  private readonly held = new Map<DispatchId, HeldDispatch>();
  private readonly slots: Slots;
  private readonly destinations: Destinations;
  private readonly addresses = new Addresses();
  private readonly reservations: ExpiringMap<HeldDispatch, DispatchId>;
  /** Committed dispatches without a slot. They go before everything new. */
  private readonly waiting = new FairQueue<HeldDispatch>();
  private readonly accepted: AcceptedDispatches;
  private readonly reporter: Reporter;
  private readonly underWay = new Set<Promise<void>>();
  private readonly ticker: NodeJS.Timeout;
  private stopping = false;

  constructor(private readonly options: PushCarrierOptions) {
    const { limits, slots, removeRows: remove, outlet, now, log } = options;
    this.slots = new Slots(slots.all, slots.each);
    this.destinations = new Destinations({ ...limits.destinations, now });
    this.reservations = new ExpiringMap(limits.reservationMs);
    this.accepted = new AcceptedDispatches({ ...limits.accepted, remove, log, now });
    this.reporter = new Reporter(options);
    this.ticker = setInterval(() => this.tick(), limits.tickMs).unref();
    outlet.start(() => this.serve());
  }

  get inFlight(): number {
    return this.underWay.size + this.accepted.size;
  }

  poolOf(call: ActionCall): Pool {
    return this.options.outlet.destinationOf(call).pool;
  }

  reserve(dispatchId: DispatchId, call: ActionCall): Reservation | undefined {
    if (this.stopping) return undefined;
    const known = this.held.get(dispatchId);
    if (known) return known.dispatch ? undefined : {};
    const held = this.hold(dispatchId, call, false);
    if (!this.takeSlot(held)) return undefined;
    this.held.set(dispatchId, held);
    this.reservations.set(dispatchId, held);
    return {};
  }

  send(dispatch: Dispatch): void {
    const { dispatchId, call } = dispatch;
    const known = this.held.get(dispatchId);
    if (this.stopping || known?.dispatch || this.accepted.has(dispatchId)) return;
    if (this.isExpired(dispatch)) return this.resolved(dispatchId);
    // The poll brings it back.
    if (!known && this.waiting.size >= this.options.limits.queued) return;
    const held = known ?? this.hold(dispatchId, call, true);
    held.dispatch = dispatch;
    this.held.set(dispatchId, held);
    this.reservations.delete(dispatchId);
    if (held.slot || this.takeSlot(held)) this.begin(held, dispatch);
    else this.wait(held, dispatch);
  }

  /** What waits is not sent any more. What may have arrived is awaited: its answer, or its deadline (law 11). */
  cancel(dispatchId: DispatchId): void {
    const held = this.held.get(dispatchId);
    if (!held?.dispatch) return;
    held.cancelled = true;
    if (this.options.outlet.ownWork) held.abort("cancelled");
    if (held.busy) return;
    this.leaveQueue(held);
    // A try that is cut off before it begins needs no slot.
    if (this.options.outlet.ownWork) this.begin(held, held.dispatch);
    else if (!held.mayHaveArrived) this.giveBack(held);
  }

  resolved(dispatchId: DispatchId): void {
    this.accepted.resolved(dispatchId);
    const held = this.held.get(dispatchId);
    if (!held) return;
    this.forget(held);
    held.resolved.abort();
    held.abort("cancelled");
  }

  holds(dispatchId: DispatchId): boolean {
    return this.held.has(dispatchId) || this.accepted.has(dispatchId);
  }

  /** What waits for a run of another node is that node's. */
  placed(isMine: (dispatchId: DispatchId) => boolean): void {
    for (const { dispatchId, dispatch, busy } of [...this.held.values()])
      if (dispatch && !busy && !isMine(dispatchId)) this.resolved(dispatchId);
  }

  *away(): IterableIterator<AwayDestination> {
    const { away } = this.options.outlet;
    if (away) yield away;
    yield* this.destinations.all();
  }

  *workers(): IterableIterator<ConnectedWorker> {
    const { outlet, slots } = this.options;
    if (outlet.ownWork || outlet.away) return;
    for (const worker of this.addresses.workers(slots.each)) if (!this.destinations.get(worker.workerId)) yield worker;
  }

  obstacle(name: ActionName): Obstacle | undefined {
    const { ownWork, away, busy } = this.options.outlet;
    if (ownWork) return { reason: "no_credit", detail: busy };
    const address = this.addresses.ofAction(name);
    const absent = away ?? (address && this.destinations.get(address.destination));
    if (absent) return { reason: "no_worker", detail: absent.why };
    return address && { reason: "no_credit", detail: busy };
  }

  /** After the grace period, tries are cut off without a report: the next owner of the run sends the dispatch again. */
  async stop(graceMs: number): Promise<void> {
    this.stopping = true;
    clearInterval(this.ticker);
    let timer: NodeJS.Timeout | undefined;
    const grace = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, graceMs);
    });
    await Promise.race([grace, Promise.all(this.underWay)]);
    clearTimeout(timer);
    for (const dispatchId of [...this.held.keys()]) this.resolved(dispatchId);
    await Promise.all(this.underWay);
    await this.accepted.stop();
    await this.options.outlet.stop();
  }

  private hold(dispatchId: DispatchId, call: ActionCall, mayHaveArrived: boolean): HeldDispatch {
    const destination = this.options.outlet.destinationOf(call);
    return new HeldDispatch(dispatchId, call, destination, this.addresses.of(call, destination.key), mayHaveArrived);
  }

  private begin(held: HeldDispatch, dispatch: Dispatch): void {
    held.silence();
    this.track(held, this.handOver(held, dispatch));
  }

  private track(held: HeldDispatch, doing: Promise<void>): void {
    held.busy = true;
    const work = doing
      .catch((error: unknown) => {
        this.options.log.error({ err: error, dispatchId: held.dispatchId }, "dispatch could not be handed over");
        this.forget(held);
      })
      .finally(() => void this.underWay.delete(work));
    this.underWay.add(work);
  }

  private async handOver(held: HeldDispatch, dispatch: Dispatch): Promise<void> {
    held.alarm(dispatch.deadlineAt - this.options.now(), () => held.abort("timeout"));
    const delivery = await this.options.outlet.deliver(dispatch, held.cutOff.signal);
    held.silence();
    this.options.delivered(delivery.kind);
    if (this.held.get(held.dispatchId) === held) await this.settle(held, dispatch, delivery);
    // The run waits for it no longer, and what came of the try is worth knowing all the same.
    else this.judge(held, delivery);
  }

  private async settle(held: HeldDispatch, dispatch: Dispatch, delivery: Delivery): Promise<void> {
    this.judge(held, delivery);
    if (delivery.kind === "answered") {
      await this.reporter.outcome(held, delivery);
      return this.forget(held);
    }
    if (delivery.kind === "accepted") {
      this.accepted.add(held.dispatchId, dispatch.deadlineAt, held.address);
      return this.forget(held);
    }
    held.busy = false;
    held.why = delivery.why;
    if (delivery.kind === "lost") held.mayHaveArrived = true;
    this.releaseSlot(held);
    if (held.cancelled && !held.mayHaveArrived) this.giveBack(held);
    else this.wait(held, dispatch);
  }

  /** What the try says of the destination. */
  private judge({ destination: { key }, address }: HeldDispatch, delivery: Delivery): void {
    if (delivery.kind === "undelivered") return this.destinations.failed(key, delivery, delivery.afterMs);
    if (delivery.kind === "lost") return this.destinations.failed(key, delivery);
    this.destinations.reached(key);
    address.since ??= this.options.now();
  }

  /** Until it is sent, given back to its run, or, if it may have arrived, its run gives it up. */
  private wait(held: HeldDispatch, dispatch: Dispatch): void {
    const { limits, now } = this.options;
    const { deadlineAt, handOverBy = deadlineAt, call } = dispatch;
    const dispatchedAt = deadlineAt - call.timeoutMs;
    // The worker is left at least half of its time.
    const handOverUntil = dispatchedAt + Math.min(call.timeoutMs / 2, limits.triedMs);
    const until = held.mayHaveArrived ? deadlineAt : Math.min(handOverBy, handOverUntil);
    // A timer may ring a millisecond early.
    held.alarm(until - now() + 1, () => (held.mayHaveArrived ? this.forget(held) : this.giveBack(held)));
    if (!held.cancelled) this.waiting.add(held.call, held.dispatchId, held, held.destination);
  }

  private leaveQueue({ call, dispatchId, destination }: HeldDispatch): void {
    this.waiting.remove(call, dispatchId, destination);
  }

  /** Its run lets it wait for a worker again, as the same attempt, or ends. */
  private giveBack(held: HeldDispatch): void {
    held.silence();
    this.leaveQueue(held);
    this.track(
      held,
      this.reporter.notHandedOver(held).then(() => this.forget(held)),
    );
  }

  private forget(held: HeldDispatch): void {
    const { dispatchId } = held;
    held.silence();
    if (this.held.get(dispatchId) === held) this.held.delete(dispatchId);
    this.reservations.delete(dispatchId);
    this.leaveQueue(held);
    this.releaseSlot(held);
  }

  private takeSlot(held: HeldDispatch): boolean {
    const { key, holder } = held.destination;
    if (!this.options.outlet.isOpen || !this.destinations.admits(key) || !this.slots.take(holder)) return false;
    this.destinations.began(key);
    held.address.inFlight++;
    held.slot = true;
    return true;
  }

  private releaseSlot(held: HeldDispatch): void {
    if (!held.slot) return;
    const { key, pool, holder } = held.destination;
    this.slots.release(holder);
    this.destinations.ended(key);
    held.address.inFlight--;
    held.slot = false;
    this.serve(pool.group);
  }

  /** Slots may be free, or a destination back. */
  private serve(group?: string): void {
    if (this.stopping) return;
    const tryBegin = (held: HeldDispatch) => this.tryBegin(held);
    if (group === undefined) this.waiting.serveAll(tryBegin);
    else this.waiting.serve(group, tryBegin);
    this.options.host.creditFreed(group);
  }

  /** True if it leaves the queue. */
  private tryBegin(held: HeldDispatch): boolean {
    if (!held.dispatch || !this.takeSlot(held)) return false;
    this.begin(held, held.dispatch);
    return true;
  }

  private isExpired(dispatch: Dispatch): boolean {
    return dispatch.deadlineAt <= this.options.now();
  }

  private tick(): void {
    for (const [dispatchId] of this.reservations.takeDue()) this.resolved(dispatchId);
    if (this.destinations.areDue()) this.serve();
    this.accepted.tick();
  }
}
