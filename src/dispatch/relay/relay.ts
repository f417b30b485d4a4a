// The relay of one node: dispatches of its runs to workers of other nodes, and dispatches of other nodes' runs to its
// own workers. It receives the bus messages, keeps the time and routes between the parts of this folder. Any message
// may be lost.

import type { ActionCall, Dispatch, DispatchId } from "../../../machines/index.js";
import { clearInterval, setInterval } from "../../ambient.js";
import type { Log } from "../../log.js";
import type { CarrierHost, CreditSharing, Reservation } from "../carrier.js";
import { ExpiringMap } from "../expiring-map.js";
import type { DispatchLimits } from "../limits.js";
import type { Ownership, Peers } from "../ownership.js";
import type { DispatchHolder } from "../workers.js";
import { Batcher } from "./batcher.js";
import { Claims, mayHold, type RemoteClaim } from "./claims.js";
import { DemandAnnouncer } from "./demand.js";
import type { Claimant, LocalStreams } from "./local-streams.js";
import type { Ask, Tell, Voucher, VoucherId } from "./messages.js";
import { RemoteDispatches } from "./remote-dispatches.js";
import { VoucherIssuer } from "./voucher-issuer.js";

export interface RelayOptions {
  readonly nodeId: string;
  readonly bus: Peers["bus"];
  readonly ownership: Ownership;
  readonly streams: LocalStreams;
  readonly host: CarrierHost;
  readonly limits: DispatchLimits;
  readonly log: Log;
  /** Database time, epoch milliseconds. */
  readonly now: () => number;
}

export class Relay implements CreditSharing {
  private readonly batcher: Batcher;
  private readonly remote: RemoteDispatches;
  private readonly issuer: VoucherIssuer;
  private readonly claims: Claims;
  private readonly demand: DemandAnnouncer;
  /** Vouchers that have arrived: a repeat is not used again. */
  private readonly seen: ExpiringMap<true, VoucherId>;
  private readonly ticker: NodeJS.Timeout;
  private peers: ReadonlySet<string> = new Set();
  private stopped = false;

  constructor(private readonly options: RelayOptions) {
    const { bus, host, limits } = options;
    const batcher = new Batcher(bus);
    const shared = { ...options, batcher, queue: host.queue };
    this.batcher = batcher;
    this.claims = new Claims(shared);
    this.issuer = new VoucherIssuer({ ...shared, serve: (service) => host.creditFreed(service) });
    this.remote = new RemoteDispatches({ ...shared, carry: (dispatch) => this.carry(dispatch) });
    this.demand = new DemandAnnouncer(shared);
    this.seen = new ExpiringMap(2 * limits.voucherMs, 10 * limits.relayed);
    this.ticker = setInterval(() => this.tick(), limits.tickMs).unref();
  }

  // ---- for the carrier

  /** The credit that an offer under way holds for the dispatch. */
  reserved(dispatchId: DispatchId): Reservation | undefined {
    return this.remote.reserved(dispatchId);
  }

  /** False: the dispatch is not at another node, and goes to the streams of this one. */
  send(dispatch: Dispatch): boolean {
    const { dispatchId } = dispatch;
    if (this.remote.holds(dispatchId)) {
      this.remote.send(dispatch);
      return true;
    }
    if (this.options.streams.holds(dispatchId)) return false;
    const claim = this.claims.take(dispatchId);
    if (!claim || !this.peers.has(claim.node_id) || !mayHold(claim, dispatch)) return false;
    this.remote.bind({ dispatch }, claim);
    return true;
  }

  cancel(dispatchId: DispatchId, reason: string): void {
    this.remote.cancel(dispatchId, reason);
  }

  resolved(dispatchId: DispatchId): void {
    this.remote.resolved(dispatchId);
  }

  holds(dispatchId: DispatchId): boolean {
    return this.remote.holds(dispatchId);
  }

  holder(dispatchId: DispatchId): DispatchHolder | undefined {
    return this.remote.holder(dispatchId);
  }

  /** Sends the batched messages. Safe to repeat. */
  stop(): void {
    this.stopped = true;
    clearInterval(this.ticker);
    this.demand.stop();
    this.remote.clear();
    this.batcher.flush();
  }

  // ---- for the streams of this node

  /**
   * A stream ended, and another node continues with its dispatch: that node owns the run, or handed the dispatch over.
   */
  streamLost(dispatch: Dispatch): void {
    const { ownership } = this.options;
    const { dispatchId } = dispatch;
    if (ownership.isMine(dispatchId)) this.carry(dispatch);
    else this.batcher.add(ownership.ownerOf(dispatchId), "dispatch.lost", dispatchId);
  }

