// The children of a run as a tree: branches, items and sub-sagas, and theirs. Children are read by page when they come into sight, and
// drawn as far as they are seen.
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef } from "react";
import { Link } from "wouter";
import { useAddress } from "../browser/address.js";
import type { Run, RunState } from "../browser/resources.js";
import { useIsNarrow } from "../browser/width.js";
import { childName } from "../parts/belongs.js";
import { Refused } from "../parts/notes.js";
import { counted } from "../parts/plural.js";
import { stateWord } from "../parts/state-words.js";
import { duration, State } from "../parts/values.js";
import { type ChildCount, countsByState, countWords, total } from "../story/counts.js";
import { type Names, nameIn } from "../story/words.js";
import type { ChildRun } from "./child-run.js";
import { useCounts } from "./data.js";
import type { TabProps } from "./moment.js";
import type { Line } from "./tree.js";
import { type Tree, useTree } from "./use-tree.js";

const LINE_HEIGHT = 34;
/** On a phone a line has two. */
const HIGH_LINE = 60;

export function ChildrenTab({ run, definition }: TabProps) {
  const [parameters] = useAddress();
  const counts = useCounts(run).data?.items ?? [];
  const of = parameters.get("of") ?? undefined;
  const state = parameters.get("state") ?? undefined;
  return (
    <>
      <Filters counts={counts} of={of} state={state} names={definition?.names} />
      <Descendants key={`${of} ${state}`} {...{ run, of, state }} count={total(counts)} names={definition?.names} />
    </>
  );
}

interface FiltersProps {
  readonly counts: readonly ChildCount[];
  readonly of: string | undefined;
  readonly state: string | undefined;
  readonly names: Names;
}

function Filters({ counts, of, state, names }: FiltersProps) {
  const steps = [...new Set(counts.map(({ parent_step_id }) => parent_step_id))];
  const shown = of === undefined ? counts : counts.filter(({ parent_step_id }) => parent_step_id === of);
  return (
    <div className="row">
      <Choice name="of" label="Of step" value={of} options={steps.map((step) => [step, nameIn(names, step)])} />
      <Choice
        name="state"
        label="State"
        value={state}
        options={[...countsByState(shown).keys()].map((one) => [one, stateWord(one)])}
      />
      <span className="quiet" role="status">
        {counted(total(shown), "child", "children")}
        {shown.length > 0 && `: ${countWords(shown)}`}
      </span>
    </div>
  );
}

type Options = readonly (readonly [value: string, words: string])[];

function Choice(props: { name: string; label: string; value: string | undefined; options: Options }) {
  const { name, label, value = "", options } = props;
  const [, change] = useAddress();
  return (
    <label>
      {label}
      <select value={value} onChange={({ target }) => change({ [name]: target.value })}>
        <option value="">all</option>
        {options.map(([option, words]) => (
          <option key={option} value={option}>
            {words}
          </option>
        ))}
      </select>
    </label>
  );
}

interface DescendantsProps extends Omit<FiltersProps, "counts"> {
  readonly run: Run;
  readonly count: number;
}

function Descendants(props: DescendantsProps) {
  const tree = useTree(props.run.id, props);
  const scroll = useRef<HTMLElement>(null);
  const height = useIsNarrow() ? HIGH_LINE : LINE_HEIGHT;
  const virtual = useVirtualizer({
    count: tree.lines.length,
    getScrollElement: () => scroll.current,
    estimateSize: () => height,
    overscan: 10,
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: it keeps what it has measured
  useEffect(() => virtual.measure(), [height]);
  const seen = virtual.getVirtualItems();
  tree.useReading(seen.map(({ index }) => index));
  if (tree.isEmpty) return <p className="quiet">There are no such children.</p>;
  return (
    <>
      {tree.error && <Refused error={tree.error} />}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls */}
      <section className="rows" ref={scroll} aria-label="Tree of children" tabIndex={0}>
        <div style={{ height: virtual.getTotalSize(), position: "relative" }}>
          {seen.map(({ index, start, key }) => (
            <div key={key} className="tree-line" style={{ transform: `translateY(${start}px)`, height }}>
              <TreeLine line={tree.lines[index]} tree={tree} of={props} />
            </div>
          ))}
        </div>
      </section>
    </>
  );
}

/** Why it failed, or what it stands at. */
const Where = ({ run: { incident, error, current_step: step }, names }: { run: ChildRun; names: Names }) => {
  const failure = incident ?? error;
  if (failure) return <span className="fault">{failure.code}</span>;
  return <span className="quiet">{step !== undefined && nameIn(names, step)}</span>;
};

function TreeLine({
  line,
  tree,
  of,
}: {
  line: Line | undefined;
  tree: Tree;
  of: Pick<DescendantsProps, "run" | "names">;
}) {
  if (!line) return null;
  if (line.kind === "more")
    return (
      <span className="quiet" style={{ paddingInlineStart: `${line.depth * 1.5}rem` }}>
        {line.left > 0 ? `${line.left.toLocaleString()} more …` : "Loading …"}
      </span>
    );
  const { run, depth, isOpen } = line;
  // A branch or an item has the steps of its parent; those of a sub-saga have names that are not known here.
  const isOwn = run.workflow_id === of.run.workflow_id;
  const name = childName(run, (step) => nameIn(of.names, step));
  return (
    <>
      <span style={{ paddingInlineStart: `${depth * 1.5}rem` }}>
        <button
          type="button"
          className="bare toggle"
          aria-expanded={isOpen}
          aria-label={`Children of ${name}`}
          onClick={() => tree.toggle(run.id)}
        >
          {isOpen ? "▾" : "▸"}
        </button>
        <Link href={`/runs/${run.id}`} title={childName(run)}>
          {name}
        </Link>
      </span>
      <State state={run.state as RunState} reason={run.paused_reason} />
      <Where run={run} names={isOwn ? of.names : undefined} />
      <span className="quiet">
        {run.terminal_at && duration(Date.parse(run.terminal_at) - Date.parse(run.started_at))}
      </span>
    </>
  );
}
