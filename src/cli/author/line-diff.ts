// The difference of two texts by lines, as `diff -u` shows it: the shortest one, by the algorithm of Myers. It knows nothing of documents.

export interface Edit {
  readonly kind: "same" | "removed" | "added";
  readonly line: string;
}

/** Beyond so many different lines the texts are shown as replaced: the shortest difference costs the square of its length. */
const MOST_EDITS = 3_000;
/** Lines that are shown around a change. */
const CONTEXT = 3;

export function edits(before: readonly string[], after: readonly string[]): Edit[] {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start++;
  let end = 0;
  while (
    end < before.length - start &&
    end < after.length - start &&
    before[before.length - 1 - end] === after[after.length - 1 - end]
  )
    end++;
  const same = (lines: readonly string[]): Edit[] => lines.map((line) => ({ kind: "same", line }));
  const middle = shortest(before.slice(start, before.length - end), after.slice(start, after.length - end));
  return [...same(before.slice(0, start)), ...middle, ...same(before.slice(before.length - end))];
}

function shortest(before: readonly string[], after: readonly string[]): Edit[] {
  const steps = paths(before, after);
  if (!steps)
    return [
      ...before.map((line): Edit => ({ kind: "removed", line })),
      ...after.map((line): Edit => ({ kind: "added", line })),
    ];
  // From the end back to the beginning.
  const found: Edit[] = [];
  let [x, y] = [before.length, after.length];
  for (let depth = steps.length - 1; depth >= 0; depth--) {
    const reach = steps[depth] ?? new Map<number, number>();
    const diagonal = x - y;
    const down = isDown(reach, diagonal, depth);
    const from = down ? diagonal + 1 : diagonal - 1;
    const fromX = depth === 0 ? 0 : (reach.get(from) ?? 0);
    const fromY = depth === 0 ? 0 : fromX - from;
    while (x > fromX && y > fromY) {
      found.push({ kind: "same", line: before[--x] ?? "" });
      y--;
    }
    if (depth === 0) break;
    if (down) found.push({ kind: "added", line: after[--y] ?? "" });
    else found.push({ kind: "removed", line: before[--x] ?? "" });
  }
  return found.reverse();
}

const isDown = (reach: ReadonlyMap<number, number>, diagonal: number, depth: number) =>
  diagonal === -depth || (diagonal !== depth && (reach.get(diagonal - 1) ?? -1) < (reach.get(diagonal + 1) ?? -1));

/** For each number of edits, how far each diagonal had come before. Undefined: there are too many. */
function paths(before: readonly string[], after: readonly string[]): Map<number, number>[] | undefined {
  const reach = new Map<number, number>([[1, 0]]);
  const steps: Map<number, number>[] = [];
  for (let depth = 0; depth <= Math.min(before.length + after.length, MOST_EDITS); depth++) {
    steps.push(new Map(reach));
    for (let diagonal = -depth; diagonal <= depth; diagonal += 2) {
      const down = isDown(reach, diagonal, depth);
      let x = down ? (reach.get(diagonal + 1) ?? 0) : (reach.get(diagonal - 1) ?? 0) + 1;
      while (x < before.length && x - diagonal < after.length && before[x] === after[x - diagonal]) x++;
      reach.set(diagonal, x);
      if (x >= before.length && x - diagonal >= after.length) return steps;
    }
  }
  return undefined;
}

/** The changes with a few lines around each, and where they are. Empty: the texts are the same. */
export function hunks(all: readonly Edit[]): string[] {
  const changed = all.flatMap(({ kind }, index) => (kind === "same" ? [] : [index]));
  const shown = new Set(
    changed.flatMap((index) => Array.from({ length: 2 * CONTEXT + 1 }, (_, nth) => index - CONTEXT + nth)),
  );
  const lines: string[] = [];
  let [before, after, wasShown] = [1, 1, false];
  all.forEach(({ kind, line }, index) => {
    if (shown.has(index)) {
      if (!wasShown) lines.push(`@@ -${before} +${after} @@`);
      lines.push(`${kind === "same" ? " " : kind === "removed" ? "-" : "+"}${line}`);
    }
    wasShown = shown.has(index);
    if (kind !== "added") before++;
    if (kind !== "removed") after++;
  });
  return lines;
}
