// What the two forms of the commit statement are made of: clauses, and sections of clauses that belong to some relations. The clauses are in
// fences.ts and writes.ts.
import { type ColumnType, RELATIONS, type Relation } from "../../../machines/index.js";

/** The FROM item of each relation: `unnest(…) as name(columns)`. */
export type From = Readonly<Record<Relation, string>>;

/** The condition that the run in this column has won. In the plain statement all have. */
export type Won = (column: string) => string;

/** One CTE of a statement: `name as (…)`. */
export type Clause = (from: From, won: Won) => string;

/**
 * Clauses that a group without rows for them does without: opening a table costs time even where nothing is written. There are
 * few sections, because each set of them is a statement of its own, planned once a connection.
 */
export interface Section {
  readonly relations: readonly Relation[];
  /** The fences that later clauses refer to. */
  readonly fences?: readonly Clause[];
  /** The same names with no rows: for statements without the section. */
  readonly withoutFences?: readonly Clause[];
  /** The clauses that write rows of the runs that have won. */
  readonly writes: readonly Clause[];
}

/** A statement with its parameters: those of these relations, in their order. */
export interface Statement {
  readonly relations: readonly Relation[];
  readonly text: string;
}

/** Their rows are written in the order in which they were added, which the column `position` counts: the sequence numbers follow it. */
const ORDERED: ReadonlySet<Relation> = new Set(["undo_entry", "outgoing_event"]);

/** The FROM items of the relations, each column a text parameter; the parameters are numbered through. */
export function fromItems(relations: readonly Relation[]): From {
  let next = 1;
  const items = relations.map((relation) => {
    const columns = Object.entries<ColumnType>(RELATIONS[relation]);
    const arrays = columns.map(([, type]) => `$${next++}::text::${type.replace("?", "")}[]`).join(", ");
    const names = columns.map(([name]) => name).join(", ");
    const [counting, position] = ORDERED.has(relation) ? [" with ordinality", ", position"] : ["", ""];
    return [relation, `unnest(${arrays})${counting} as ${relation}(${names}${position})`];
  });
  return Object.fromEntries(items) as From;
}
