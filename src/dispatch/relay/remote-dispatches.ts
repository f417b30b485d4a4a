// The owner's side of the relay: dispatches of this node's runs that workers of other nodes have, or that are on their
// way there. It hands them over, asks again, and finds out which are lost; it returns those to this node's own streams
// and asks the run about them.

import type { Dispatch, DispatchId, JsonObject } from "../../../machines/index.js";
import { performance } from "../../ambient.js";
import type { Bus } from "../../bus/bus.js";
import type { Reservation } from "../carrier.js";
import type { DispatchLimits } from "../limits.js";
import type { DispatchHolder } from "../workers.js";
import type { Batcher } from "./batcher.js";
import { mayHold, type RemoteClaim } from "./claims.js";
import type { Claimant, LocalStreams, Surrendered } from "./local-streams.js";
import type { Ask, HandOver, RollCall, Voucher, VoucherId } from "./messages.js";

export interface RemoteDispatchesOptions {
  readonly streams: Pick<LocalStreams, "send" | "cancel" | "resend">;
  readonly bus: Pick<Bus, "ask">;
  readonly batcher: Pick<Batcher, "add">;
  readonly limits: DispatchLimits;
  /** Database time, epoch milliseconds. */
  readonly now: () => number;
  /** Asks the run what it still owes of the dispatch. */
  readonly carry: (dispatch: Dispatch) => void;
}

interface Entry {
  readonly dispatchId: DispatchId;
  readonly nodeId: string;
  readonly workerId: string;
  readonly voucherId?: VoucherId;
  /** Absent: the offer is under way, and holds the voucher. */
  dispatch?: Dispatch;
  /** The worker has started the dispatch: its node learns of it and does not execute it again. */
  started: boolean;
  /** The node has said that it holds the dispatch. */
  held: boolean;
  tries: number;
  /** On the monotonic clock. */
  askedAt: number;
  cancelReason?: string;
}

type CommittedEntry = Entry & { dispatch: Dispatch };

/** How long after its deadline a dispatch is forgotten, resolved or not. */
const OVERDUE_MS = 10_000;
/** Dispatch ids in one roll call. */
const ROLL_CALL_IDS = 1_000;

export class RemoteDispatches {
  private readonly entries = new Map<DispatchId, Entry>();
  /** Dispatches with a question to their node that is not answered yet. */
  private readonly unanswered = new Set<CommittedEntry>();
  private peers: ReadonlySet<string> = new Set();
  private rollCallAt = 0;

  constructor(private readonly options: RemoteDispatchesOptions) {}

  get size(): number {
    return this.entries.size;
  }

  holds(dispatchId: DispatchId): boolean {
    return this.entries.has(dispatchId);
  }

  /** The worker at another node that has it, as far as is known here. */
  holder(dispatchId: DispatchId): DispatchHolder | undefined {
    const entry = this.entries.get(dispatchId);
    return isCommitted(entry) ? { workerId: entry.workerId } : undefined;
  }

  /** The credit that an offer under way holds for this dispatch. */
  reserved(dispatchId: DispatchId): Reservation | undefined {
    const entry = this.entries.get(dispatchId);
    return entry && !entry.dispatch ? { workerId: entry.workerId } : undefined;
  }

  /** Sets the voucher aside for this dispatch. */
  reserve(dispatchId: DispatchId, nodeId: string, { id: voucherId, worker_id: workerId }: Voucher): Reservation {
    const fresh = { started: false, held: false, tries: 0, askedAt: 0 };
    this.entries.set(dispatchId, { dispatchId, nodeId, workerId, voucherId, ...fresh });
    return { workerId };
  }

  send(dispatch: Dispatch): void {
    const entry = this.entries.get(dispatch.dispatchId);
    if (!entry || entry.dispatch) return;
    const committed: CommittedEntry = Object.assign(entry, { dispatch });
    if (this.peers.has(entry.nodeId)) this.handOver(committed);
    else this.returnUnstarted(committed);
  }

