// A graph as React Flow takes it: nodes at their places, edges with their bends and looks. Pure.
import type { Edge, EdgeMarker, Node } from "@xyflow/react";
import { edgeId, type GraphChart, type GraphEdge, type GraphNode } from "./chart.js";
import type { Layout, Point } from "./layout.js";
import type { EdgeLook, Look } from "./look.js";
import { curve, labelPoint, rounded, straight, undoWay } from "./path.js";

export type DrawnNode = Node<{ node: GraphNode; look: Look | undefined; isSelected: boolean }>;
export type DrawnEdge = Edge<{ path: string; label: string; place: Point; about: string }>;

export interface Drawn {
  readonly nodes: DrawnNode[];
  readonly edges: DrawnEdge[];
}

type Looks = ReadonlyMap<string, Look>;
type EdgeLooks = ReadonlyMap<string, EdgeLook>;

export function drawnNodes({ nodes }: GraphChart, { boxes }: Layout, looks?: Looks, selected?: string): DrawnNode[] {
  return nodes.map((node) => {
    const { x = 0, y = 0, width = 0, height = 0 } = boxes.get(node.id) ?? {};
    const data = { node, look: looks?.get(node.id), isSelected: node.id === selected };
    return { id: node.id, type: node.kind, position: { x, y }, width, height, data };
  });
}

export function drawnEdges(
  chart: GraphChart,
  layout: Layout,
  looks?: EdgeLooks,
  undoWay: readonly string[] = [],
): DrawnEdge[] {
  const ways = chart.edges.flatMap((edge) => wayEdge(edge, layout, looks?.get(edge.id)));
  return [...ways, ...undoEdges(undoWay, layout)];
}

function wayEdge(edge: GraphEdge, { boxes, bends }: Layout, look: EdgeLook | undefined): DrawnEdge[] {
  const [from, to] = [boxes.get(edge.from), boxes.get(edge.to)];
  if (!from || !to || (edge.quiet && look === undefined)) return [];
  const bent = bends.get(edge.id) ?? [];
  const points = bent.length > 1 ? bent : straight(from, to);
  const data = { path: curve(points), label: edge.label, place: labelPoint(points), about: edge.about };
  const classes = ["edge", edge.kind, look].filter(Boolean).join(" ");
  const ends = { source: edge.from, target: edge.to, zIndex: look === undefined ? 0 : 1 };
  return [{ id: edge.id, type: "way", className: classes, markerEnd: arrow(look), data, ...ends }];
}

const COLOURS = { taken: "var(--accent)", undo: "var(--undo)", none: "var(--edge)" };

const arrow = (look: EdgeLook | undefined): EdgeMarker => ({
  type: "arrowclosed" as EdgeMarker["type"],
  color: COLOURS[look ?? "none"],
  width: 16,
  height: 16,
});

/** Numbered in their order. A step that is undone twice in a row has no arrow to itself. */
function undoEdges(way: readonly string[], { boxes }: Layout): DrawnEdge[] {
  const all = [...boxes.values()];
  return way.slice(1).flatMap((to, nth) => {
    const from = way[nth] ?? to;
    const [start, end] = [boxes.get(from), boxes.get(to)];
    if (!start || !end || from === to) return [];
    const { points, label: place } = undoWay(start, end, all, nth);
    const data = { path: rounded(points), label: String(nth + 1), place, about: `undo ${nth + 1}: ${to}` };
    const ends = { source: from, target: to, zIndex: 2 };
    const id = `undo ${nth} ${edgeId(from, to)}`;
    return [{ id, type: "undo", className: "edge undo-way", markerEnd: arrow("undo"), data, ...ends }];
  });
}
