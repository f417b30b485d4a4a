// Columns of rows as Postgres array literals, so that a batch travels as one text parameter a column. They are built here, because the
// driver's array serializer costs more than the rest of the client's side of a commit.

export type ColumnType = "uuid" | "int2" | "int4" | "int8" | "text" | "bool" | "timestamptz" | "json";

type Cell = string | number | boolean | null | undefined;

/** The rows of one relation: named columns, filled row by row, which `unnest` makes rows again in the statement. */
export class Columns {
  private readonly literals: string[];
  private rows = 0;

  constructor(types: Readonly<Record<string, ColumnType>>) {
    this.literals = Object.keys(types).map(() => "");
  }

  get length(): number {
    return this.rows;
  }

  /** Cells in the order of the columns. JSON cells are JSON text, times are RFC 3339 or epoch milliseconds. */
  add(...cells: readonly Cell[]): void {
    const comma = this.rows++ > 0 ? "," : "";
    for (let index = 0; index < cells.length; index++) this.literals[index] += comma + literal(cells[index]);
  }

  parameters(): string[] {
    return this.literals.map((cells) => `{${cells}}`);
  }
}

/** `unnest($n::text::type[], …) as name(columns)`, its parameters numbered from `first`. */
export function unnest(name: string, types: Readonly<Record<string, ColumnType>>, first: number): string {
  const arrays = Object.values(types).map((type, index) => `$${first + index}::text::${type}[]`);
  return `unnest(${arrays.join(", ")}) as ${name}(${Object.keys(types).join(", ")})`;
}

function literal(cell: Cell): string {
  if (cell === null || cell === undefined) return "NULL";
  if (typeof cell !== "string") return String(cell);
  if (!/["\\]/.test(cell)) return `"${cell}"`;
  // JSON escapes the same two characters, and is written five times as fast: 2 ms a megabyte. It also escapes control
  // characters and lone surrogates, which an array does not.
  if (!/[\p{Cc}\p{Cs}]/u.test(cell)) return JSON.stringify(cell);
  return `"${cell.replace(/["\\]/g, "\\$&")}"`;
}
