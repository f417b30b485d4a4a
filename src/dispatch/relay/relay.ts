// The relay of one node: dispatches of its runs to workers of other nodes, and dispatches of others' runs to its own workers.
// It is the door of this folder: it hears the bus, states what is wanted, and keeps the time. A hint may be lost at any point.

import type { ActionCall, Dispatch, JsonObject, RunCommand } from "../../../machines/index.js";
import type { Bus } from "../../bus/bus.js";
import { shardOf } from "../../ids.js";
import { Expiring } from "../expiring.js";
import type { ActionName, DispatchLimits, Log, Reservation } from "../transport.js";
import type { WaitingLine } from "../waiting-line.js";
import { Away } from "./away.js";
import { Claims, type RemoteClaim } from "./claims.js";
import { Issuer, type Taker } from "./issuer.js";
import { Mailbag } from "./mailbag.js";
import { type Ask, askOf, itemsOf, type Voucher, type Want } from "./messages.js";
import type { Near } from "./near.js";

/** The other nodes, as this one sees them. */
export interface Peers {
  readonly bus: Pick<Bus, "ask" | "tell">;
  /** The node that a shard is placed on. */
  owner(shard: number): string;
}

export interface RelayHost {
  command(runId: string, command: RunCommand): Promise<unknown>;
  /** Credit may be there: whoever stands in the line gets a turn. */
  serve(service: string): void;
  /** Offers the first waiting call that fits what `reserve` gives for it. False: none fits. */
  offer(name: ActionName, fits: (call: ActionCall) => boolean, reserve: (dispatchId: string) => Reservation): boolean;
}

export interface RelayOptions {
  readonly nodeId: string;
  readonly peers: Peers;
  readonly near: Near;
  readonly line: WaitingLine<Taker>;
  readonly host: RelayHost;
  readonly limits: DispatchLimits;
  readonly log: Log;
  /** Database time, epoch milliseconds. */
  readonly now: () => number;
}

export class Relay {
  readonly #mailbag: Mailbag;
  readonly #away: Away;
  readonly #issuer: Issuer;
  readonly #claims: Claims;
  /** Vouchers that have come: one that comes again is not used again. */
  readonly #seen: Expiring<true>;
  readonly #ticker: NodeJS.Timeout;
  #peers: ReadonlySet<string> = new Set();
  #gathering: NodeJS.Timeout | undefined;
  #statedAt = 0;
  /** Whether the others have been told of wants that they must be told the end of. */
  #wants = false;
  #stopped = false;

  constructor(private readonly options: RelayOptions) {
    const { nodeId, peers, near, line, host, limits, now } = options;
    this.#mailbag = new Mailbag(peers.bus);
    const isMine = (dispatchId: string) => this.isMine(dispatchId);
    const ownerOf = (dispatchId: string) => this.#ownerOf(dispatchId);
    const mailbag = this.#mailbag;
    this.#claims = new Claims({ near, mailbag, limits, isMine, ownerOf });
    this.#issuer = new Issuer({ nodeId, near, mailbag, limits, line, serve: (service) => host.serve(service) });
    this.#away = new Away({ near, bus: peers.bus, mailbag, limits, now, carry: (dispatch) => this.#carry(dispatch) });
    this.#seen = new Expiring(2 * limits.voucherMs, 10 * limits.relayed);
    this.#ticker = setInterval(() => this.#tick(), limits.tickMs).unref();
  }

  // ---- for the dispatcher

  /** What an offer under way holds for it already. */
  reserved(dispatchId: string): Reservation | undefined {
    return this.#away.reserved(dispatchId);
  }

