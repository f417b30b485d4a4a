// A semaphore: a bounded number of works at once, the others in the order in which they came. How many may wait is bounded elsewhere.

export class Semaphore {
  private taken = 0;
  private readonly waiting: (() => void)[] = [];

  constructor(private readonly permits: number) {}

  async run<T>(work: () => Promise<T>): Promise<T> {
    const release = await this.acquire();
    try {
      return await work();
    } finally {
      release();
    }
  }

  /** Resolves when the work may begin, to the function that ends it. */
  async acquire(): Promise<() => void> {
    if (this.taken >= this.permits) await new Promise<void>((resolve) => this.waiting.push(resolve));
    else this.taken++;
    return () => this.release();
  }

  private release(): void {
    const next = this.waiting.shift();
    if (next) next();
    else this.taken--;
  }
}
