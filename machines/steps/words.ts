// Words for the chart: the parts of a definition as they are read beside an edge. Nothing is evaluated here.
import type { NumberSource } from "../attribute/kinds.js";
import type { Template } from "../expression/index.js";

const LONGEST = 120;

/** Source text on one line, and bounded: a chart repeats it on many edges. */
export function excerpt(text: string): string {
  const line = [
    ...text
      .slice(0, 4 * LONGEST)
      .trim()
      .replace(/\s+/g, " "),
  ];
  return line.length <= LONGEST ? line.join("") : `${line.slice(0, LONGEST - 1).join("")}…`;
}

/** A template as its author wrote it. */
export function written({ source }: Template): string {
  return typeof source === "string" ? excerpt(source) : "a value";
}

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
] as const;

/** Milliseconds in the largest unit that divides them: `90 s`, `15 min`, `2 d`. */
export function span(source: NumberSource): string {
  if (typeof source !== "number") return `${written(source)} ms`;
  const [unit, ms] =
    UNITS.find(([, ms]) => source >= ms && source % ms === 0) ?? (source < 1000 ? ["ms", 1] : ["s", 1000]);
  return `${source / ms} ${unit}`;
}

/** The attributes with which a step limits its own time. */
export interface TimeLimits {
  readonly timeout_ms?: NumberSource | undefined;
  readonly due_in_ms?: NumberSource | undefined;
  readonly due_at?: Template | undefined;
}

/** When the step's time runs out, in words; undefined: never. */
export function timeLimit({ timeout_ms, due_in_ms = timeout_ms, due_at }: TimeLimits): string | undefined {
  if (due_in_ms !== undefined) return `after ${span(due_in_ms)}`;
  return due_at && `at ${written(due_at)}`;
}
