// Where the nodes of a graph are, and the bends of its edges: dagre's answer, kept by chart. It draws nothing.
import { graphlib, layout } from "@dagrejs/dagre";
import type { GraphChart, GraphEdge, GraphNode } from "./chart.js";

export interface Point {
  readonly x: number;
  readonly y: number;
}

export interface Box extends Point {
  readonly width: number;
  readonly height: number;
}

/** `x` and `y` of a box are its upper left corner. */
export interface Layout {
  readonly boxes: ReadonlyMap<string, Box>;
  readonly bends: ReadonlyMap<string, readonly Point[]>;
  readonly width: number;
  readonly height: number;
}

const STEP = { width: 232, height: 70 };
/** A name beyond so many characters has two lines. */
export const MAX_LINE = 24;
const LINE = 18;
const OUTER = { width: 110, height: 36 };
const GAP = { nodesep: 44, ranksep: 40, edgesep: 20, marginx: 24, marginy: 24 };
/** Dagre needs more than a second for larger graphs. They are laid out row by row. */
const MAX_NODES = 400;
const MAX_KEPT = 20;

const kept = new Map<string, { readonly chart: GraphChart; readonly layout: Layout }>();

export function layoutOf(chart: GraphChart): Layout {
  const known = kept.get(chart.key);
  if (known && isSame(known.chart, chart)) return known.layout;
  const made = chart.nodes.length > MAX_NODES ? rows(chart) : ranked(chart);
  kept.delete(chart.key);
  kept.set(chart.key, { chart, layout: made });
  for (const [oldest] of kept) if (kept.size > MAX_KEPT) kept.delete(oldest);
  return made;
}

/** A draft may change under the same version. */
const isSame = (left: GraphChart, right: GraphChart): boolean =>
  left === right ||
  (left.nodes.length === right.nodes.length &&
    left.edges.length === right.edges.length &&
    left.nodes.every(({ id, name }, nth) => id === right.nodes[nth]?.id && name === right.nodes[nth]?.name) &&
    left.edges.every(({ id }, nth) => id === right.edges[nth]?.id));

function sizeOf({ kind, name }: GraphNode) {
  if (kind !== "step") return OUTER;
  return name.length > MAX_LINE ? { ...STEP, height: STEP.height + LINE } : STEP;
}

function ranked(chart: GraphChart): Layout {
  const graph = new graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: "TB", ...GAP });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of chart.nodes) graph.setNode(node.id, { ...sizeOf(node) });
  for (const edge of chart.edges.filter(({ quiet }) => !quiet)) graph.setEdge(edge.from, edge.to, labelBox(edge), WAY);
  for (const [from, to] of afterBlocks(chart)) graph.setEdge(from, to, { weight: 2, minlen: 1 }, ORDER);
  layout(graph);
  const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number };
  return { boxes: boxesOf(graph, chart), bends: bendsOf(graph, chart), width, height };
}

/** Names of edges: what is drawn, and what only orders. */
const WAY = "way";
const ORDER = "order";

const CHARACTER = 6.5;

/** Dagre leaves room for the label. */
function labelBox({ label, kind }: GraphEdge) {
  const text = label === "" ? {} : { width: label.length * CHARACTER, height: 18, labelpos: "c" };
  return { weight: kind === "way" ? 3 : 1, minlen: 1, ...text };
}

/** What follows a container stands below its block, though the run comes back to the container in between. */
function afterBlocks({ edges }: GraphChart): (readonly [string, string])[] {
  const returns = edges.filter(({ kind, quiet }) => kind === "return" || (quiet && kind === "error"));
  return returns.flatMap(({ from, to }) => {
    const follows = edges.filter((edge) => edge.from === to && /way|return/.test(edge.kind) && edge.to !== from);
    const inside = new Set(returns.filter((edge) => edge.to === to).map((edge) => edge.from));
    return follows.flatMap((edge) =>
      inside.has(edge.to) || leadsTo(edges, edge.to, from) ? [] : [[from, edge.to] as const],
    );
  });
}

/** Along ways that go forward. */
function leadsTo(edges: readonly GraphEdge[], start: string, end: string): boolean {
  const seen = new Set<string>();
  const open = [start];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    if (at === end) return true;
    if (seen.has(at)) continue;
    seen.add(at);
    for (const edge of edges) if (edge.from === at && edge.kind !== "return" && !edge.quiet) open.push(edge.to);
  }
  return false;
}

type Placed = InstanceType<typeof graphlib.Graph>;

function boxesOf(graph: Placed, { nodes }: GraphChart): ReadonlyMap<string, Box> {
  return new Map(
    nodes.map((node) => {
      const { x = 0, y = 0 } = graph.node(node.id) as Partial<Point>;
      const { width, height } = sizeOf(node);
      return [node.id, { x: x - width / 2, y: y - height / 2, width, height }];
    }),
  );
}

function bendsOf(graph: Placed, { edges }: GraphChart): ReadonlyMap<string, readonly Point[]> {
  return new Map(
    edges
      .filter(({ quiet }) => !quiet)
      .map(({ id, from, to }) => {
        const { points = [] } = (graph.edge({ v: from, w: to, name: WAY }) ?? {}) as { points?: Point[] };
        return [id, points];
      }),
  );
}

const COLUMNS = 12;

/** Boxes in rows, in the order of the definition. The edges are drawn straight. */
function rows({ nodes }: GraphChart): Layout {
  const [width, height] = [STEP.width + GAP.nodesep, STEP.height + GAP.ranksep];
  const boxes = nodes.map((node, nth) => {
    const box = { x: (nth % COLUMNS) * width, y: Math.floor(nth / COLUMNS) * height, ...sizeOf(node) };
    return [node.id, box] as const;
  });
  return {
    boxes: new Map(boxes),
    bends: new Map(),
    width: COLUMNS * width,
    height: Math.ceil(nodes.length / COLUMNS) * height,
  };
}
