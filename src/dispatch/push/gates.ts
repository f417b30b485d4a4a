// The destinations of one outlet: which of them take a dispatch now (a slot is free, and it is not away), and what operators see of them. It
// holds no dispatch: carrier.ts does.
import type { ActionCall } from "../../../machines/index.js";
import { RequestSlots } from "../request-slots.js";
import type { ActionName, ConnectedWorker, Obstacle } from "../workers.js";
import { type Address, Addresses } from "./addresses.js";
import { type AwayDestination, Destinations, type DestinationsOptions } from "./destinations.js";
import type { HeldDispatch } from "./held-dispatch.js";
import type { Delivery, Outlet } from "./outlet.js";

export interface GatesOptions extends DestinationsOptions {
  readonly outlet: Pick<Outlet, "isOpen" | "ownWork" | "away" | "busy">;
  /** Concurrent tries, in all and to one destination. */
  readonly slots: { readonly all: number; readonly each: number };
}

export class Gates {
  private readonly slots: RequestSlots;
  private readonly destinations: Destinations;
  private readonly addresses = new Addresses();

  constructor(private readonly options: GatesOptions) {
    const { all, each } = options.slots;
    this.slots = new RequestSlots(all, each);
    this.destinations = new Destinations(options);
  }

  addressOf(call: ActionCall, destination: string): Address {
    return this.addresses.of(call, destination);
  }

  takeSlot(held: HeldDispatch): boolean {
    const { key, holder } = held.destination;
    if (!this.options.outlet.isOpen || !this.destinations.admits(key) || !this.slots.take(holder)) return false;
    this.destinations.began(key);
    held.address.inFlight++;
    held.slot = true;
    return true;
  }

  /** False: it had none. */
  releaseSlot(held: HeldDispatch): boolean {
    if (!held.slot) return false;
    const { key, holder } = held.destination;
    this.slots.release(holder);
    this.destinations.ended(key);
    held.address.inFlight--;
    held.slot = false;
    return true;
  }

  /** What the try says of the destination. */
  judge({ destination: { key }, address }: HeldDispatch, delivery: Delivery): void {
    if (delivery.kind === "undelivered") return this.destinations.failed(key, delivery, delivery.afterMs);
    if (delivery.kind === "lost") return this.destinations.failed(key, delivery);
    this.destinations.reached(key);
    address.since ??= this.options.now();
  }

  /** Whether any that was away may be tried. */
  areDue(): boolean {
    return this.destinations.areDue();
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
}
