// A map whose entries fall due a fixed time after they were set. It has no timer: its owner asks for what is due.

import { performance } from "../ambient.js";

export class ExpiringMap<V, K extends string = string> {
  private readonly entries = new Map<K, { readonly value: V; readonly dueAt: number }>();

  /** An entry above `max` is not kept. Times are milliseconds on the monotonic clock. */
  constructor(
    private readonly afterMs: number,
    private readonly max = Number.POSITIVE_INFINITY,
  ) {}

  get(key: K): V | undefined {
    return this.entries.get(key)?.value;
  }

  set(key: K, value: V): void {
    // Setting a key again moves it to the end: the order of the entries is that of their due times.
    this.entries.delete(key);
    if (this.entries.size >= this.max) return;
    this.entries.set(key, { value, dueAt: performance.now() + this.afterMs });
  }

  delete(key: K): void {
    this.entries.delete(key);
  }

  clear(): void {
    this.entries.clear();
  }

  /** Removes and returns the entries that are due. */
  takeDue(): [key: K, value: V][] {
    const now = performance.now();
    const due: [K, V][] = [];
    for (const [key, { value, dueAt }] of this.entries) {
      if (dueAt > now) break;
      this.entries.delete(key);
      due.push([key, value]);
    }
    return due;
  }
}
