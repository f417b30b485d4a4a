// What one side of a stream sends. To a peer that reads batches, the messages of one turn of the event loop go out as one: a step with its answer and its
// acknowledgement takes 24 µs of both ends in batches of 20, and 78 µs in messages of their own.

/** Messages of a batch: it is handled in one piece, beside everything else in its process. */
export const BATCH_MESSAGES = 64;
/** Payloads of a batch. A larger one travels alone. */
const BATCH_BYTES = 262_144;

export interface OutgoingOptions<Item, Message> {
  /** False: the peer is slow to read. Nothing more is written until `resume`. */
  readonly write: (message: Message) => boolean;
  readonly batchOf: (items: Item[]) => Message;
  /** Bytes of its payload. */
  readonly weigh: (item: Item) => number;
}

/** `Item`: a message that may be in a batch. */
export class Outgoing<Item extends Message, Message> {
  /** The peer reads batches. */
  batches = false;
  private readonly items: Item[] = [];
  private isBlocked = false;
  private isDue = false;

  constructor(private readonly options: OutgoingOptions<Item, Message>) {}

  get blocked(): boolean {
    return this.isBlocked;
  }

  /** Messages that are not written yet. */
  get waiting(): number {
    return this.items.length;
  }

  /** Keeps the order. */
  send(item: Item): void {
    this.items.push(item);
    if (!this.batches) return this.flush();
    if (this.isDue) return;
    this.isDue = true;
    // After what the present callback of the event loop still leads to.
    process.nextTick(() => this.flush());
  }

  /** Writes what waits, unless the peer is slow. */
  flush(): void {
    this.isDue = false;
    while (!this.isBlocked && this.items.length > 0) this.isBlocked = !this.options.write(this.next());
  }

  resume(): void {
    this.isBlocked = false;
    this.flush();
  }

  clear(): void {
    this.items.length = 0;
  }

  private next(): Message {
    const items = this.items.splice(0, this.batches ? this.fitting() : 1);
    const [only] = items;
    return only !== undefined && items.length === 1 ? only : this.options.batchOf(items);
  }

  /** How many of the next messages fit into one batch: one at least. */
  private fitting(): number {
    let bytes = 0;
    let count = 0;
    for (const item of this.items) {
      bytes += this.options.weigh(item);
      if (count === BATCH_MESSAGES || (count > 0 && bytes > BATCH_BYTES)) break;
      count++;
    }
    return count;
  }
}
