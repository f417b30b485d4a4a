// The lines of a graph as SVG paths. Pure geometry.
import type { Box, Point } from "./layout.js";

/** Through the bends, rounded: each corner is cut at the middles of its sides. */
export function curve(points: readonly Point[]): string {
  const [first, ...rest] = points;
  const last = rest.at(-1);
  if (!first || !last) return "";
  const middles = rest.slice(0, -1).map((point, nth) => ({ point, to: middle(point, rest[nth + 1] ?? point) }));
  const corners = middles.map(({ point, to }) => `Q ${at(point)} ${at(to)}`);
  return [`M ${at(first)}`, ...corners, `L ${at(last)}`].join(" ");
}

/** From the lower side of a box to the upper side of another. */
export const straight = (from: Box, to: Box): readonly Point[] => [
  { x: from.x + from.width / 2, y: from.y + from.height },
  { x: to.x + to.width / 2, y: to.y },
];

/** The way of an undo: beside the nodes, on their right, so that it does not cover the way forward. */
export function undoCurve(from: Box, to: Box): { readonly path: string; readonly label: Point } {
  const [start, end] = [rightOf(from), rightOf(to)];
  const reach = Math.max(start.x, end.x) + 36 + Math.min(60, Math.abs(start.y - end.y) / 10);
  const path = `M ${at(start)} C ${at({ x: reach, y: start.y })} ${at({ x: reach, y: end.y })} ${at(end)}`;
  return { path, label: { x: (start.x + end.x + 6 * reach) / 8, y: (start.y + end.y) / 2 } };
}

const rightOf = ({ x, y, width, height }: Box): Point => ({ x: x + width, y: y + height / 2 });

const middle = (left: Point, right: Point): Point => ({ x: (left.x + right.x) / 2, y: (left.y + right.y) / 2 });

const at = ({ x, y }: Point): string => `${Math.round(x)},${Math.round(y)}`;

/** Where a label stands. */
export function labelPoint(points: readonly Point[]): Point {
  const nth = (points.length - 1) / 2;
  const [left, right] = [points[Math.floor(nth)], points[Math.ceil(nth)]];
  return left && right ? middle(left, right) : { x: 0, y: 0 };
}
