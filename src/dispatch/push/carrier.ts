// The carrier of outlets: hands dispatches over to destinations that do not come for them, through one outlet. It gives credit while a destination
// has slots and is not away, tries a hand-over again while nothing has arrived, and then gives the call back to its run. How a
// dispatch is sent, and what an answer means, is the outlet's.

import type { ActionCall, Dispatch, DispatchId } from "../../../machines/index.js";
import { clearInterval, setInterval } from "../../ambient.js";
import { withGrace } from "../../work/loop.js";
import { aboutDispatch, type Carrier, type CarrierHost, type Reservation } from "../carrier.js";
import { ExpiringMap } from "../expiring-map.js";
import { FairQueue, type Pool } from "../fair-queue.js";
import type { Ownership } from "../ownership.js";
import type { ActionName, ConnectedWorker, Obstacle, WaitingCount } from "../workers.js";
import { AcceptedDispatches, type AcceptedOptions } from "./accepted.js";
import type { AwayDestination } from "./destinations.js";
import { Gates, type GatesOptions } from "./gates.js";
import { HeldDispatch } from "./held-dispatch.js";
import type { Delivery, Outlet } from "./outlet.js";
import { RecoveredDispatches, type RecoveredOptions } from "./recovered.js";
import { Reporter, type ReporterOptions } from "./reporter.js";

export interface PushCarrierOptions extends ReporterOptions, Pick<RecoveredOptions, "nodeId" | "peers" | "withRows"> {
  readonly ownership: Pick<Ownership, "isMine">;
  readonly outlet: Outlet;
  readonly host: CarrierHost;
  readonly slots: GatesOptions["slots"];
  /** Removes the outbox rows of accepted dispatches. */
  readonly removeRows: AcceptedOptions["remove"];
  /** Told of every try that ended. */
  readonly delivered: (kind: Delivery["kind"]) => void;
}

export class PushCarrier implements Carrier {
  private readonly held = new Map<DispatchId, HeldDispatch>();
  private readonly gates: Gates;
  private readonly reservations: ExpiringMap<HeldDispatch, DispatchId>;
  /** Committed dispatches without a slot. They go before everything new. */
  private readonly waiting = new FairQueue<HeldDispatch>();
  private readonly accepted: AcceptedDispatches;
  /** Committed dispatches without a reservation: other nodes may hold them. */
  private readonly recovered: RecoveredDispatches;
  private readonly reporter: Reporter;
  private readonly underWay = new Set<Promise<void>>();
  private readonly ticker: NodeJS.Timeout;
  private stopping = false;

  constructor(private readonly options: PushCarrierOptions) {
    const { limits, slots, removeRows: remove, outlet, now, log } = options;
    this.gates = new Gates({ ...limits.destinations, outlet, slots, now });
    this.reservations = new ExpiringMap(limits.reservationMs);
    this.accepted = new AcceptedDispatches({ ...limits.accepted, remove, log, now });
    this.recovered = new RecoveredDispatches({
      ...options,
      send: (held, dispatch) => this.sendRecovered(held, dispatch),
      alreadyAccepted: (held, { deadlineAt }) => {
        this.forget(held);
        this.accepted.remember(held.dispatchId, deadlineAt, held.address);
      },
    });
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
    if (!this.gates.takeSlot(held)) return undefined;
    this.held.set(dispatchId, held);
    this.reservations.set(dispatchId, held);
    return {};
  }

