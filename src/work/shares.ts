// Places that callers share: one may hold at most half of them, so that others find a place while it holds all that it may.

/** Gives the place back. */
type Release = () => void;

export class Shares {
  /** The most places of one holder. */
  readonly each: number;
  private taken = 0;
  private readonly held = new Map<string, number>();
  private waiting: (() => void)[] = [];

  constructor(private readonly places: number) {
    this.each = Math.ceil(places / 2);
  }

  /** A place, or which limit is reached. Without a holder all places are one's own. */
  take(holder: string | undefined): Release | "full" | "share" {
    const own = holder === undefined ? 0 : (this.held.get(holder) ?? 0);
    if (own >= this.each) return "share";
    if (this.taken >= this.places) return "full";
    this.taken++;
    if (holder !== undefined) this.held.set(holder, own + 1);
    return () => this.release(holder);
  }

  /** Does the work once there is a place. How many may wait is bounded elsewhere. */
  async run<T>(holder: string, work: () => Promise<T>): Promise<T> {
    for (;;) {
      const release = this.take(holder);
      if (typeof release === "string") await new Promise<void>((resolve) => this.waiting.push(resolve));
      else
        try {
          return await work();
        } finally {
          release();
        }
    }
  }

  private release(holder: string | undefined): void {
    this.taken--;
    if (holder !== undefined) {
      const left = (this.held.get(holder) ?? 0) - 1;
      if (left > 0) this.held.set(holder, left);
      else this.held.delete(holder);
    }
    // Those who wait try again in their order: the first may have its share.
    for (const again of this.waiting.splice(0)) again();
  }
}
