// The descendants of a run as a list of lines: which runs are open, and how many of their children are read. Pure: what is read, and when,
// is for the view.
import type { ChildRun } from "./child-run.js";

/** The children of one run, as far as they are read. */
export interface Brood {
  readonly items: readonly ChildRun[];
  /** More can be read. */
  readonly cursor?: string | undefined;
  readonly total: number;
}

export type Line =
  | { readonly kind: "run"; readonly depth: number; readonly run: ChildRun; readonly isOpen: boolean }
  | { readonly kind: "more"; readonly depth: number; readonly parent: string; readonly left: number };

/** Runs nest ten deep. `root`: the run whose descendants these are. */
export function linesOf(root: string, broods: ReadonlyMap<string, Brood>, open: ReadonlySet<string>): readonly Line[] {
  const lines: Line[] = [];
  addLines(lines, root, 0, broods, open);
  return lines;
}

function addLines(
  lines: Line[],
  parent: string,
  depth: number,
  broods: ReadonlyMap<string, Brood>,
  open: ReadonlySet<string>,
): void {
  const brood = broods.get(parent);
  if (!brood) {
    lines.push({ kind: "more", depth, parent, left: 0 });
    return;
  }
  for (const run of brood.items) {
    const isOpen = open.has(run.id);
    lines.push({ kind: "run", depth, run, isOpen });
    if (isOpen) addLines(lines, run.id, depth + 1, broods, open);
  }
  if (brood.cursor !== undefined)
    lines.push({ kind: "more", depth, parent, left: Math.max(0, brood.total - brood.items.length) });
}
