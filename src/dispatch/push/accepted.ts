// The dispatches that workers have accepted. Their outbox rows are removed at once (law 5: the row goes when it is accepted), those of one
// turn of the event loop together: as long as a row is there, the next owner of its run sends the dispatch again.

import type { DispatchId } from "../../../machines/index.js";
import { nextTurn, performance } from "../../ambient.js";
import type { Log } from "../../log.js";
import type { Address } from "./addresses.js";

export interface AcceptedOptions {
  /** Dispatches that are remembered. Above it the oldest is forgotten. */
  readonly remembered: number;
  /** Removes the outbox rows. */
  readonly remove: (dispatchIds: readonly DispatchId[]) => Promise<void>;
  readonly log: Log;
  /** Database time, epoch milliseconds. */
  readonly now: () => number;
}

interface Accepted {
  readonly deadlineAt: number;
  readonly address: Address;
}

/** How often overdue dispatches are forgotten, and how long after its deadline a dispatch is overdue: nothing sends it then, or answers it. */
const OVERDUE_MS = 10_000;

/** Rows that one statement removes. */
const AT_ONCE = 1_000;

export class AcceptedDispatches {
  private readonly known = new Map<DispatchId, Accepted>();
  /** Those whose rows are not removed yet, forgotten ones included. */
  private readonly rows = new Set<DispatchId>();
  private removing: Promise<void> | undefined;
  /** The last try to remove rows has failed, and the log says so. */
  private failing = false;
  /** On the monotonic clock. */
  private forgetOverdueAt = 0;

  constructor(private readonly options: AcceptedOptions) {}

  get size(): number {
    return this.known.size;
  }

  has(dispatchId: DispatchId): boolean {
    return this.known.has(dispatchId) || this.hasRow(dispatchId);
  }

  /** Its acceptance is not durable yet: without this node, it counts as not accepted. */
  hasRow(dispatchId: DispatchId): boolean {
    return this.rows.has(dispatchId);
  }

  /** A worker has just accepted it. */
  add(dispatchId: DispatchId, deadlineAt: number, address: Address): void {
    this.remember(dispatchId, deadlineAt, address);
    this.removeRow(dispatchId);
  }

  /** Accepted for a run that this node no longer carries: only the row is removed. */
  removeRow(dispatchId: DispatchId): void {
    this.rows.add(dispatchId);
    this.removeSoon();
  }

  /** It was accepted before, and its row is gone. */
  remember(dispatchId: DispatchId, deadlineAt: number, address: Address): void {
    this.known.set(dispatchId, { deadlineAt, address });
    address.inFlight++;
    if (this.known.size > this.options.remembered) this.forgetOldest();
  }

  /** The run waits for it no longer: its commit has removed the row. */
  resolved(dispatchId: DispatchId): void {
    this.forget(dispatchId);
    this.rows.delete(dispatchId);
  }

  /** Forgets those of runs that are not carried here any more, and still removes their rows: nothing tells this node of their answers. */
  forgetUnless(isCarried: (dispatchId: DispatchId) => boolean): void {
    for (const dispatchId of this.known.keys()) if (!isCarried(dispatchId)) this.forget(dispatchId);
  }

  /** Removes the rows that could not be removed before, and forgets what is over. */
  tick(): void {
    this.removeSoon();
    if (performance.now() >= this.forgetOverdueAt) this.forgetOverdue();
  }

  async stop(): Promise<void> {
    await this.removing;
    // Once more: the store may be back, and what has a row is sent again by the next owner.
    await this.remove();
  }

  private removeSoon(): void {
    if (this.removing || this.rows.size === 0) return;
    this.removing = nextTurn()
      .then(() => this.remove())
      .finally(() => {
        this.removing = undefined;
      });
  }

  private async remove(): Promise<void> {
    while (this.rows.size > 0) {
      const some = [...this.rows].slice(0, AT_ONCE);
      try {
        await this.options.remove(some);
        this.failing = false;
      } catch (error) {
        const { log } = this.options;
        if (!this.failing)
          log.warn({ err: error, dispatches: this.rows.size }, "accepted dispatches keep their rows, retrying");
        this.failing = true;
        return;
      }
      for (const dispatchId of some) this.rows.delete(dispatchId);
    }
  }

  private forget(dispatchId: DispatchId): void {
    const accepted = this.known.get(dispatchId);
    if (!accepted) return;
    accepted.address.inFlight--;
    this.known.delete(dispatchId);
  }

  /** A command that another node carried out was resolved there, and nothing tells this node. */
  private forgetOverdue(): void {
    this.forgetOverdueAt = performance.now() + OVERDUE_MS;
    const overdue = this.options.now() - OVERDUE_MS;
    for (const [dispatchId, { deadlineAt }] of this.known) if (deadlineAt < overdue) this.forget(dispatchId);
  }

  /** Those past their deadline first: their runs have given them up, perhaps on another node. */
  private forgetOldest(): void {
    const now = this.options.now();
    for (const [dispatchId, { deadlineAt }] of this.known) if (deadlineAt <= now) this.forget(dispatchId);
    // Some more than one, so that the next ones need no search.
    const rest = 0.9 * this.options.remembered;
    for (const [dispatchId] of this.known) {
      if (this.known.size <= rest) return;
      this.forget(dispatchId);
    }
  }
}