  /** False: it is none of the relay's, and goes to the streams of this node. */
  send(dispatch: Dispatch): boolean {
    const { dispatchId } = dispatch;
    if (this.#away.holds(dispatchId)) {
      this.#away.send(dispatch);
      return true;
    }
    if (this.options.near.holds(dispatchId)) return false;
    const claim = this.#claims.take(dispatchId);
    if (!claim || !this.#peers.has(claim.node_id)) return false;
    this.#away.bind({ dispatch }, claim);
    return true;
  }

  cancel(dispatchId: string, reason: string): void {
    this.#away.cancel(dispatchId, reason);
  }

  resolved(dispatchId: string): void {
    this.#away.resolved(dispatchId);
  }

  holds(dispatchId: string): boolean {
    return this.#away.holds(dispatchId);
  }

  isMine(dispatchId: string): boolean {
    return this.#ownerOf(dispatchId) === this.options.nodeId;
  }

  /** Somebody waits, and no worker of this node has credit. */
  want(): void {
    if (this.#gathering || this.#stopped || this.#peers.size === 0) return;
    this.#gathering = setTimeout(() => this.#stateWants(), this.options.limits.wantGatherMs).unref();
  }

  serveIdle(service: string | undefined): void {
    this.#issuer.serveIdle(service);
  }

  /** These nodes are alive, and the shards have gone to those they are placed on. */
  placed(nodeIds: readonly string[]): void {
    const { nodeId, near } = this.options;
    const isMine = (dispatchId: string) => this.isMine(dispatchId);
    this.#peers = new Set(nodeIds.filter((other) => other !== nodeId));
    this.#away.placed(this.#peers, isMine);
    near.forgetLost(isMine);
    this.#claims.repeat();
    this.want();
  }

  /** Says what is still to be told. Safe twice. */
  stop(): void {
    this.#stopped = true;
    clearInterval(this.#ticker);
    clearTimeout(this.#gathering);
    this.#away.clear();
    this.#mailbag.flush();
  }

  // ---- for the streams of this node

  /** A stream ended, and what it had is another node's to go on with, or came from one. */
  lost(dispatch: Dispatch): void {
    if (this.isMine(dispatch.dispatchId)) this.#carry(dispatch);
    else this.#mailbag.put(this.#ownerOf(dispatch.dispatchId), "dispatch.lost", dispatch.dispatchId);
  }

  /** A worker of this node holds what its streams do not know. */
  claimed(dispatchId: string, workerId: string): void {
    if (!this.isMine(dispatchId)) return this.#claims.forward(dispatchId, workerId);
    const begun = this.#away.surrender(dispatchId, workerId);
    if (!begun) return;
    this.options.near.send(begun.dispatch);
    if (begun.cancelReason !== undefined) this.options.near.cancel(dispatchId, begun.cancelReason);
  }

  // ---- for the bus

  /** Undefined: it was no question to a relay. */
  asked(request: JsonObject): JsonObject | undefined {
    const ask = askOf(request);
    return ask && this.#answer(ask);
  }

  told(message: JsonObject, from: string): void {
    const wants = itemsOf("dispatch.want", message);
    if (wants && this.#peers.has(from)) this.#issuer.wanted(from, wants);
    const vouchers = itemsOf("dispatch.vouchers", message);
    if (vouchers) this.#take(from, vouchers);
    this.#issuer.returned(itemsOf("dispatch.return", message) ?? []);
    for (const dispatchId of itemsOf("dispatch.resolved", message) ?? [])
      if (!this.isMine(dispatchId)) this.options.near.resolved(dispatchId);
    this.#away.lost(from, itemsOf("dispatch.lost", message) ?? []);
    for (const claim of itemsOf("dispatch.claim", message) ?? []) this.#claimedElsewhere({ ...claim, node_id: from });
  }

  #answer(ask: Ask): JsonObject {
    if (ask.kind === "dispatch.hand") return { whereabouts: this.#issuer.handed(ask) };
    if (ask.kind === "dispatch.cancel") return { whereabouts: this.#issuer.cancelled(ask.dispatch_id, ask.reason) };
    return { missing: this.#issuer.missing(ask.dispatch_ids) };
  }

  #take(from: string, vouchers: readonly Voucher[]): void {
    for (const voucher of vouchers) {
      if (this.#seen.get(voucher.id)) continue;
      this.#seen.set(voucher.id, true);
      if (!this.#use(from, voucher)) this.#mailbag.put(from, "dispatch.return", voucher.id);
    }
    this.want();
  }

  /** For what was lost, before what is new. */
  #use(from: string, voucher: Voucher): boolean {
    const { near, host, limits } = this.options;
    if (this.#stopped || !this.#peers.has(from) || this.#away.size >= limits.relayed) return false;
    const lost = near.takeLost(voucher, ({ call }) => this.#fits(call));
    if (!lost) {
      const reserve = (dispatchId: string) => this.#away.reserve(dispatchId, from, voucher);
      return host.offer(voucher, (call) => this.#fits(call), reserve);
    }
    this.#away.reserve(lost.dispatchId, from, voucher);
    this.#away.send(lost);
    return true;
  }

  #fits(call: ActionCall): boolean {
    return Buffer.byteLength(JSON.stringify(call)) <= this.options.limits.relayedBytes;
  }

  #claimedElsewhere(claim: RemoteClaim): void {
    const { near } = this.options;
    const { dispatch_id: dispatchId, worker_id: workerId, how } = claim;
    if (this.#away.claimed(claim)) return;
    // Of a stream here that seems to live: only its own worker, which has brought it elsewhere since.
    const surrendered = near.surrender(dispatchId, how === "brought" ? workerId : undefined);
    if (surrendered) this.#away.bind(surrendered, claim);
    else if (!near.holds(dispatchId)) this.#claims.remember(claim);
  }

  #carry({ runId, dispatchId }: Dispatch): void {
    this.options.host.command(runId, { type: "carry", dispatchId }).catch((error: unknown) => {
      // The outbox poll asks the same.
      this.options.log.debug({ err: error, dispatchId }, "a run did not say what it owes");
    });
  }

  #stateWants(): void {
    this.#gathering = undefined;
    this.#statedAt = performance.now();
    const wants = this.#wanted();
    if (wants.length === 0 && !this.#wants) return;
    this.#wants = wants.length > 0;
    for (const nodeId of this.#peers) this.#mailbag.state(nodeId, "dispatch.want", wants);
  }

  #wanted(): Want[] {
    const { near, line, limits } = this.options;
    const wants = new Map<string, Want>();
    for (const rows of [near.waiting(), line.own()]) {
      for (const [{ service, action, version }, waiting] of rows) {
        const key = `${service} ${action}@${version}`;
        if (wants.size >= limits.wants && !wants.has(key)) break;
        const calls = Math.min(waiting + (wants.get(key)?.calls ?? 0), limits.vouchers);
        const name = { service, action, version };
        wants.set(key, { ...name, calls, alone: !near.serves(name) });
      }
    }
    return [...wants.values()];
  }

  #ownerOf(dispatchId: string): string {
    return this.options.peers.owner(shardOf(dispatchId));
  }

  #tick(): void {
    this.#issuer.tick();
    this.#claims.tick();
    this.#away.tick();
    this.#seen.takeDue();
    if (performance.now() - this.#statedAt >= this.options.limits.wantMs) this.want();
  }
}
