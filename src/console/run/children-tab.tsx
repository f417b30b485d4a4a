// The children of a run as a tree: branches, items and sub-sagas, and theirs. Children are read by page when they come into sight, and
// drawn as far as they are seen.
import { useVirtualizer } from "@tanstack/react-virtual";
import { useRef } from "react";
import { Link } from "wouter";
import { useAddress } from "../browser/address.js";
import type { Run, RunState } from "../browser/resources.js";
import { Refused } from "../parts/notes.js";
import { duration, State } from "../parts/values.js";
import { type ChildCount, countsByState, countWords, total } from "../story/counts.js";
import { nameOf } from "./child-run.js";
import { useCounts } from "./data.js";
import type { TabProps } from "./moment.js";
import type { Line } from "./tree.js";
import { type Tree, useTree } from "./use-tree.js";

const LINE_HEIGHT = 34;

export function ChildrenTab({ run }: TabProps) {
  const [parameters] = useAddress();
  const counts = useCounts(run).data?.items ?? [];
  const of = parameters.get("of") ?? undefined;
  const state = parameters.get("state") ?? undefined;
  return (
    <>
      <Filters counts={counts} of={of} state={state} />
      <Descendants key={`${of} ${state}`} run={run} of={of} state={state} count={total(counts)} />
    </>
  );
}

function Filters({ counts, of, state }: { counts: readonly ChildCount[]; of?: string; state?: string }) {
  const steps = [...new Set(counts.map(({ parent_step_id }) => parent_step_id))];
  const shown = of === undefined ? counts : counts.filter(({ parent_step_id }) => parent_step_id === of);
  return (
    <div className="row">
      <Choice name="of" label="Of step" value={of} options={steps} />
      <Choice name="state" label="State" value={state} options={[...countsByState(shown).keys()]} />
      <span className="quiet" role="status">
        {total(shown).toLocaleString()} children{shown.length > 0 && `: ${countWords(shown)}`}
      </span>
    </div>
  );
}

function Choice(props: { name: string; label: string; value: string | undefined; options: readonly string[] }) {
  const { name, label, value = "", options } = props;
  const [, change] = useAddress();
  return (
    <label>
      {label}
      <select value={value} onChange={({ target }) => change({ [name]: target.value })}>
        <option value="">all</option>
        {options.map((option) => (
          <option key={option}>{option}</option>
        ))}
      </select>
    </label>
  );
}

function Descendants(props: { run: Run; of: string | undefined; state: string | undefined; count: number }) {
  const tree = useTree(props.run.id, props);
  const scroll = useRef<HTMLElement>(null);
  const virtual = useVirtualizer({
    count: tree.lines.length,
    getScrollElement: () => scroll.current,
    estimateSize: () => LINE_HEIGHT,
    overscan: 10,
  });
  const seen = virtual.getVirtualItems();
  tree.useReading(seen.map(({ index }) => index));
  if (tree.isEmpty) return <p className="quiet">There are no such children.</p>;
  return (
    <>
      {tree.error && <Refused error={tree.error} />}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls */}
      <section className="rows" ref={scroll} aria-label="Children" tabIndex={0}>
        <div style={{ height: virtual.getTotalSize(), position: "relative" }}>
          {seen.map(({ index, start, key }) => (
            <div key={key} className="tree-line" style={{ transform: `translateY(${start}px)`, height: LINE_HEIGHT }}>
              <TreeLine line={tree.lines[index]} tree={tree} />
            </div>
          ))}
        </div>
      </section>
    </>
  );
}

function TreeLine({ line, tree }: { line: Line | undefined; tree: Tree }) {
  if (!line) return null;
  if (line.kind === "more")
    return (
      <span className="quiet" style={{ paddingInlineStart: `${line.depth * 1.5}rem` }}>
        {line.left > 0 ? `${line.left.toLocaleString()} more …` : "Loading …"}
      </span>
    );
  const { run, depth, isOpen } = line;
  return (
    <>
      <span style={{ paddingInlineStart: `${depth * 1.5}rem` }}>
        <button
          type="button"
          className="plain toggle"
          aria-expanded={isOpen}
          aria-label={`Children of ${nameOf(run)}`}
          onClick={() => tree.toggle(run.id)}
        >
          {isOpen ? "▾" : "▸"}
        </button>
        <Link href={`/runs/${run.id}`}>{nameOf(run)}</Link>
      </span>
      <State state={run.state as RunState} reason={run.paused_reason} />
      <span className="quiet">{run.error?.code ?? run.current_step}</span>
      <span className="quiet">
        {run.terminal_at && duration(Date.parse(run.terminal_at) - Date.parse(run.started_at))}
      </span>
    </>
  );
}
