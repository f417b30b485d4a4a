// Collects the items for other nodes during one turn of the event loop and sends those of one kind and node as one
// message. It keeps and repeats nothing: what must not be lost does not travel this way.
import { setImmediate } from "../../ambient.js";
import type { Bus } from "../../bus/bus.js";
import type { Tells } from "./messages.js";

type Kind = keyof Tells;

/** Keeps a message far below what the bus takes. */
const ITEMS_PER_MESSAGE = 1_000;

export class Batcher {
  private readonly batches = new Map<string, Map<Kind, unknown[]>>();
  private scheduled = false;

  constructor(private readonly bus: Pick<Bus, "tell">) {}

  add<K extends Kind>(nodeId: string, kind: K, item: Tells[K]): void {
    const batch = this.batches.get(nodeId) ?? new Map<Kind, unknown[]>();
    this.batches.set(nodeId, batch);
    const items = batch.get(kind);
    if (items) items.push(item);
    else batch.set(kind, [item]);
    if (this.scheduled) return;
    this.scheduled = true;
    setImmediate(() => this.flush());
  }

  /** Sends these items at once, as one message, even if there are none. */
  sendNow<K extends Kind>(nodeId: string, kind: K, items: readonly Tells[K][]): void {
    this.bus.tell(nodeId, { kind, items });
  }

  flush(): void {
    this.scheduled = false;
    for (const [nodeId, batch] of this.batches) {
      for (const [kind, items] of batch) {
        for (let from = 0; from < items.length; from += ITEMS_PER_MESSAGE)
          this.bus.tell(nodeId, { kind, items: items.slice(from, from + ITEMS_PER_MESSAGE) });
      }
    }
    this.batches.clear();
  }
}
