// A workflow's chart and definition as a graph to look at: a node for each step, one edge between two nodes, in words. It knows nothing of
// places on a screen, and nothing of runs.
import type { Chart, StepBook, StepFacts } from "../../../machines/index.js";
import { type BlockOwner, blockOwners, childBlocks, type StepDocument } from "./blocks.js";

export interface GraphNode {
  /** A step's id, or `BEGIN`, or an end. */
  readonly id: string;
  readonly kind: "step" | "begin" | "end";
  readonly name: string;
  /** The type of a step; empty for a begin or an end. */
  readonly type: string;
  /** What the chart says about it, in sentences. */
  readonly about: string;
  /** The action that undoes it. */
  readonly compensation?: string;
  /** The step whose children run it, for a step in a branch or an item. */
  readonly childOf?: string;
  /** It holds a block: branches, items, rounds or a try. */
  readonly holds?: "branches" | "items" | "rounds" | "try";
}

export type EdgeKind = "way" | "choice" | "error" | "return" | "children";

export interface GraphEdge {
  readonly id: string;
  readonly from: string;
  readonly to: string;
  readonly kind: EdgeKind;
  /** Beside the edge; empty where the way is plain. */
  readonly label: string;
  /** All ways that the edge stands for, with their conditions. */
  readonly about: string;
  /** Drawn only if it was taken: from every step of a try, an error may go outward. */
  readonly quiet: boolean;
}

export interface GraphChart {
  /** The workflow and its version. */
  readonly key: string;
  readonly nodes: readonly GraphNode[];
  readonly edges: readonly GraphEdge[];
}

/** No step has such an id: an id has no parentheses. */
export const BEGIN = "(begin)";
export const SUCCEEDED = "(succeeded)";
export const FAILED = "(failed)";

/** Between two nodes there is one edge, whatever leads along it. */
export const edgeId = (from: string, to: string): string => `${from} > ${to}`;

type ChartState = Chart["states"]["pending"];
type Ways = NonNullable<ChartState["on"]>;

interface NamedEdge {
  readonly from: string;
  readonly to: string;
  readonly name: string;
  readonly when?: string | undefined;
}

/** `types`: the step types that the steps may have. */
export function graphOf(chart: Chart, steps: readonly StepDocument[], types: StepBook): GraphChart {
  const ids = new Map(Object.entries(chart.states.active.states).map(([key, state]) => [key, state.meta?.id ?? key]));
  const owners = blockOwners(chart, steps, ids, types);
  const facts = new Map(steps.map((step) => [String(step.id), types.get(String(step.type))]));
  const ways = [...beginEdges(chart, ids), ...stepEdges(chart, ids, owners, facts), ...childEdges(steps, ids, types)];
  const edges = mergedEdges(ways.filter((way) => !isForkEdge(way, facts)));
  const states = Object.values(chart.states.active.states);
  const nodes = states.map((state) => stepNode(state, owners, facts));
  return { key: `${chart.id} ${chart.version}`, nodes: [...outerNodes(edges), ...nodes], edges };
}

/** A parallel goes on to its join at once: its branches show that way. */
const isForkEdge = ({ from, name }: NamedEdge, facts: Facts): boolean =>
  facts.get(from)?.forks === true && name === "next";

/** What is known of the type of each step. */
type Facts = ReadonlyMap<string, StepFacts | undefined>;

function beginEdges(chart: Chart, ids: ReadonlyMap<string, string>): NamedEdge[] {
  return Object.entries(chart.states.pending.on ?? {}).flatMap(([label, { target }]) => {
    if (!label.startsWith("begin.")) return [];
    const to = target.replace(/^active\./, "");
    const name = label.slice("begin.".length);
    return { from: BEGIN, to: ids.get(to) ?? to, name: name === "default" || name === "" ? "next" : `branch.${name}` };
  });
}

function stepEdges(
  chart: Chart,
  ids: ReadonlyMap<string, string>,
  owners: ReadonlyMap<string, BlockOwner>,
  facts: Facts,
): NamedEdge[] {
  return Object.entries(chart.states.active.states).flatMap(([key, { on }]) => {
    const from = ids.get(key) ?? key;
    const owner = owners.get(from);
    const ways = Object.entries(on ?? {}).map(([name, edge]) => namedEdgeOf(from, name, edge, ids, owner));
    const fails = facts.get(from)?.alwaysFails === true && owner === undefined && !hasWayOut(on);
    return fails ? [...ways, { from, to: FAILED, name: "error", when: "the run fails" }] : ways;
  });
}

