// A line: a bounded number of works at once, the others in the order in which they came. Who may join it is bounded elsewhere.

export class Line {
  private entered = 0;
  private readonly waiting: (() => void)[] = [];

  constructor(private readonly atOnce: number) {}

  /** Resolves when the work may begin, to the function that ends it. */
  async enter(): Promise<() => void> {
    if (this.entered >= this.atOnce) await new Promise<void>((resolve) => this.waiting.push(resolve));
    else this.entered++;
    return () => this.leave();
  }

  private leave(): void {
    const next = this.waiting.shift();
    if (next) next();
    else this.entered--;
  }
}