  /** A worker of the claim's node holds the dispatch, or credit is kept for it there. */
  bind({ dispatch, cancelReason }: Surrendered, { node_id: nodeId, worker_id: workerId, how }: RemoteClaim): void {
    const { dispatchId } = dispatch;
    const fresh = { started: how !== "kept", held: false, tries: 0, askedAt: 0 };
    const entry: CommittedEntry = { dispatchId, nodeId, workerId, dispatch, ...fresh };
    if (cancelReason !== undefined) entry.cancelReason = cancelReason;
    this.entries.set(dispatchId, entry);
    this.handOver(entry);
  }

  /** A claim by a worker of another node. False: the dispatch is not at another node. */
  claimed(claim: RemoteClaim): boolean {
    const entry = this.entries.get(claim.dispatch_id);
    if (!entry) return false;
    if (!isCommitted(entry) || claim.how === "kept" || !mayHold(claim, entry.dispatch)) return true;
    // Also when its worker has a new stream to the same node: that node may have given the dispatch up without our
    // hearing of it.
    const isBrought = claim.how === "brought" && claim.worker_id === entry.workerId;
    if (isBrought || !this.peers.has(entry.nodeId)) {
      this.forget(entry);
      if (entry.nodeId !== claim.node_id) this.tellResolved(entry);
      this.bind(entry, claim);
    }
    return true;
  }

  /** Gives up a dispatch that this worker has brought to a stream of this node. */
  surrender(dispatchId: DispatchId, claimant: Claimant): Surrendered | undefined {
    const entry = this.entries.get(dispatchId);
    if (!isCommitted(entry) || (entry.workerId !== claimant.workerId && this.peers.has(entry.nodeId))) return undefined;
    if (!mayHold(claimant, entry.dispatch)) return undefined;
    this.forget(entry);
    this.tellResolved(entry);
    return entry;
  }

  cancel(dispatchId: DispatchId, reason: string): void {
    const entry = this.entries.get(dispatchId);
    if (!isCommitted(entry)) return;
    entry.cancelReason = reason;
    if (entry.held) this.askCancel(entry);
  }

  resolved(dispatchId: DispatchId): void {
    const entry = this.entries.get(dispatchId);
    if (!entry) return;
    this.forget(entry);
    if (isCommitted(entry)) this.tellResolved(entry);
    else this.returnVoucher(entry);
  }

  /** The node says that the streams of these dispatches are gone. */
  streamsLost(nodeId: string, dispatchIds: readonly DispatchId[]): void {
    for (const dispatchId of dispatchIds) {
      const entry = this.entries.get(dispatchId);
      if (entry?.nodeId === nodeId && isCommitted(entry)) this.recover(entry);
    }
  }

  placed(peers: ReadonlySet<string>, isMine: (dispatchId: DispatchId) => boolean): void {
    this.peers = peers;
    for (const entry of [...this.entries.values()]) {
      if (isMine(entry.dispatchId)) {
        if (isCommitted(entry) && !peers.has(entry.nodeId)) this.recover(entry);
        continue;
      }
      // The new owner learns of it from the node that holds it.
      this.forget(entry);
      if (!entry.dispatch) this.returnVoucher(entry);
    }
  }

  tick(): void {
    const { limits, now } = this.options;
    const due = performance.now() - limits.handOverMs;
    for (const entry of [...this.unanswered]) {
      if (entry.askedAt > due) continue;
      if (entry.dispatch.deadlineAt <= now()) this.unanswered.delete(entry);
      else if (entry.held) this.askCancel(entry);
      else if (entry.tries < limits.handOverTries) this.handOver(entry);
      else this.recover(entry);
    }
    if (performance.now() >= this.rollCallAt) this.callRoll();
  }

  clear(): void {
    this.entries.clear();
    this.unanswered.clear();
  }

  private handOver(entry: CommittedEntry): void {
    const { dispatch, started, voucherId } = entry;
    const { call } = dispatch;
    entry.tries++;
    const handOver: HandOver = {
      kind: "dispatch.hand",
      // A started dispatch is not executed there, so its inputs are not needed.
      dispatch: started ? { ...dispatch, call: { ...call, inputs: {} } } : dispatch,
      begun: started,
      ...(voucherId === undefined ? {} : { voucher_id: voucherId }),
    };
    void this.ask(entry, handOver).then((reply) => {
      if (reply?.whereabouts === "held") this.onHeld(entry);
      else if (reply?.whereabouts === "never") this.returnUnstarted(entry);
      else if (reply) this.recover(entry);
    });
  }

