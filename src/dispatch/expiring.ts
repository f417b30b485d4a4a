// A map whose entries fall due after a fixed time, in the order they were set. It holds no timer: whoever owns it asks.

export class Expiring<V> {
  readonly #entries = new Map<string, { readonly value: V; readonly dueAt: number }>();

  /** `max`: one more is not kept. Times are on the monotonic clock. */
  constructor(
    private readonly afterMs: number,
    private readonly max = Number.POSITIVE_INFINITY,
  ) {}

  get(key: string): V | undefined {
    return this.#entries.get(key)?.value;
  }

  set(key: string, value: V): void {
    // Setting a key again moves it to the end: the order is that of the due times.
    this.#entries.delete(key);
    if (this.#entries.size >= this.max) return;
    this.#entries.set(key, { value, dueAt: performance.now() + this.afterMs });
  }

  delete(key: string): void {
    this.#entries.delete(key);
  }

  clear(): void {
    this.#entries.clear();
  }

  /** Removes what is due and gives it. */
  takeDue(): [key: string, value: V][] {
    const now = performance.now();
    const due: [string, V][] = [];
    for (const [key, { value, dueAt }] of this.#entries) {
      if (dueAt > now) break;
      this.#entries.delete(key);
      due.push([key, value]);
    }
    return due;
  }
}
