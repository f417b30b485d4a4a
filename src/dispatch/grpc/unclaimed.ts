// Dispatches without a stream. First each waits for its worker to claim it; unclaimed, it waits for any worker with
// credit, ahead of everything new. It sends nothing and has no timer: in-flight.ts asks for what is due.

import type { ActionName } from "../action-name.js";
import { ExpiringMap } from "../expiring-map.js";
import { FairQueue } from "../fair-queue.js";
import type { ReservationId } from "../voucher-id.js";
import type { CommittedEntry, Entry } from "./entry.js";

export class Unclaimed {
  private readonly claimable: ExpiringMap<CommittedEntry, ReservationId>;
  private readonly queue = new FairQueue<CommittedEntry>();

  constructor(claimWaitMs: number) {
    this.claimable = new ExpiringMap(claimWaitMs);
  }

  /** Its stream is gone, or was never on this node: its worker may come back and claim it. */
  awaitClaim(entry: CommittedEntry): void {
    this.claimable.set(entry.id, entry);
  }

  /**
   * It waits for any worker. True if it is the only one of its action. If it is not, the others have already found no
   * credit.
   */
  awaitWorker(entry: CommittedEntry): boolean {
    return this.queue.add(entry.name, entry.id, entry);
  }

  /** Its own worker may still come back for it. */
  awaitsClaim({ id }: Entry): boolean {
    return this.claimable.get(id) !== undefined;
  }

  remove({ id, name }: Entry): void {
    this.claimable.delete(id);
    this.queue.remove(name, id);
  }

  /** Removes and returns the dispatches that were not claimed in time. */
  takeDue(): CommittedEntry[] {
    return this.claimable.takeDue().map(([, entry]) => entry);
  }

  serve(service: string, tryServe: (entry: CommittedEntry) => boolean): void {
    this.queue.serve(service, tryServe);
  }

  takeFirst(name: ActionName, fits: (entry: CommittedEntry) => boolean): CommittedEntry | undefined {
    return this.queue.takeFirst(name, fits);
  }

  /** The actions of the dispatches that wait for any worker, and how many. */
  counts(): IterableIterator<readonly [name: ActionName, waiting: number]> {
    return this.queue.ownCounts();
  }

  clear(): void {
    this.claimable.clear();
    this.queue.clear();
  }
}