  send(dispatch: Dispatch): void {
    const { dispatchId, call, deadlineAt } = dispatch;
    const known = this.held.get(dispatchId);
    if (this.stopping || known?.dispatch || this.accepted.has(dispatchId)) return;
    if (deadlineAt <= this.options.now()) return this.resolved(dispatchId);
    if (known) {
      known.dispatch = dispatch;
      this.reservations.delete(dispatchId);
      return this.begin(known, dispatch);
    }
    // The poll brings it back.
    if (this.held.size >= this.options.limits.queued) return;
    const held = this.hold(dispatchId, call, true);
    held.dispatch = dispatch;
    this.held.set(dispatchId, held);
    held.alarm(deadlineAt - this.options.now(), () => this.forget(held));
    this.recovered.add(held, dispatch);
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
  placed(nodeIds: readonly string[]): void {
    const { ownership } = this.options;
    for (const { dispatchId, dispatch, busy } of [...this.held.values()])
      if (dispatch && !busy && !ownership.isMine(dispatchId)) this.resolved(dispatchId);
    this.accepted.forgetUnless((dispatchId) => ownership.isMine(dispatchId));
    this.recovered.placed(nodeIds);
  }

  kept(dispatchIds: readonly DispatchId[], nodeId: string): readonly DispatchId[] {
    this.recovered.askedBy(nodeId);
    return dispatchIds.filter((dispatchId) => this.keeps(dispatchId, nodeId));
  }

  away(): Iterable<AwayDestination> {
    return this.gates.away();
  }

  workers(): Iterable<ConnectedWorker> {
    return this.gates.workers();
  }

  obstacle(name: ActionName): Obstacle | undefined {
    return this.gates.obstacle(name);
  }

  unheld(): Iterable<WaitingCount> {
    return this.waiting.ownCounts();
  }

  /** After the grace period, tries are cut off without a report: the next owner of the run sends the dispatch again. */
  async stop(graceMs: number): Promise<void> {
    this.stopping = true;
    clearInterval(this.ticker);
    const letGo = () => {
      for (const dispatchId of [...this.held.keys()]) this.resolved(dispatchId);
    };
    await withGrace(Promise.all(this.underWay), { ms: graceMs, cutShort: letGo });
    letGo();
    await Promise.all(this.underWay);
    await this.accepted.stop();
    await this.options.outlet.stop();
  }

  /** False: it is not here, or is let go, and this node does not send it before it has asked again. */
  private keeps(dispatchId: DispatchId, nodeId: string): boolean {
    if (this.accepted.hasRow(dispatchId)) return true;
    const held = this.held.get(dispatchId);
    if (!held) return false;
    // What is reserved may be committed: it is sent as soon as this node learns of its commit.
    if (held.busy || !held.dispatch) return true;
    if (this.options.ownership.isMine(dispatchId)) return this.recovered.keeps(dispatchId, nodeId);
    // What is committed here for a run of another node is sent there.
    this.resolved(dispatchId);
    return false;
  }

  private hold(dispatchId: DispatchId, call: ActionCall, mayHaveArrived: boolean): HeldDispatch {
    const destination = this.options.outlet.destinationOf(call);
    return new HeldDispatch(dispatchId, call, destination, this.gates.addressOf(call, destination.key), mayHaveArrived);
  }

  private sendRecovered(held: HeldDispatch, dispatch: Dispatch): void {
    if (held.cancelled || !this.tryBegin(held)) this.wait(held, dispatch);
  }

  private begin(held: HeldDispatch, dispatch: Dispatch): void {
    held.silence();
    this.recovered.forget(held.dispatchId);
    this.track(held, this.handOver(held, dispatch));
  }

  private track(held: HeldDispatch, doing: Promise<void>): void {
    held.busy = true;
    const work = doing
      .catch((error: unknown) => {
        const about = held.dispatch ? aboutDispatch(held.dispatch) : { dispatchId: held.dispatchId };
        this.options.log.error({ err: error, ...about }, "dispatch could not be handed over");
        this.forget(held);
      })
      .finally(() => void this.underWay.delete(work));
    this.underWay.add(work);
  }

  private async handOver(held: HeldDispatch, dispatch: Dispatch): Promise<void> {
    this.cutOffAt(held, dispatch.deadlineAt);
    const delivery = await this.options.outlet.deliver(dispatch, held.cutOff.signal);
    held.silence();
    this.options.delivered(delivery.kind);
    if (this.held.get(held.dispatchId) === held) return this.settle(held, dispatch, delivery);
    // The run waits for it no longer, or this node stops, and what came of the try is worth knowing all the same.
    this.gates.judge(held, delivery);
    if (delivery.kind === "accepted") this.accepted.removeRow(held.dispatchId);
  }

  /** A timer may ring early by the clock of this node, which may have been set back a little since: the audit log would show a timeout before the deadline. */
  private cutOffAt(held: HeldDispatch, deadlineAt: number): void {
    const { now } = this.options;
    held.alarm(deadlineAt - now(), () => {
      if (now() < deadlineAt) this.cutOffAt(held, deadlineAt);
      else held.abort("timeout");
    });
  }

  private async settle(held: HeldDispatch, dispatch: Dispatch, delivery: Delivery): Promise<void> {
    this.gates.judge(held, delivery);
    if (delivery.kind === "answered") {
      await this.reporter.outcome(held, delivery);
      return this.forget(held);
    }
    if (delivery.kind === "accepted") {
      this.forget(held);
      // The owner of its run remembers it: nothing would tell this node of the answer.
      if (!this.options.ownership.isMine(held.dispatchId)) return this.accepted.removeRow(held.dispatchId);
      return this.accepted.add(held.dispatchId, dispatch.deadlineAt, held.address);
    }
    held.busy = false;
    held.why = delivery.why;
    if (delivery.kind === "lost") held.mayHaveArrived = true;
    this.releaseSlot(held);
    // Its next owner goes on with it.
    if (!this.options.ownership.isMine(held.dispatchId)) this.forget(held);
    else if (held.cancelled && !held.mayHaveArrived) this.giveBack(held);
    else this.wait(held, dispatch);
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
    this.recovered.forget(dispatchId);
    this.leaveQueue(held);
    this.releaseSlot(held);
  }

  private releaseSlot(held: HeldDispatch): void {
    if (this.gates.releaseSlot(held)) this.serve(held.destination.pool.group);
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
    if (!held.dispatch || !this.gates.takeSlot(held)) return false;
    this.begin(held, held.dispatch);
    return true;
  }

  private tick(): void {
    for (const [dispatchId] of this.reservations.takeDue()) this.resolved(dispatchId);
    if (this.gates.areDue()) this.serve();
    this.accepted.tick();
    this.recovered.tick();
  }
}
