// The addresses that this node has handed calls to, and the calls of which actions: what operators see of workers that open no stream. No
// call is dispatched by what it says.
import type { ActionCall } from "../../../machines/index.js";
import type { ConnectedWorker } from "../workers.js";
import { type ActionName, versionedAction } from "../workers.js";

/** Actions that are remembered. Above it the oldest is forgotten. */
const ACTIONS = 10_000;

/** One service at one address. Held by every dispatch that goes there. */
export interface Address {
  readonly service: string;
  readonly destination: string;
  readonly transport: ActionCall["transport"];
  readonly actions: Set<string>;
  /** When a dispatch was first taken there; epoch milliseconds. */
  since?: number;
  /** Dispatches that are tried, or accepted and not answered. */
  inFlight: number;
}

export class Addresses {
  private readonly byAction = new Map<string, Address>();
  private readonly known = new Map<string, Address>();

  /** The address of the call; from now on it is that of its action. */
  of({ service, action, version, transport }: ActionCall, destination: string): Address {
    const name = { service, action, version };
    const key = `${service} ${destination}`;
    const address = this.known.get(key) ?? { service, destination, transport, actions: new Set(), inFlight: 0 };
    this.known.set(key, address);
    if (this.byAction.get(keyOf(name)) !== address) this.learn(name, address);
    return address;
  }

  /** Where calls of the action went last. */
  ofAction(name: ActionName): Address | undefined {
    return this.byAction.get(keyOf(name));
  }

  *workers(maxInFlight: number): IterableIterator<ConnectedWorker> {
    for (const { service, destination: workerId, transport, actions, since, inFlight } of this.known.values())
      if (since !== undefined)
        yield { workerId, service, transport, actions: [...actions], since, inFlight, maxInFlight };
  }

  private learn(name: ActionName, address: Address): void {
    this.forget(keyOf(name));
    this.byAction.set(keyOf(name), address);
    address.actions.add(versionedAction(name));
    const [oldest] = this.byAction.keys();
    if (this.byAction.size > ACTIONS && oldest !== undefined) this.forget(oldest);
  }

  private forget(key: string): void {
    const address = this.byAction.get(key);
    this.byAction.delete(key);
    address?.actions.delete(key.slice(key.indexOf(" ") + 1));
    if (address?.actions.size === 0) this.known.delete(`${address.service} ${address.destination}`);
  }
}

const keyOf = (name: ActionName) => `${name.service} ${versionedAction(name)}`;
