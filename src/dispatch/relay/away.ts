// The owner's side of the relay: dispatches that are with workers of other nodes, or on their way there. It hands them over,
// asks again, and finds out when they are lost; then it gives them back to this node's own streams, and asks the run.

import type { Dispatch, JsonObject } from "../../../machines/index.js";
import type { Bus } from "../../bus/bus.js";
import type { DispatchLimits, Reservation } from "../transport.js";
import type { RemoteClaim } from "./claims.js";
import type { Mailbag } from "./mailbag.js";
import type { Ask, Hand, Voucher } from "./messages.js";
import type { Begun, Near } from "./near.js";

export interface AwayOptions {
  readonly near: Near;
  readonly bus: Pick<Bus, "ask">;
  readonly mailbag: Pick<Mailbag, "put">;
  readonly limits: DispatchLimits;
  /** Database time, epoch milliseconds. */
  readonly now: () => number;
  /** The run is to say what it still owes. */
  readonly carry: (dispatch: Dispatch) => void;
}

interface Flight {
  readonly dispatchId: string;
  readonly nodeId: string;
  readonly workerId: string;
  readonly voucherId?: string;
  /** Absent: the offer is under way, and holds the voucher. */
  dispatch?: Dispatch;
  /** The worker has it already: it is told to its node, not executed. */
  begun: boolean;
  held: boolean;
  tries: number;
  askedAt: number;
  cancelReason?: string;
}

type Committed = Flight & { dispatch: Dispatch };

/** How long after its deadline a dispatch is forgotten, resolved or not. */
const OVERDUE_MS = 10_000;
/** Ids in one roll call. */
const ROLL = 1_000;

export class Away {
  readonly #flights = new Map<string, Flight>();
  /** Those whose node has not answered yet. */
  readonly #owing = new Set<Committed>();
  #peers: ReadonlySet<string> = new Set();
  #rollCallAt = 0;

  constructor(private readonly options: AwayOptions) {}

  get size(): number {
    return this.#flights.size;
  }

  holds(dispatchId: string): boolean {
    return this.#flights.has(dispatchId);
  }

  /** What an offer for this dispatch holds already. */
  reserved(dispatchId: string): Reservation | undefined {
    const flight = this.#flights.get(dispatchId);
    return flight && !flight.dispatch ? { workerId: flight.workerId } : undefined;
  }

  /** The voucher is this dispatch's from now on. */
  reserve(dispatchId: string, nodeId: string, { id: voucherId, worker_id: workerId }: Voucher): Reservation {
    const fresh = { begun: false, held: false, tries: 0, askedAt: 0 };
    this.#flights.set(dispatchId, { dispatchId, nodeId, workerId, voucherId, ...fresh });
    return { workerId };
  }

