// The dispatches that workers have accepted. Their outbox rows are removed (law 5: the row goes when it is accepted), a little later and
// many at once: most are answered before, and then the answer's commit removes the row.
import type { DispatchId } from "../../../machines/index.js";
import type { Log } from "../../log.js";
import { ExpiringMap } from "../expiring-map.js";
import type { Address } from "./addresses.js";

export interface AcceptedOptions {
  readonly removeAfterMs: number;
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

/** Rows that one statement removes. */
const AT_ONCE = 1_000;

export class AcceptedDispatches {
  private readonly known = new Map<DispatchId, Accepted>();
  private readonly rows: ExpiringMap<true, DispatchId>;
  private removing: Promise<void> | undefined;

  constructor(private readonly options: AcceptedOptions) {
    this.rows = new ExpiringMap(options.removeAfterMs);
  }

  get size(): number {
    return this.known.size;
  }

  has(dispatchId: DispatchId): boolean {
    return this.known.has(dispatchId);
  }

  add(dispatchId: DispatchId, deadlineAt: number, address: Address): void {
    this.known.set(dispatchId, { deadlineAt, address });
    address.inFlight++;
    this.rows.set(dispatchId, true);
    if (this.known.size > this.options.remembered) this.forgetOldest();
  }

  /** The run waits for it no longer: its commit has removed the row. */
  resolved(dispatchId: DispatchId): void {
    const accepted = this.known.get(dispatchId);
    if (!accepted) return;
    accepted.address.inFlight--;
    this.known.delete(dispatchId);
    this.rows.delete(dispatchId);
  }

  /** Removes the rows that are due. */
  tick(): void {
    if (this.removing) return;
    const due = this.rows.takeDue().map(([dispatchId]) => dispatchId);
    if (due.length > 0)
      this.removing = this.remove(due).finally(() => {
        this.removing = undefined;
      });
  }

  async stop(): Promise<void> {
    await this.removing;
  }

  private async remove(due: readonly DispatchId[]): Promise<void> {
    for (let first = 0; first < due.length; first += AT_ONCE) {
      const some = due.slice(first, first + AT_ONCE);
      await this.options.remove(some).catch((error: unknown) => this.keep(some, error));
    }
  }

  /** The store does not answer. The rows fall due and are found held, until they are removed. */
  private keep(dispatchIds: readonly DispatchId[], error: unknown): void {
    this.options.log.warn(
      { err: error, dispatches: dispatchIds.length },
      "accepted dispatches keep their rows, retrying",
    );
    for (const dispatchId of dispatchIds) if (this.has(dispatchId)) this.rows.set(dispatchId, true);
  }

  /** Those past their deadline first: their runs have given them up, perhaps on another node. */
  private forgetOldest(): void {
    const now = this.options.now();
    for (const [dispatchId, { deadlineAt }] of this.known) if (deadlineAt <= now) this.resolved(dispatchId);
    // Some more than one, so that the next ones need no search.
    const rest = 0.9 * this.options.remembered;
    for (const [dispatchId] of this.known) {
      if (this.known.size <= rest) return;
      this.resolved(dispatchId);
    }
  }
}
