// What the relay asks of this node's streams: dispatches that come from other nodes, and those that go there. It decides
// nothing: which node a dispatch belongs to is the relay's matter.
import type { Dispatch } from "../../../machines/index.js";
import type { Begun, Near } from "../relay/near.js";
import type { ActionName, Reservation, Transport } from "../transport.js";
import { type Committed, isCommitted } from "./flight.js";
import type { Flights } from "./flights.js";

export class Guests implements Near {
  constructor(
    private readonly flights: Flights,
    private readonly transport: Pick<Transport, "send" | "cancel" | "resolved" | "holds">,
  ) {}

  send(dispatch: Dispatch): void {
    this.transport.send(dispatch);
  }

  cancel(dispatchId: string, reason: string): void {
    this.transport.cancel(dispatchId, reason);
  }

  resolved(id: string): void {
    this.transport.resolved(id);
  }

  holds(dispatchId: string): boolean {
    return this.transport.holds(dispatchId);
  }

  serves(name: ActionName): boolean {
    return this.flights.roster.serves(name);
  }

  reserve(id: string, name: ActionName): Reservation | undefined {
    return this.flights.reserve(id, name);
  }

  redeem(id: string, dispatch: Dispatch): boolean {
    const { flights } = this;
    const reserved = flights.get(id);
    const stream = reserved?.stream;
    if (flights.stopping || !stream || reserved.dispatch || flights.expired(dispatch)) return false;
    // It may have been reserved here in its own name as well.
    if (id !== dispatch.dispatchId) flights.resolve(dispatch.dispatchId);
    flights.forget(reserved);
    stream.slots.delete(id);
    flights.execute({ ...unbound(dispatch), guest: true }, stream);
    return true;
  }

  adopt(dispatch: Dispatch): boolean {
    const { flights } = this;
    const { dispatchId } = dispatch;
    if (flights.stopping || flights.get(dispatchId) || !flights.claimant(dispatchId)) return false;
    flights.sendUnknown({ ...unbound(dispatch), guest: true });
    return true;
  }

  carries(dispatchId: string): boolean {
    return isCommitted(this.flights.get(dispatchId));
  }

  surrender(dispatchId: string, workerId: string | undefined): Begun | undefined {
    const flight = this.flights.get(dispatchId);
    if (!isCommitted(flight) || flight.guest) return undefined;
    const { stream, dispatch, cancelReason } = flight;
    if (stream && stream.workerId !== workerId) return undefined;
    this.flights.forget(flight);
    if (stream) this.flights.release(stream, dispatchId);
    return { dispatch, ...(cancelReason === undefined ? {} : { cancelReason }) };
  }

  sendAgain(dispatch: Dispatch): void {
    const { flights } = this;
    if (flights.stopping || flights.expired(dispatch) || flights.get(dispatch.dispatchId)) return;
    flights.sendAgain(unbound(dispatch));
  }

  waiting(): IterableIterator<readonly [name: ActionName, waiting: number]> {
    return this.flights.lost.waiting();
  }

  takeLost(name: ActionName, fits: (dispatch: Dispatch) => boolean): Dispatch | undefined {
    const { flights } = this;
    const flight = flights.lost.takeFirst(name, ({ dispatch }) => !flights.expired(dispatch) && fits(dispatch));
    if (flight) flights.forget(flight);
    return flight?.dispatch;
  }

  *bound(): IterableIterator<readonly [id: string, workerId: string, begun: boolean]> {
    for (const { id, stream, dispatch } of this.flights.all())
      if (stream) yield [id, stream.workerId, dispatch !== undefined];
  }

  forgetLost(isMine: (dispatchId: string) => boolean): void {
    for (const flight of [...this.flights.all()])
      if (flight.dispatch && !flight.stream && !isMine(flight.id)) this.flights.forget(flight);
  }
}

function unbound(dispatch: Dispatch): Committed {
  return { id: dispatch.dispatchId, name: dispatch.call, dispatch, stream: undefined };
}
