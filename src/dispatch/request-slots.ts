// Slots for requests under way, shared so that slow servers hold up only the work that waits for them. A host has at
// most a fixed number. A sharer (a workflow, a receiver) may take a slot while it has fewer than are free: alone it gets
// half of them, n busy ones get 1/(n+1) each, and a sharer that comes new finds some.

export interface Holder {
  readonly host: string;
  /** Absent: only the host limits it. */
  readonly sharer?: string;
}

export class RequestSlots {
  private taken = 0;
  private readonly takenByHost = new Tally();
  private readonly takenBySharer = new Tally();

  constructor(
    private readonly max: number,
    private readonly maxPerHost: number,
  ) {}

  /** False: none is free for this holder. */
  take({ host, sharer }: Holder): boolean {
    const free = this.max - this.taken;
    if (free <= 0 || this.takenByHost.of(host) >= this.maxPerHost) return false;
    if (sharer !== undefined && this.takenBySharer.of(sharer) >= free) return false;
    this.taken++;
    this.takenByHost.add(host, 1);
    if (sharer !== undefined) this.takenBySharer.add(sharer, 1);
    return true;
  }

  release({ host, sharer }: Holder): void {
    this.taken--;
    this.takenByHost.add(host, -1);
    if (sharer !== undefined) this.takenBySharer.add(sharer, -1);
  }
}

/** Counts by name. A name whose count is back at nothing takes no room. */
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
