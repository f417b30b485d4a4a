// Reads the tree of children, page by page, where a line is in sight that stands for more. While the run goes on, the children that are
// in sight are read again when their counts change.
import { useEffect, useMemo, useRef, useState } from "react";
import { get, part } from "../browser/client.js";
import type { List } from "../browser/resources.js";
import { type ChildRun, kept } from "./child-run.js";
import { type Brood, type Line, linesOf } from "./tree.js";

const PAGE = 200;
const AGAIN_MS = 2_000;

export interface Tree {
  readonly lines: readonly Line[];
  readonly isEmpty: boolean;
  readonly error: Error | undefined;
  readonly toggle: (runId: string) => void;
  /** Reads what the lines in sight stand for. */
  readonly useReading: (seen: readonly number[]) => void;
}

interface Filter {
  readonly of?: string | undefined;
  readonly state?: string | undefined;
  /** The number of all children: it changes when children begin. */
  readonly count: number;
}

export function useTree(root: string, filter: Filter): Tree {
  const [broods, setBroods] = useState<ReadonlyMap<string, Brood>>(new Map());
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const [error, setError] = useState<Error>();
  const reading = useRef(new Set<string>());
  const lines = useMemo(() => linesOf(root, broods, open), [root, broods, open]);

  const read = async (parent: string, { items, cursor }: Partial<Brood> = {}) => {
    if (reading.current.has(parent)) return;
    reading.current.add(parent);
    try {
      const page = await pageOf(parent, parent === root ? filter : {}, cursor);
      const brood = { items: [...(items ?? []), ...page.items.map(kept)], cursor: page.next_cursor, total: page.total };
      setBroods((before) => new Map(before).set(parent, brood));
      setError(undefined);
    } catch (failed) {
      setError(failed as Error);
    } finally {
      reading.current.delete(parent);
    }
  };

  const useReading = (seen: readonly number[]) => {
    const wanted = seen.flatMap((index) => (lines[index]?.kind === "more" ? lines[index] : []));
    const parents = wanted.map(({ parent }) => parent).join(" ");
    // biome-ignore lint/correctness/useExhaustiveDependencies: what is in sight is what is read
    useEffect(() => {
      for (const { parent } of wanted) void read(parent, broods.get(parent));
    }, [parents, broods]);
    useFresh(filter.count, () => (broods.get(root)?.items.length ?? 0) <= PAGE && void read(root));
  };

  const toggle = (runId: string) => setOpen((before) => toggled(before, runId));
  return { lines, isEmpty: broods.get(root)?.total === 0, error, toggle, useReading };
}

const pageOf = (parent: string, { of, state }: Partial<Filter>, cursor: string | undefined) =>
  get<List<ChildRun>>(`/sagas/${part(parent)}/children`, {
    query: { limit: PAGE, parent_step_id: of, state, cursor },
  });

function toggled(open: ReadonlySet<string>, runId: string): ReadonlySet<string> {
  const after = new Set(open);
  if (!after.delete(runId)) after.add(runId);
  return after;
}

/** The first page, when there are other children than before, at most every two seconds. */
function useFresh(count: number, read: () => void): void {
  const last = useRef({ count, at: 0 });
  useEffect(() => {
    const timer = window.setInterval(() => {
      if (last.current.count === count || Date.now() - last.current.at < AGAIN_MS) return;
      last.current = { count, at: Date.now() };
      read();
    }, AGAIN_MS / 4);
    return () => window.clearInterval(timer);
  });
}
