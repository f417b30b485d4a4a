// A cache that is bounded by the weight of what it holds, not by their number. It has two generations: what is used moves to the young
// one, and when that is full the old one goes. Roughly the least recently used goes first, at the cost of a lookup or two.

export class WeightedCache<K, V> {
  private young = new Map<K, { readonly value: V; readonly weight: number }>();
  private old = new Map<K, { readonly value: V; readonly weight: number }>();
  private youngWeight = 0;

  /** Holds at most `maxWeight`, and one value beside it that is heavier than half of that. */
  constructor(private readonly maxWeight: number) {}

  get(key: K): V | undefined {
    const known = this.young.get(key);
    if (known) return known.value;
    const kept = this.old.get(key);
    if (!kept) return undefined;
    this.old.delete(key);
    this.set(key, kept.value, kept.weight);
    return kept.value;
  }

  set(key: K, value: V, weight: number): void {
    this.delete(key);
    if (this.youngWeight + weight > this.maxWeight / 2) {
      this.old = this.young;
      this.young = new Map();
      this.youngWeight = 0;
    }
    this.young.set(key, { value, weight });
    this.youngWeight += weight;
  }

  delete(key: K): void {
    this.old.delete(key);
    const known = this.young.get(key);
    if (!known) return;
    this.young.delete(key);
    this.youngWeight -= known.weight;
  }

  *keys(): Generator<K, void> {
    yield* this.young.keys();
    yield* this.old.keys();
  }

  get size(): number {
    return this.young.size + this.old.size;
  }

  /** The weight of everything that it holds. */
  get weight(): number {
    let weight = this.youngWeight;
    for (const kept of this.old.values()) weight += kept.weight;
    return weight;
  }
}
