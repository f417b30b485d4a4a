// Suggestions: the known name that a wrong name most likely means. A document has one budget for all of them, so a document full of
// wrong names gets a few suggestions and costs no more than they do.

/** Longer names are not compared. */
const MAX_CHARS = 64;
/** One unit a name that is looked at, and one a cell of the comparison: about 10 ms in all. */
const BUDGET = 1_000_000;

export class Suggestions {
  private budget = BUDGET;

  /** ` (did you mean "x"?)`, or nothing. */
  for(name: string, known: Iterable<string>): string {
    const nearest = name.length > MAX_CHARS ? undefined : this.nearest(folded(name), known);
    return nearest === undefined ? "" : ` (did you mean "${nearest}"?)`;
  }

  private nearest(name: string, known: Iterable<string>): string | undefined {
    let limit = mostEdits(name);
    let best: string | undefined;
    for (const candidate of known) {
      if (--this.budget < 0) break;
      if (candidate.length > MAX_CHARS) continue;
      const edits = this.editsWithin(limit, name, folded(candidate));
      if (edits === undefined) continue;
      best = candidate;
      // The next one must be nearer.
      limit = edits - 1;
    }
    return best;
  }

  private editsWithin(limit: number, left: string, right: string): number | undefined {
    if (limit < 0 || Math.abs(left.length - right.length) > limit) return undefined;
    if (left === right) return 0;
    this.budget -= left.length * (2 * limit + 1);
    const edits = limit === 0 ? undefined : distance(left, right, limit);
    return edits !== undefined && edits <= limit ? edits : undefined;
  }
}

/** `waitForSignal`, `wait-for-signal` and `wait_for_signal` are one name to a person. */
function folded(name: string): string {
  return name.toLowerCase().replace(/[-_]/g, "");
}

function mostEdits({ length }: string): number {
  if (length <= 2) return 0;
  return length <= 5 ? 1 : length <= 9 ? 2 : 3;
}

/**
 * The fewest insertions, deletions, changes and swaps of neighbours that make one text the other. Undefined: more than `limit`. Only
 * the cells whose indexes differ by at most `limit` matter.
 */
function distance(left: string, right: string, limit: number): number | undefined {
  let older: number[] = [];
  let above = Array.from({ length: right.length + 1 }, (_, column) => column);
  for (let row = 1; row <= left.length; row++) {
    const current: number[] = [row];
    let least = row;
    for (let column = 1; column <= right.length; column++) {
      const outside = Math.abs(row - column) > limit;
      current[column] = outside ? limit + 1 : cell(left, right, row, column, { older, above, current });
      least = Math.min(least, current[column] ?? least);
    }
    if (least > limit) return undefined;
    [older, above] = [above, current];
  }
  return above[right.length];
}

interface Rows {
  readonly older: readonly number[];
  readonly above: readonly number[];
  readonly current: readonly number[];
}

function cell(left: string, right: string, row: number, column: number, { older, above, current }: Rows): number {
  const at = (cells: readonly number[], index: number) => cells[index] ?? MAX_CHARS;
  const change = left[row - 1] === right[column - 1] ? 0 : 1;
  const least = Math.min(at(above, column) + 1, at(current, column - 1) + 1, at(above, column - 1) + change);
  const swapped = row > 1 && column > 1 && left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1];
  return swapped ? Math.min(least, at(older, column - 2) + 1) : least;
}
