// Slots for requests under way, shared so that slow servers hold up only the work that waits for them. A host has at
// most a fixed number. A sharer (a workflow, a receiver) may take a slot while it has fewer than are free: alone it gets
// half of them, n busy ones get 1/(n+1) each, and a sharer that comes new finds some.

export interface Holder {
  readonly host: string;
  /** Absent: only the host limits it. */
  readonly sharer?: string;
}

export class Slots {
  private taken = 0;
  private readonly takenByHost = new Map<string, number>();
  private readonly takenBySharer = new Map<string, number>();

  constructor(
    private readonly max: number,
    private readonly maxPerHost: number,
  ) {}

  /** False: none is free for this holder. */
  take({ host, sharer }: Holder): boolean {
    const free = this.max - this.taken;
    if (free <= 0 || count(this.takenByHost, host) >= this.maxPerHost) return false;
    if (sharer !== undefined && count(this.takenBySharer, sharer) >= free) return false;
    this.taken++;
    add(this.takenByHost, host, 1);
    if (sharer !== undefined) add(this.takenBySharer, sharer, 1);
    return true;
  }

  release({ host, sharer }: Holder): void {
    this.taken--;
    add(this.takenByHost, host, -1);
    if (sharer !== undefined) add(this.takenBySharer, sharer, -1);
  }
}

function count(counts: ReadonlyMap<string, number>, name: string): number {
  return counts.get(name) ?? 0;
}

function add(counts: Map<string, number>, name: string, change: number): void {
  const sum = count(counts, name) + change;
  if (sum > 0) counts.set(name, sum);
  else counts.delete(name);
}