/** The end of a branch or an item leads back to the step that waits for it. */
function namedEdgeOf(
  from: string,
  name: string,
  { target, description }: Ways[string],
  ids: ReadonlyMap<string, string>,
  owner: BlockOwner | undefined,
): NamedEdge {
  if (!target.startsWith("#")) return { from, to: ids.get(target) ?? target, name, when: description };
  return owner === undefined
    ? { from, to: SUCCEEDED, name: "next", when: description }
    : { from, to: owner.waits, name: `done.${owner.container}`, when: description };
}

const hasWayOut = (on: Ways = {}): boolean => Object.keys(on).length > 0;

function childEdges(steps: readonly StepDocument[], ids: ReadonlyMap<string, string>, types: StepBook): NamedEdge[] {
  const known = new Set(ids.values());
  return steps
    .flatMap((step) =>
      childBlocks(step, types).map(({ name, start }) => ({
        from: String(step.id),
        to: start,
        name: `children.${name}`,
      })),
    )
    .filter(({ to }) => known.has(to));
}

function mergedEdges(ways: readonly NamedEdge[]): GraphEdge[] {
  const byEnds = new Map<string, NamedEdge[]>();
  for (const way of ways) {
    const id = edgeId(way.from, way.to);
    byEnds.set(id, [...(byEnds.get(id) ?? []), way]);
  }
  return [...byEnds].map(([id, all]) => edgeOf(id, all));
}

function edgeOf(id: string, ways: readonly NamedEdge[]): GraphEdge {
  const [{ from, to } = { from: "", to: "" }] = ways;
  const kinds = ways.map(kindOf);
  const kind = (["way", "choice", "children", "return", "error"] as const).find((one) => kinds.includes(one)) ?? "way";
  return {
    ...{ id, from, to, kind },
    label: [...new Set(ways.map(labelOf).filter((label) => label !== ""))].join(" · "),
    about: ways.map(({ name, when }) => (when === undefined ? wordOf(name) : `${wordOf(name)}: ${when}`)).join("; "),
    quiet: ways.every(({ name }) => /^(raise|skip)/.test(name)),
  };
}

const KINDS: readonly (readonly [RegExp, EdgeKind])[] = [
  [/^(branch|case)\.|^default$/, "choice"],
  [/^(error|raise|catch|timeout)/, "error"],
  [/^done\./, "return"],
  [/^children\./, "children"],
];

const kindOf = ({ name }: NamedEdge): EdgeKind => KINDS.find(([pattern]) => pattern.test(name))?.[1] ?? "way";

const MAX_LABEL = 32;

/** The name of a choice, or the condition where the name is a number. */
function labelOf({ name, when }: NamedEdge): string {
  if (/^(next|try|skip|continue)$|^(done|raise)\./.test(name)) return "";
  const label = name.startsWith("case.") && when !== undefined ? when : wordOf(name);
  return label.length > MAX_LABEL ? `${label.slice(0, MAX_LABEL - 1)}…` : label;
}

const WORDS: Readonly<Record<string, string>> = { while: "each round", error: "on error" };

function wordOf(name: string): string {
  return WORDS[name] ?? decoded(name.replace(/^(branch|children)\./, "").replace(".", " "));
}

/** A label is an event's name, where some characters are escaped. */
const decoded = (name: string): string => name.replaceAll("%2A", "*").replaceAll("%2E", ".").replaceAll("%25", "%");

/** The blocks of a step, by their kind. */
export const HOLDS = { branch: "branches", item: "items", while: "rounds", try: "try" } as const;

function stepNode({ meta, description }: ChartState, owners: ReadonlyMap<string, BlockOwner>, facts: Facts): GraphNode {
  const { id = "", type = "", title, compensation } = meta ?? {};
  const owner = owners.get(id);
  const block = facts.get(id)?.block;
  return {
    ...{ id, kind: "step", name: title ?? id, type, about: withoutTitle(description, title) },
    ...(compensation !== undefined && { compensation }),
    ...(owner !== undefined && { childOf: owner.container }),
    ...(block && { holds: HOLDS[block.kind] }),
  };
}

/** The chart's sentences begin with the title, which is the name of the node. */
const withoutTitle = (description: string, title = ""): string =>
  (description.startsWith(title) ? description.slice(title.length) : description).trim();

function outerNodes(edges: readonly GraphEdge[]): GraphNode[] {
  const ends = [
    { id: SUCCEEDED, name: "succeeded", about: "The run has succeeded." },
    { id: FAILED, name: "failed", about: "The run has failed." },
  ].filter(({ id }) => edges.some(({ to }) => to === id));
  return [
    { id: BEGIN, kind: "begin", name: "begin", type: "", about: "The run begins." },
    ...ends.map((end) => ({ ...end, kind: "end" as const, type: "" })),
  ];
}
