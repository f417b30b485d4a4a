// The credit of a worker, divided among its streams: together they never have more unanswered steps than it takes at once. Every stream
// gets the same share; a node that could use more gets the idle share of another node from the service, which relays.
// It executes nothing.

/** What the division needs of a stream. */
export interface CreditStream {
  /** The order of the streams. */
  readonly nodeId: string | undefined;
  sendCredit(maxInFlight: number): void;
}

interface Share {
  /** The service keeps to it. */
  granted: number;
  /** On its way to the service. At most one, so that it is clear what is answered. */
  asked?: number;
  /** The service takes no more. */
  most: number;
}

export interface CreditOptions<Stream extends CreditStream> {
  /** Steps executed at once. */
  readonly total: number;
  /** The streams that take steps, of services that read credit. */
  readonly streams: () => readonly Stream[];
  /** The steps that are executed now, by their stream; of a stream that is lost, or that takes no more steps, under it. */
  readonly executing: () => ReadonlyMap<Stream, number>;
}

export class CreditDivision<Stream extends CreditStream> {
  private readonly shares = new Map<Stream, Share>();
  /** Streams whose credit is not yet their share. */
  private isUneven = false;
  /** Where the streams are more than the credit: which of them come first. */
  private turn = 0;

  constructor(private readonly options: CreditOptions<Stream>) {}

  /** Streams have come or gone. */
  divide(): void {
    const sorted = [...this.options.streams()].sort(byNode);
    const first = this.turn % Math.max(sorted.length, 1);
    const streams = [...sorted.slice(first), ...sorted.slice(0, first)];
    for (const stream of this.shares.keys()) if (!streams.includes(stream)) this.shares.delete(stream);
    for (const stream of streams)
      if (!this.shares.has(stream)) this.shares.set(stream, { granted: 0, most: Number.POSITIVE_INFINITY });
    this.settle(streams);
  }

  /** The stream is another one from now on: it has no credit. */
  lost(stream: Stream): void {
    this.shares.delete(stream);
    this.divide();
  }

  /** The service keeps to this from now on. */
  credited(stream: Stream, maxInFlight: number): void {
    const share = this.shares.get(stream);
    if (share?.asked === undefined) return;
    if (maxInFlight < share.asked) share.most = maxInFlight;
    share.granted = maxInFlight;
    share.asked = undefined;
    this.divide();
  }

  /** A step was answered: what it took may go to another stream. */
  answered(): void {
    if (this.isUneven) this.divide();
  }

  /**
   * To be called every second. Where there are more streams than credit, each has some in its turn: a step that is too large for the relay
   * waits for credit at its own node.
   */
  tick(): void {
    if (this.shares.size <= this.options.total) return;
    this.turn++;
    this.divide();
  }

  /** Lowers what is above its share, and raises the others by what is free. */
  private settle(streams: readonly Stream[]): void {
    const executing = this.options.executing();
    const wanted = this.wanted(streams);
    for (const stream of streams) this.lower(stream, wanted, executing);
    let free = this.options.total - this.taken(executing);
    for (const stream of streams) free -= this.raise(stream, wanted, executing, free);
    this.isUneven = streams.some((stream) => this.shares.get(stream)?.granted !== wanted.get(stream));
  }

  private wanted(streams: readonly Stream[]): ReadonlyMap<Stream, number> {
    const { total } = this.options;
    const each = Math.floor(total / streams.length);
    const more = total % streams.length;
    return new Map(
      streams.map((stream, nth) => {
        const most = this.shares.get(stream)?.most ?? 0;
        return [stream, Math.min(nth < more ? each + 1 : each, most)];
      }),
    );
  }

  private lower(stream: Stream, wanted: ReadonlyMap<Stream, number>, executing: ReadonlyMap<Stream, number>): void {
    const share = this.shares.get(stream);
    if (!share || share.asked !== undefined) return;
    // Steps that it has are not taken from it: their credit goes to others one by one, as they are answered.
    const to = Math.max(wanted.get(stream) ?? 0, executing.get(stream) ?? 0);
    if (to < share.granted) this.ask(stream, share, to);
  }

  /** Returns by how much more the stream may take. */
  private raise(
    stream: Stream,
    wanted: ReadonlyMap<Stream, number>,
    executing: ReadonlyMap<Stream, number>,
    free: number,
  ): number {
    const share = this.shares.get(stream);
    if (!share || share.asked !== undefined || free <= 0) return 0;
    const held = Math.max(share.granted, executing.get(stream) ?? 0);
    const to = Math.min(wanted.get(stream) ?? 0, held + free);
    if (to <= share.granted) return 0;
    this.ask(stream, share, to);
    return Math.max(to - held, 0);
  }

  private ask(stream: Stream, share: Share, maxInFlight: number): void {
    share.asked = maxInFlight;
    stream.sendCredit(maxInFlight);
  }

  /** The most steps that may be executed at the same time, as things are. */
  private taken(executing: ReadonlyMap<Stream, number>): number {
    let taken = 0;
    for (const [stream, { granted, asked = 0 }] of this.shares)
      taken += Math.max(granted, asked, executing.get(stream) ?? 0);
    for (const [stream, count] of executing) if (!this.shares.has(stream)) taken += count;
    return taken;
  }
}

function byNode(left: CreditStream, right: CreditStream): number {
  const [one = "", other = ""] = [left.nodeId, right.nodeId];
  return one < other ? -1 : one > other ? 1 : 0;
}
