// Dispatches without a stream: first they wait to be claimed by whoever holds them, then for any worker with credit, ahead
// of everything new. It sends nothing and holds no timer: the transport asks.
import { Expiring } from "../expiring.js";
import type { ActionName } from "../transport.js";
import { WaitingLine } from "../waiting-line.js";
import type { Committed, Flight } from "./flight.js";

export class Lost {
  readonly #claimable: Expiring<Committed>;
  readonly #unclaimed = new WaitingLine<Committed>();

  constructor(claimWaitMs: number) {
    this.#claimable = new Expiring(claimWaitMs);
  }

  /** Its stream is gone, or never was here: its worker may come back and name it. */
  mayBeClaimed(flight: Committed): void {
    this.#claimable.set(flight.id, flight);
  }

  /** It goes to any worker. Tells whether it is the only one of its action: if not, others have found no credit. */
  unclaimed(flight: Committed): boolean {
    return this.#unclaimed.add(flight.name, flight.id, flight);
  }

  remove({ id, name }: Flight): void {
    this.#claimable.delete(id);
    this.#unclaimed.remove(name, id);
  }

  /** Those that nobody has claimed in time. */
  takeDue(): Committed[] {
    return this.#claimable.takeDue().map(([, flight]) => flight);
  }

  serve(service: string, take: (flight: Committed) => boolean): void {
    this.#unclaimed.serve(service, take);
  }

  takeFirst(name: ActionName, fits: (flight: Committed) => boolean): Committed | undefined {
    return this.#unclaimed.takeFirst(name, fits);
  }

  /** The actions of those that wait for any worker, and how many. */
  waiting(): IterableIterator<readonly [name: ActionName, waiting: number]> {
    return this.#unclaimed.own();
  }

  clear(): void {
    this.#claimable.clear();
    this.#unclaimed.clear();
  }
}
