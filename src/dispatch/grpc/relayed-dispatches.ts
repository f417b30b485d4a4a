// Dispatches that come to this node's streams from other nodes, and those that leave for other nodes. It decides
// nothing: which node a dispatch belongs to is the relay's decision.

import type { Dispatch, DispatchId } from "../../../machines/index.js";
import type { Reservation } from "../carrier.js";
import { mayHold } from "../relay/claims.js";
import type { LocalStreams, Surrendered } from "../relay/local-streams.js";
import type { Claim, ReservationId } from "../relay/messages.js";
import type { ActionName, WaitingCount } from "../workers.js";
import { type InFlight, isCommitted } from "./in-flight.js";

export class RelayedDispatches implements LocalStreams {
  constructor(private readonly inFlight: InFlight) {}

  send(dispatch: Dispatch): void {
    this.inFlight.send(dispatch);
  }

  cancel(dispatchId: DispatchId, reason: string): void {
    this.inFlight.cancel(dispatchId, reason);
  }

  resolved(id: ReservationId): void {
    this.inFlight.resolve(id);
  }

  holds(dispatchId: DispatchId): boolean {
    return this.inFlight.get(dispatchId) !== undefined;
  }

  serves(name: ActionName): boolean {
    return this.inFlight.pool.serves(name);
  }

  reserve(id: ReservationId, name: ActionName): Reservation | undefined {
    return this.inFlight.reserve(id, name);
  }

  redeem(id: ReservationId, dispatch: Dispatch): boolean {
    const { inFlight } = this;
    const reserved = inFlight.get(id);
    const stream = reserved?.stream;
    if (inFlight.stopping || !stream || reserved.dispatch || inFlight.isExpired(dispatch)) return false;
    // Credit may have been reserved here under the dispatch's own id as well.
    if (id !== dispatch.dispatchId) inFlight.resolve(dispatch.dispatchId);
    inFlight.forget(reserved);
    stream.slots.delete(id);
    inFlight.execute({ ...inFlight.withoutStream(dispatch), relayed: true }, stream);
    return true;
  }

  adopt(dispatch: Dispatch): boolean {
    const { inFlight } = this;
    const { dispatchId } = dispatch;
    const adopted = { ...inFlight.withoutStream(dispatch), relayed: true };
    if (inFlight.stopping || inFlight.get(dispatchId) || !inFlight.claimant(dispatchId, adopted.name)) return false;
    inFlight.sendUnreserved(adopted);
    return true;
  }

  hasCommitted(dispatchId: DispatchId): boolean {
    return isCommitted(this.inFlight.get(dispatchId));
  }

  surrender(
    dispatchId: DispatchId,
    workerId: string | undefined,
    claim: Pick<Claim, "service" | "tenants">,
  ): Surrendered | undefined {
    const entry = this.inFlight.get(dispatchId);
    if (!isCommitted(entry) || entry.relayed || !mayHold(claim, entry.dispatch)) return undefined;
    const { stream, dispatch, cancelReason } = entry;
    if (stream && stream.workerId !== workerId) return undefined;
    this.inFlight.forget(entry);
    if (stream) this.inFlight.releaseCredit(stream, dispatchId);
    return { dispatch, ...(cancelReason === undefined ? {} : { cancelReason }) };
  }

  resend(dispatch: Dispatch): void {
    const { inFlight } = this;
    if (inFlight.stopping || inFlight.isExpired(dispatch) || inFlight.get(dispatch.dispatchId)) return;
    inFlight.resend(inFlight.withoutStream(dispatch));
  }

  unclaimedCounts(): IterableIterator<WaitingCount> {
    return this.inFlight.unclaimed.counts();
  }

  takeUnclaimed(name: ActionName, fits: (dispatch: Dispatch) => boolean): Dispatch | undefined {
    const { inFlight } = this;
    const entry = inFlight.unclaimed.takeFirst(name, ({ dispatch }) => !inFlight.isExpired(dispatch) && fits(dispatch));
    if (entry) inFlight.forget(entry);
    return entry?.dispatch;
  }

  *bound(): IterableIterator<readonly [id: ReservationId, workerId: string, committed: boolean]> {
    for (const { id, stream, dispatch } of this.inFlight.all())
      if (stream) yield [id, stream.workerId, dispatch !== undefined];
  }

  forgetForeign(isMine: (dispatchId: DispatchId) => boolean): void {
    for (const entry of [...this.inFlight.all()])
      if (entry.dispatch && !entry.stream && !isMine(entry.dispatch.dispatchId)) this.inFlight.forget(entry);
  }
}