  send(dispatch: Dispatch): void {
    const flight = this.#flights.get(dispatch.dispatchId);
    if (!flight || flight.dispatch) return;
    const committed: Committed = Object.assign(flight, { dispatch });
    if (this.#peers.has(flight.nodeId)) this.#hand(committed);
    else this.#giveBack(committed);
  }

  /** A worker of that node holds it, or is kept free for it. */
  bind({ dispatch, cancelReason }: Begun, { node_id: nodeId, worker_id: workerId, how }: RemoteClaim): void {
    const { dispatchId } = dispatch;
    const begun = how !== "kept";
    const flight: Committed = { dispatchId, nodeId, workerId, dispatch, begun, held: false, tries: 0, askedAt: 0 };
    if (cancelReason !== undefined) flight.cancelReason = cancelReason;
    this.#flights.set(dispatchId, flight);
    this.#hand(flight);
  }

  /** A claim of a dispatch that is away. False: it is not. */
  claimed(claim: RemoteClaim): boolean {
    const flight = this.#flights.get(claim.dispatch_id);
    if (!flight) return false;
    if (!isCommitted(flight) || claim.how === "kept") return true;
    // To another stream of the node where it was, too: that node may have given it up, and not be heard yet.
    const isBrought = claim.how === "brought" && claim.worker_id === flight.workerId;
    if (isBrought || !this.#peers.has(flight.nodeId)) {
      this.#forget(flight);
      if (flight.nodeId !== claim.node_id) this.#tellResolved(flight);
      this.bind(flight, claim);
    }
    return true;
  }

  /** Gives up a dispatch that this worker has brought to a stream of this node. */
  surrender(dispatchId: string, workerId: string): Begun | undefined {
    const flight = this.#flights.get(dispatchId);
    if (!isCommitted(flight) || (flight.workerId !== workerId && this.#peers.has(flight.nodeId))) return undefined;
    this.#forget(flight);
    this.#tellResolved(flight);
    return flight;
  }

  cancel(dispatchId: string, reason: string): void {
    const flight = this.#flights.get(dispatchId);
    if (!isCommitted(flight)) return;
    flight.cancelReason = reason;
    if (flight.held) this.#tellCancel(flight);
  }

  resolved(dispatchId: string): void {
    const flight = this.#flights.get(dispatchId);
    if (!flight) return;
    this.#forget(flight);
    if (isCommitted(flight)) this.#tellResolved(flight);
    else this.#returnVoucher(flight);
  }

  /** That node says that their streams are gone. */
  lost(nodeId: string, dispatchIds: readonly string[]): void {
    for (const dispatchId of dispatchIds) {
      const flight = this.#flights.get(dispatchId);
      if (flight?.nodeId === nodeId && isCommitted(flight)) this.#lose(flight);
    }
  }

  placed(peers: ReadonlySet<string>, isMine: (dispatchId: string) => boolean): void {
    this.#peers = peers;
    for (const flight of [...this.#flights.values()]) {
      if (isMine(flight.dispatchId)) {
        if (isCommitted(flight) && !peers.has(flight.nodeId)) this.#lose(flight);
        continue;
      }
      // Its new owner hears of it from the node that holds it.
      this.#forget(flight);
      if (!flight.dispatch) this.#returnVoucher(flight);
    }
  }

  tick(): void {
    const due = performance.now() - this.options.limits.handMs;
    for (const flight of [...this.#owing]) {
      if (flight.askedAt > due) continue;
      if (flight.dispatch.deadlineAt <= this.options.now()) this.#owing.delete(flight);
      else if (flight.held) this.#tellCancel(flight);
      else if (flight.tries < this.options.limits.handTries) this.#hand(flight);
      else this.#lose(flight);
    }
    if (performance.now() >= this.#rollCallAt) this.#callRoll();
  }

  clear(): void {
    this.#flights.clear();
    this.#owing.clear();
  }

  #hand(flight: Committed): void {
    const { dispatch, begun, voucherId } = flight;
    const { call } = dispatch;
    flight.tries++;
    const hand: Hand = {
      kind: "dispatch.hand",
      // Nobody begins it there: what its inputs were is of no use.
      dispatch: begun ? { ...dispatch, call: { ...call, inputs: {} } } : dispatch,
      begun,
      ...(voucherId === undefined ? {} : { voucher_id: voucherId }),
    };
    void this.#ask(flight, hand).then((reply) => {
      if (reply?.whereabouts === "held") this.#accepted(flight);
      else if (reply?.whereabouts === "never") this.#giveBack(flight);
      else if (reply) this.#lose(flight);
    });
  }

  #accepted(flight: Committed): void {
    flight.held = true;
    this.#owing.delete(flight);
    if (flight.cancelReason !== undefined) this.#tellCancel(flight);
  }

  #tellCancel(flight: Committed): void {
    const cancel: Ask = {
      kind: "dispatch.cancel",
      dispatch_id: flight.dispatchId,
      reason: flight.cancelReason ?? "cancelled",
    };
    void this.#ask(flight, cancel).then((reply) => {
      if (reply) this.#owing.delete(flight);
    });
  }

  /** Without an answer the next tick after `handMs` asks again. What was resolved or moved meanwhile has none. */
  async #ask(flight: Committed, ask: Ask): Promise<JsonObject | undefined> {
    const { bus, limits } = this.options;
    flight.askedAt = performance.now();
    this.#owing.add(flight);
    const reply = await bus.ask(flight.nodeId, ask as unknown as JsonObject, limits.handMs);
    return this.#isCurrent(flight) ? reply : undefined;
  }

  /** Which of them their nodes have lost without our hearing of it. */
  #callRoll(): void {
    this.#rollCallAt = performance.now() + this.options.limits.rollCallMs;
    const overdue = this.options.now() - OVERDUE_MS;
    const rolls = new Map<string, Committed[]>();
    for (const flight of [...this.#flights.values()]) {
      if (!isCommitted(flight)) continue;
      if (flight.dispatch.deadlineAt < overdue) this.resolved(flight.dispatchId);
      else if (flight.held) {
        const roll = rolls.get(flight.nodeId) ?? [];
        roll.push(flight);
        rolls.set(flight.nodeId, roll);
      }
    }
    for (const [nodeId, flights] of rolls)
      for (let from = 0; from < flights.length; from += ROLL) void this.#call(nodeId, flights.slice(from, from + ROLL));
  }

  async #call(nodeId: string, flights: readonly Committed[]): Promise<void> {
    const { bus, limits } = this.options;
    const ask = { kind: "dispatch.roll_call", dispatch_ids: flights.map(({ dispatchId }) => dispatchId) };
    const { missing } = (await bus.ask(nodeId, ask, limits.handMs)) ?? {};
    if (!Array.isArray(missing)) return;
    const gone = new Set(missing);
    for (const flight of flights) if (gone.has(flight.dispatchId) && this.#isCurrent(flight)) this.#lose(flight);
  }

  /** It may have been begun: whoever holds it has its time to claim it, and the run may know that it is done. */
  #lose(flight: Committed): void {
    const { near, carry } = this.options;
    this.#forget(flight);
    near.send(flight.dispatch);
    if (flight.cancelReason !== undefined) near.cancel(flight.dispatchId, flight.cancelReason);
    carry(flight.dispatch);
  }

  /** Nobody has begun it: it goes to any worker at once, a cancelled one to none. */
  #giveBack(flight: Committed): void {
    if (flight.cancelReason !== undefined) return this.#lose(flight);
    this.#forget(flight);
    this.options.near.sendAgain(flight.dispatch);
  }

  #tellResolved({ nodeId, dispatchId }: Flight): void {
    this.options.mailbag.put(nodeId, "dispatch.resolved", dispatchId);
  }

  #returnVoucher({ nodeId, voucherId }: Flight): void {
    if (voucherId !== undefined) this.options.mailbag.put(nodeId, "dispatch.return", voucherId);
  }

  #isCurrent(flight: Flight): boolean {
    return this.#flights.get(flight.dispatchId) === flight;
  }

  #forget(flight: Flight): void {
    this.#flights.delete(flight.dispatchId);
    if (isCommitted(flight)) this.#owing.delete(flight);
  }
}

function isCommitted(flight: Flight | undefined): flight is Committed {
  return flight?.dispatch !== undefined;
}
