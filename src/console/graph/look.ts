// What a graph shows at a node beside the step itself: a tone with its word, a badge, a few lines. Whether that comes from a run, a dry run
// or a validation is the page's matter.
import type { GraphNode } from "./chart.js";

export type Tone =
  | "idle"
  | "live"
  | "waiting"
  | "paused"
  | "done"
  | "failed"
  | "undoing"
  | "undone"
  | "skipped"
  | "hit";

export interface Look {
  readonly tone: Tone;
  /** Beside the type of the step. Without it, the tone says how the step stands. */
  readonly word?: string;
  /** A few characters in the corner: a count, the place in an order. */
  readonly badge?: string;
  /** Two are drawn, all are read out. */
  readonly lines?: readonly string[];
}

export type EdgeLook = "taken" | "undo";

const TONE_WORDS: Readonly<Record<Tone, string>> = {
  idle: "",
  live: "running",
  waiting: "waiting",
  paused: "paused",
  done: "succeeded",
  failed: "failed",
  undoing: "being undone",
  undone: "undone",
  skipped: "skipped",
  hit: "hit",
};

export const wordOf = ({ tone, word = TONE_WORDS[tone] }: Look): string => word;

export const MAX_LINES = 2;

/** Characters below the name of a step. */
const MAX_KIND_LINE = 30;

/** How the step stands, and of which type it is: where both have no room, how it stands. */
export function kindLine({ type }: Pick<GraphNode, "type">, look: Look | undefined): string {
  const word = look ? wordOf(look) : "";
  const both = [word, type].filter(Boolean).join(" · ");
  return both.length > MAX_KIND_LINE && word !== "" ? word : both;
}

/** What a screen reader says besides what is drawn. */
export function unseen({ id, name, compensation }: GraphNode, { lines = [] }: Partial<Look> = {}): string {
  const parts = [
    name !== id && id,
    ...lines.slice(MAX_LINES),
    compensation !== undefined && `undone by ${compensation}`,
  ];
  return parts.filter(Boolean).join(", ");
}
