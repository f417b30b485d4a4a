// The undo entries that one read has brought, for a run in memory that works them off: its next undo then needs no read, and can be
// dispatched in the commit that records the one before. The store is right: entries are dropped with the actor, and with every
// other change of the undo list.
import type { Fetched, Write } from "../../machines/index.js";
import type { OwedEntries } from "../store/load.js";

const NONE: OwedEntries = { entries: [], complete: false };

export class OwedUndos {
  private since = 0;
  private owed = NONE;

  /** Entries of the step entries after `since`, newest first. */
  keep(since: number, owed: OwedEntries): void {
    this.since = since;
    this.owed = owed;
  }

  /** What a decision may know of the list. */
  get facts(): Pick<Fetched, "undo"> {
    const { entries, complete } = this.owed;
    const [newest] = entries;
    return newest || complete ? { undo: { since: this.since, newest: newest ?? null } } : {};
  }

  /** The transition with these writes was applied to the actor. */
  apply(writes: readonly Write[]): void {
    for (const write of writes) if (write.to.startsWith("undo_")) this.owed = this.without(write);
  }

  /** Only the newest entry is worked off. */
  private without({ to, row }: Write): OwedEntries {
    const { entries, complete } = this.owed;
    const [newest, ...rest] = entries;
    const settled = to === "undo_settled" && row.ordinal === newest?.ordinal;
    return settled ? { entries: rest, complete } : NONE;
  }
}
