// Where a graph is looked at first: the whole of it if its text can be read then, or else, at a size that can be read, the step that matters.
// Pure geometry.
import type { GraphChart } from "./chart.js";
import { BEGIN } from "./chart.js";
import type { Box, Layout } from "./layout.js";
import type { Look, Tone } from "./look.js";

interface Size {
  readonly width: number;
  readonly height: number;
}

/** A view as React Flow takes it. */
export interface Viewport {
  readonly x: number;
  readonly y: number;
  readonly zoom: number;
}

/** The small text of a box has ten pixels then. */
export const READABLE = 0.8;
const LARGEST = 1.1;
const PADDING = 24;

/** `frame`: the part of the view that is on the screen. `more`: drawn beside the boxes, on their right. */
export function firstSight(layout: Layout, frame: Size, focus: string, more = 0): Viewport {
  const [width, height] = [layout.width + more, layout.height];
  const room = { width: frame.width - 2 * PADDING, height: frame.height - 2 * PADDING };
  const fits = Math.min(room.width / width, room.height / height, LARGEST);
  // Where the height does not fit, the width may.
  const zoom = fits >= READABLE ? fits : Math.min(1, Math.max(READABLE, room.width / width));
  const { x, y, width: w, height: h } = layout.boxes.get(focus) ?? { x: 0, y: 0, width, height: 0 };
  return {
    x: offset(width * zoom, frame.width, (x + w / 2) * zoom),
    y: offset(height * zoom, frame.height, (y + h / 2) * zoom),
    zoom,
  };
}

/** Centers the graph if there is room; or else the point, but leaves nothing empty beyond the ends. */
function offset(length: number, frame: number, point: number): number {
  if (length <= frame - 2 * PADDING) return (frame - length) / 2;
  return Math.min(PADDING, Math.max(frame - length - PADDING, frame / 2 - point));
}

/** Whether the whole graph is seen at a size that can be read. */
export const isWhole = ({ width, height }: Layout, frame: Size): boolean =>
  width * READABLE <= frame.width - 2 * PADDING && height * READABLE <= frame.height - 2 * PADDING;

export function isInView({ x, y, width, height }: Box, { x: left, y: top, zoom }: Viewport, frame: Size): boolean {
  const [from, to] = [x * zoom + left, (x + width) * zoom + left];
  const [above, below] = [y * zoom + top, (y + height) * zoom + top];
  return from >= 0 && to <= frame.width && above >= 0 && below <= frame.height;
}

/** What a person looks for: first what failed, then what is under way; or where it begins. */
const MATTERS: readonly Tone[] = ["failed", "undoing", "paused", "live", "waiting"];

export function focusOf({ nodes }: GraphChart, looks: ReadonlyMap<string, Look> = new Map()): string {
  for (const tone of MATTERS) {
    const found = nodes.filter(({ id }) => looks.get(id)?.tone === tone);
    // What holds a step looks like it: the step itself is what matters.
    const inner = found.find(({ id }) => !found.some(({ childOf }) => childOf === id));
    if (inner) return inner.id;
  }
  return BEGIN;
}
