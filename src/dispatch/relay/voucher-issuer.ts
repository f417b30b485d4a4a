// The host's side of the relay: gives credit of this node's workers to other nodes, as vouchers, and executes the
// dispatches that they hand over. What happens to a dispatch that its worker lost is decided by the owner of its run.

import { type DispatchId, USUAL_PRIORITY } from "../../../machines/index.js";
import { performance } from "../../ambient.js";
import type { CreditWaiter } from "../carrier.js";
import { ExpiringMap } from "../expiring-map.js";
import { FairQueue } from "../fair-queue.js";
import type { DispatchLimits } from "../limits.js";
import { type ActionName, nameKey, nameOf, type WaitingLevel } from "../workers.js";
import type { Batcher } from "./batcher.js";
import type { LocalStreams } from "./local-streams.js";
import type { Demand, HandOver, Whereabouts } from "./messages.js";
import { newVoucherId, type VoucherId } from "./messages.js";

export interface VoucherIssuerOptions {
  readonly streams: LocalStreams;
  readonly batcher: Pick<Batcher, "add">;
  readonly limits: DispatchLimits;
  /** The calls of this node. A node that has no worker of its own for an action takes turns with them. */
  readonly queue: FairQueue<CreditWaiter>;
  /** Gives everything that waits for credit of the service its turn. */
  readonly serve: (service: string) => void;
}

/** One call of another node that waits for credit here. */
interface RemoteWaiter extends CreditWaiter {
  readonly id: string;
  readonly nodeId: string;
  readonly name: ActionName;
  readonly queue: FairQueue<CreditWaiter>;
  /** When the node's demand is forgotten unless it is repeated, on the monotonic clock. */
  until: number;
}

/** What a demand does not name by level: all of it, or dispatches whose worker is gone. It takes its turn with the usual level. */
const OF_NO_LEVEL = { priority: 0, weight: 1 };

export class VoucherIssuer {
  private readonly waiters = new Map<string, RemoteWaiter>();
  /** Waiters of nodes that have workers of their own: they get only idle credit. */
  private readonly idleQueue = new FairQueue<CreditWaiter>();
  /** Vouchers that were issued and not redeemed. */
  private readonly vouchers: ExpiringMap<true, VoucherId>;
  /** Dispatches that other nodes handed over, to recognise a repeat. */
  private readonly handedOver: ExpiringMap<true, DispatchId>;

  constructor(private readonly options: VoucherIssuerOptions) {
    const { voucherMs, handedOverMemoryMs, relayed } = options.limits;
    this.vouchers = new ExpiringMap(voucherMs);
    this.handedOver = new ExpiringMap(handedOverMemoryMs, 10 * relayed);
  }

  /** Replaces the node's demand: calls that it does not name any more leave the queue. */
  demanded(nodeId: string, demands: readonly Demand[]): void {
    const { limits, serve } = this.options;
    const until = performance.now() + 3 * limits.demandMs;
    for (const demand of demands.slice(0, limits.demands)) {
      this.demandedOne(nodeId, demand, until);
    }
    for (const waiter of this.waiters.values())
      if (waiter.nodeId === nodeId && waiter.until !== until) this.drop(waiter);
    for (const service of new Set(demands.map((demand) => demand.service))) serve(service);
  }

  private demandedOne(nodeId: string, demand: Demand, until: number): void {
    let left = Math.min(demand.calls, this.options.limits.vouchers);
    for (const level of [...(demand.levels ?? []), { ...OF_NO_LEVEL, calls: left }])
      for (let nth = 0; nth < level.calls && left > 0; nth++, left--) this.enqueue(nodeId, demand, level, nth, until);
  }

  /** Gives the credit that the calls of this node, and of nodes without workers, have left. */
  serveIdle(service: string | undefined): void {
    const tryServe = (waiter: CreditWaiter) => waiter.tryServe();
    if (service === undefined) this.idleQueue.serveAll(tryServe);
    else this.idleQueue.serve(service, tryServe);
  }

  returned(voucherIds: readonly VoucherId[]): void {
    for (const id of voucherIds) this.release(id);
  }

  /** A repeat gets the same answer and executes nothing. */
  accept({ dispatch, voucher_id: voucher, begun }: HandOver): Whereabouts {
    const { streams } = this.options;
    const { dispatchId } = dispatch;
    if (streams.hasCommitted(dispatchId)) {
      if (voucher !== undefined) this.release(voucher);
      return "held";
    }
    // Without a voucher, its credit was reserved here under the dispatch's own id.
    const accepted = begun ? streams.adopt(dispatch) : streams.redeem(voucher ?? dispatchId, dispatch);
    if (!accepted) return begun || this.handedOver.get(dispatchId) ? "gone" : "never";
    if (voucher !== undefined) this.vouchers.delete(voucher);
    this.handedOver.set(dispatchId, true);
    return "held";
  }

  cancel(dispatchId: DispatchId, reason: string): Whereabouts {
    const { streams } = this.options;
    streams.cancel(dispatchId, reason);
    return streams.hasCommitted(dispatchId) ? "held" : "gone";
  }

  missing(dispatchIds: readonly DispatchId[]): DispatchId[] {
    return dispatchIds.filter((id) => !this.options.streams.hasCommitted(id));
  }

  tick(): void {
    const now = performance.now();
    for (const waiter of this.waiters.values()) if (waiter.until <= now) this.drop(waiter);
    for (const [id] of this.vouchers.takeDue()) this.options.streams.resolved(id);
    this.handedOver.takeDue();
  }

  /** A waiter that is already in the queue keeps its place. */
  private enqueue(nodeId: string, demand: Demand, level: WaitingLevel, nth: number, until: number): void {
    const { alone } = demand;
    const { priority, weight } = level;
    const name = nameOf(demand);
    const id = `${nodeId} ${nameKey(name)} ${priority} ${nth} ${alone}`;
    const known = this.waiters.get(id);
    if (known) {
      known.until = until;
      return;
    }
    const queue = alone ? this.options.queue : this.idleQueue;
    const waiter: RemoteWaiter = { id, nodeId, name, queue, until, tryServe: () => this.issue(waiter) };
    this.waiters.set(id, waiter);
    queue.add(name, id, waiter, { nodeId, precedence: { priority: priority || USUAL_PRIORITY, weight } });
  }

  private issue({ id: waiterId, nodeId, name }: RemoteWaiter): boolean {
    const { streams, batcher } = this.options;
    const id = newVoucherId();
    const reservation = streams.reserve(id, name);
    if (!reservation) return false;
    this.waiters.delete(waiterId);
    this.vouchers.set(id, true);
    batcher.add(nodeId, "dispatch.vouchers", { ...name, id, worker_id: reservation.workerId ?? "" });
    return true;
  }

  /** Only a voucher that this node issued: any other id returns no credit here. */
  private release(id: VoucherId): void {
    if (!this.vouchers.get(id)) return;
    this.vouchers.delete(id);
    this.options.streams.resolved(id);
  }

  private drop({ id, name, queue }: RemoteWaiter): void {
    this.waiters.delete(id);
    queue.remove(name, id);
  }
}