  /** A worker of this node holds a dispatch that the streams here do not know. */
  claimed(dispatchId: DispatchId, by: Claimant): void {
    const { ownership, streams } = this.options;
    if (!ownership.isMine(dispatchId)) return this.claims.forward(dispatchId, by);
    const surrendered = this.remote.surrender(dispatchId, by);
    if (!surrendered) return;
    streams.send(surrendered.dispatch);
    if (surrendered.cancelReason !== undefined) streams.cancel(dispatchId, surrendered.cancelReason);
  }

  // ---- CreditSharing: for the dispatcher and the bus

  creditWanted(): void {
    this.demand.schedule();
  }

  creditLeft(service?: string): void {
    this.issuer.serveIdle(service);
  }

  placed(nodeIds: readonly string[]): void {
    const { nodeId, ownership, streams } = this.options;
    const isMine = (dispatchId: DispatchId) => ownership.isMine(dispatchId);
    this.peers = new Set(nodeIds.filter((other) => other !== nodeId));
    this.remote.placed(this.peers, isMine);
    streams.forgetForeign(isMine);
    this.claims.repeat();
    this.demand.placed(this.peers);
  }

  asked(ask: Ask): object {
    switch (ask.kind) {
      case "dispatch.hand":
        return { whereabouts: this.issuer.accept(ask) };
      case "dispatch.cancel":
        return { whereabouts: this.issuer.cancel(ask.dispatch_id, ask.reason) };
      case "dispatch.roll_call":
        return { missing: this.issuer.missing(ask.dispatch_ids) };
    }
  }

  told({ kind, items }: Tell, from: string): void {
    switch (kind) {
      case "dispatch.want":
        if (this.peers.has(from)) this.issuer.demanded(from, items);
        return;
      case "dispatch.vouchers":
        return this.receiveVouchers(from, items);
      case "dispatch.return":
        return this.issuer.returned(items);
      case "dispatch.resolved":
        return this.resolvedElsewhere(items);
      case "dispatch.lost":
        return this.remote.streamsLost(from, items);
      case "dispatch.claim":
        for (const claim of items) this.claimedElsewhere({ ...claim, node_id: from });
    }
  }

  private receiveVouchers(from: string, vouchers: readonly Voucher[]): void {
    for (const voucher of vouchers) {
      if (this.seen.get(voucher.id)) continue;
      this.seen.set(voucher.id, true);
      if (!this.useVoucher(from, voucher)) this.batcher.add(from, "dispatch.return", voucher.id);
    }
    this.demand.schedule();
  }

  /** Uses a voucher for an unclaimed dispatch, before new calls. False: it has to be returned. */
  private useVoucher(from: string, voucher: Voucher): boolean {
    const { streams, host, limits } = this.options;
    if (this.stopped || !this.peers.has(from) || this.remote.size >= limits.relayed) return false;
    const unclaimed = streams.takeUnclaimed(voucher, ({ call }) => this.isRelayable(call));
    if (!unclaimed) {
      const reserve = (dispatchId: DispatchId) => this.remote.reserve(dispatchId, from, voucher);
      return host.offerFirst(voucher, (call) => this.isRelayable(call), reserve);
    }
    this.remote.reserve(unclaimed.dispatchId, from, voucher);
    this.remote.send(unclaimed);
    return true;
  }

  private isRelayable(call: ActionCall): boolean {
    return Buffer.byteLength(JSON.stringify(call)) <= this.options.limits.relayedBytes;
  }

  private resolvedElsewhere(dispatchIds: readonly DispatchId[]): void {
    const { ownership, streams } = this.options;
    for (const dispatchId of dispatchIds) if (!ownership.isMine(dispatchId)) streams.resolved(dispatchId);
  }

  private claimedElsewhere(claim: RemoteClaim): void {
    const { streams } = this.options;
    const { dispatch_id: dispatchId, worker_id: workerId, how } = claim;
    if (this.remote.claimed(claim)) return;
    // A stream here that seems to live gives the dispatch up only if its own worker has brought it to the other node
    // since.
    const surrendered = streams.surrender(dispatchId, how === "brought" ? workerId : undefined, claim);
    if (surrendered) this.remote.bind(surrendered, claim);
    else if (!streams.holds(dispatchId)) this.claims.remember(claim);
  }

  /** Asks the run what it still owes: the store is right. */
  private carry({ runId, dispatchId }: Dispatch): void {
    this.options.host.command(runId, { type: "carry", dispatchId }).catch((error: unknown) => {
      // The outbox poll asks the same.
      this.options.log.debug({ err: error, dispatchId }, "run could not be asked about a lost dispatch");
    });
  }

  private tick(): void {
    this.issuer.tick();
    this.claims.tick();
    this.remote.tick();
    this.seen.takeDue();
    this.demand.tick();
  }
}
