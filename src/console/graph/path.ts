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

/** A line from the lower side of a box to the upper side of another. */
export const straight = (from: Box, to: Box): readonly Point[] => [
  { x: from.x + from.width / 2, y: from.y + from.height },
  { x: to.x + to.width / 2, y: to.y },
];

/** The way of an undo, through points whose corners are cut. */
export interface UndoWay {
  readonly points: readonly Point[];
  readonly label: Point;
}

/** Beside a box, within the gap to the next one. */
const BESIDE = 18;
const BELOW = 14;

/**
 * A line from the right of a box to the right of another, in the gaps between rows and beside all boxes, so that it covers no box and no text. The
 * boxes are in rows with gaps between them. `nth`: ways that begin or end together are drawn beside each other.
 */
export function undoWay(from: Box, to: Box, boxes: readonly Box[], nth = 0): UndoWay {
  const [start, end] = [rightOf(from), rightOf(to)];
  if (isBeside(from, to)) return alongRow(from, to, boxes, nth);
  const [top, bottom] = [Math.min(from.y, to.y), Math.max(from.y + from.height, to.y + to.height)];
  const between = boxes.filter((box) => box.y < bottom && box.y + box.height > top);
  const shift = (nth % 4) * 5;
  const gutter = Math.max(...between.map(({ x, width }) => x + width)) + BESIDE + 6 + shift;
  const out = (box: Box, other: Box) => wayOut(box, { boxes, gutter, shift, isDown: other.y > box.y });
  const points = [start, ...out(from, to), ...out(to, from).reverse(), end];
  return { points, label: { x: gutter, y: (start.y + end.y) / 2 } };
}

const isBeside = (one: Box, other: Box): boolean => one.y < other.y + other.height && other.y < one.y + one.height;

/** Between two boxes of a row: in the gap above it. */
function alongRow(from: Box, to: Box, boxes: readonly Box[], nth: number): UndoWay {
  const [start, end] = [rightOf(from), rightOf(to)];
  const shift = (nth % 4) * 5;
  const gap = Math.min(...boxes.filter((box) => isBeside(box, from)).map(({ y }) => y)) - BELOW - shift;
  const [left, right] = [start.x + BESIDE + shift, end.x + BESIDE + shift];
  const corners = [
    { ...start, x: left },
    { x: left, y: gap },
    { x: right, y: gap },
    { ...end, x: right },
  ];
  return { points: [start, ...corners, end], label: { x: left + (right - left) * 0.3, y: gap } };
}

interface Gaps {
  readonly boxes: readonly Box[];
  readonly gutter: number;
  readonly shift: number;
  /** Where the other box is. */
  readonly isDown: boolean;
}

/** The way to the gutter: straight if no box is on the way, or else through the gap of rows on the side of the other box. */
function wayOut(box: Box, { boxes, gutter, shift, isDown }: Gaps): Point[] {
  const { x, y } = rightOf(box);
  const row = boxes.filter((one) => isBeside(one, box));
  if (!row.some((one) => one.x > box.x)) return [{ x: gutter, y }];
  const gap = isDown
    ? Math.max(...row.map((one) => one.y + one.height)) + BELOW + shift
    : Math.min(...row.map((one) => one.y)) - BELOW - shift;
  const aside = x + BESIDE + shift;
  return [
    { x: aside, y },
    { x: aside, y: gap },
    { x: gutter, y: gap },
  ];
}

const CORNER = 10;

/** Straight lines whose corners are round, and no more: a curve through the middles would leave the gaps. */
export function rounded(points: readonly Point[]): string {
  const [first, ...rest] = points;
  const last = rest.at(-1);
  if (!first || !last) return "";
  const corners = rest.slice(0, -1).map((corner, nth) => {
    const [before, after] = [points[nth] ?? corner, rest[nth + 1] ?? corner];
    return `L ${at(towards(corner, before))} Q ${at(corner)} ${at(towards(corner, after))}`;
  });
  return [`M ${at(first)}`, ...corners, `L ${at(last)}`].join(" ");
}

function towards(from: Point, to: Point): Point {
  const length = Math.hypot(to.x - from.x, to.y - from.y);
  const share = length === 0 ? 0 : Math.min(CORNER, length / 2) / length;
  return { x: from.x + (to.x - from.x) * share, y: from.y + (to.y - from.y) * share };
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