  private onHeld(entry: CommittedEntry): void {
    entry.held = true;
    this.unanswered.delete(entry);
    if (entry.cancelReason !== undefined) this.askCancel(entry);
  }

  private askCancel(entry: CommittedEntry): void {
    const { dispatchId, cancelReason: reason = "cancelled" } = entry;
    void this.ask(entry, { kind: "dispatch.cancel", dispatch_id: dispatchId, reason }).then((reply) => {
      if (reply) this.unanswered.delete(entry);
    });
  }

  /**
   * Resolves with undefined if there is no answer, or if the dispatch was resolved or moved meanwhile. Without an
   * answer, a tick asks again after `handOverMs`.
   */
  private async ask(entry: CommittedEntry, ask: Ask): Promise<JsonObject | undefined> {
    const { bus, limits } = this.options;
    entry.askedAt = performance.now();
    this.unanswered.add(entry);
    const reply = await bus.ask(entry.nodeId, ask, limits.handOverMs);
    return this.isCurrent(entry) ? reply : undefined;
  }

  /** Asks every node which of its dispatches it has lost: its message about them may be lost as well. */
  private callRoll(): void {
    this.rollCallAt = performance.now() + this.options.limits.rollCallMs;
    this.forgetOverdue();
    const rolls = new Map<string, CommittedEntry[]>();
    for (const entry of this.entries.values()) {
      if (!isCommitted(entry) || !entry.held) continue;
      const roll = rolls.get(entry.nodeId) ?? [];
      roll.push(entry);
      rolls.set(entry.nodeId, roll);
    }
    for (const [nodeId, roll] of rolls)
      for (let from = 0; from < roll.length; from += ROLL_CALL_IDS)
        void this.recoverMissing(nodeId, roll.slice(from, from + ROLL_CALL_IDS));
  }

  private forgetOverdue(): void {
    const overdue = this.options.now() - OVERDUE_MS;
    for (const entry of [...this.entries.values()])
      if (isCommitted(entry) && entry.dispatch.deadlineAt < overdue) this.resolved(entry.dispatchId);
  }

  private async recoverMissing(nodeId: string, entries: readonly CommittedEntry[]): Promise<void> {
    const { bus, limits } = this.options;
    const dispatchIds = entries.map(({ dispatchId }) => dispatchId);
    const ask: RollCall = { kind: "dispatch.roll_call", dispatch_ids: dispatchIds };
    const { missing } = (await bus.ask(nodeId, ask, limits.handOverMs)) ?? {};
    if (!Array.isArray(missing)) return;
    const gone = new Set(missing);
    for (const entry of entries) if (gone.has(entry.dispatchId) && this.isCurrent(entry)) this.recover(entry);
  }

  /** A worker may have started it: that worker has time to claim it here, and the run may know that it is done. */
  private recover(entry: CommittedEntry): void {
    const { streams, carry } = this.options;
    this.forget(entry);
    streams.send(entry.dispatch);
    if (entry.cancelReason !== undefined) streams.cancel(entry.dispatchId, entry.cancelReason);
    carry(entry.dispatch);
  }

  /** No worker has started it: it goes to any worker at once, or to none if it is cancelled. */
  private returnUnstarted(entry: CommittedEntry): void {
    if (entry.cancelReason !== undefined) return this.recover(entry);
    this.forget(entry);
    this.options.streams.resend(entry.dispatch);
  }

  private tellResolved({ nodeId, dispatchId }: Entry): void {
    this.options.batcher.add(nodeId, "dispatch.resolved", dispatchId);
  }

  private returnVoucher({ nodeId, voucherId }: Entry): void {
    if (voucherId !== undefined) this.options.batcher.add(nodeId, "dispatch.return", voucherId);
  }

  private isCurrent(entry: Entry): boolean {
    return this.entries.get(entry.dispatchId) === entry;
  }

  private forget(entry: Entry): void {
    this.entries.delete(entry.dispatchId);
    if (isCommitted(entry)) this.unanswered.delete(entry);
  }
}

function isCommitted(entry: Entry | undefined): entry is CommittedEntry {
  return entry?.dispatch !== undefined;
}
