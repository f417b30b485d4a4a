// Counts by name. A name whose count is back at nothing takes no room.

export class Tally {
  private readonly counts = new Map<string, number>();

  of(name: string): number {
    return this.counts.get(name) ?? 0;
  }

  add(name: string, change: 1 | -1): void {
    const sum = this.of(name) + change;
    if (sum > 0) this.counts.set(name, sum);
    else this.counts.delete(name);
  }
}
