// The writes of one commit, folded: what is owed and settled in it becomes no row, and rows that it would write and change at once are
// changed before they are written, because a statement does not see the rows that it inserts.

import type { Relation, Row, Rows } from "./relations.js";

type Growing = { -readonly [Of in Relation]?: Row<Of>[] };
/** A row, and the relation that it goes to. */
export type RowTo = { readonly [Of in Relation]: { readonly to: Of; readonly row: Row<Of> } }[Relation];

export class FoldedRows {
  private readonly grown: Growing = {};

  get rows(): Rows {
    return this.grown;
  }

  add<Of extends Relation>(to: Of, ...added: readonly Row<Of>[]): void {
    if (added.length === 0) return;
    const grown = this.grown as { [Name in Of]?: Row<Of>[] };
    const known = grown[to];
    if (known) known.push(...added);
    else grown[to] = [...added];
  }

  /** Adds a row that is complete. */
  fold(write: RowTo): void {
    switch (write.to) {
      case "outbox_row":
        this.drop("outbox_row", ({ id }) => id === write.row.id);
        break;
      case "outbox_gone":
        if (this.drop("outbox_row", ({ id }) => id === write.row.id)) return;
        break;
      case "event_wait":
        this.grown.event_wait_gone = undefined;
        this.grown.event_wait = undefined;
        break;
      case "event_wait_gone":
        this.grown.event_wait_gone = undefined;
        this.grown.event_wait = undefined;
        break;
      case "ticket_gone":
        // A statement cannot change a row and delete it.
        this.drop("ticket_returned", ({ entry }) => entry === write.row.entry);
        if (this.drop("ticket", ({ entry }) => entry === write.row.entry)) return;
        break;
      case "undo_passed":
        return this.passOver(write.row);
      case "undo_handed":
        this.handOver(write.row);
        break;
    }
    this.add(write.to, write.row as Row<Relation>);
  }

  /** A later rollback in the same commit passes over no fewer of the stored rows. */
  private passOver({ run_id, since, every }: Row<"undo_passed">): void {
    const { undo_entry: own, undo_passed: [before] = [] } = this.grown;
    const isPassed = (row: Row<"undo_entry">) => every || (row.action === undefined && row.entry > since);
    if (own) this.grown.undo_entry = own.map((row) => (isPassed(row) ? { ...row, state: "passed" } : row));
    const from = every ? 0 : Math.min(since, before?.since ?? since);
    this.grown.undo_passed = [{ run_id, since: from, every: every || (before?.every ?? false) }];
  }

  private handOver({ run_id, heir, entry }: Row<"undo_handed">): void {
    const { undo_entry: own } = this.grown;
    const handed = (row: Row<"undo_entry">) => ({
      ...row,
      owner: heir,
      entry,
      child_run_id: row.child_run_id ?? run_id,
    });
    if (own) this.grown.undo_entry = own.map((row) => (row.state === "owed" ? handed(row) : row));
  }

  /** Whether there was such a row. */
  private drop<Of extends Relation>(from: Of, which: (row: Row<Of>) => boolean): boolean {
    const grown = this.grown as { [Name in Of]?: Row<Of>[] };
    const known = grown[from];
    if (!known?.some(which)) return false;
    grown[from] = known.filter((row) => !which(row));
    return true;
  }
}
