// What other nodes are to be told, gathered for one turn of the event loop: many small things become one message. Nothing in
// it is kept or repeated: what must not be lost does not travel this way.

import type { JsonObject } from "../../../machines/index.js";
import type { Bus } from "../../bus/bus.js";
import type { Tells } from "./messages.js";

/** Keeps a message far below what the bus takes. */
const ITEMS = 1_000;

export class Mailbag {
  readonly #bags = new Map<string, Map<keyof Tells, unknown[]>>();
  #scheduled = false;

  constructor(private readonly bus: Pick<Bus, "tell">) {}

  put<K extends keyof Tells>(nodeId: string, kind: K, item: Tells[K]): void {
    const bag = this.#bags.get(nodeId) ?? new Map<keyof Tells, unknown[]>();
    this.#bags.set(nodeId, bag);
    const items = bag.get(kind);
    if (items) items.push(item);
    else bag.set(kind, [item]);
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => this.flush());
  }

  /** At once, and whole: also where there is nothing to say any more. */
  state<K extends keyof Tells>(nodeId: string, kind: K, items: readonly Tells[K][]): void {
    this.bus.tell(nodeId, { kind, items: items as unknown as JsonObject[] });
  }

  flush(): void {
    this.#scheduled = false;
    for (const [nodeId, bag] of this.#bags) {
      for (const [kind, items] of bag) {
        for (let from = 0; from < items.length; from += ITEMS)
          this.bus.tell(nodeId, { kind, items: items.slice(from, from + ITEMS) as JsonObject[] });
      }
    }
    this.#bags.clear();
  }
}
