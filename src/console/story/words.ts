// Durations and events in words, for pages and screen readers. Without DOM and without React.
import type { StepNames } from "../graph/names.js";
import { awaitedWord } from "../parts/state-words.js";
import { failureOf, isUndo, kindOf, type Row, textIn, typeOf, willRetry } from "./rows.js";

const UNITS: readonly (readonly [ms: number, name: string])[] = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "min"],
  [1_000, "s"],
];

export function durationWords(ms: number): string {
  const [size, name] = UNITS.find(([size]) => ms >= size) ?? [1, "ms"];
  return `${Math.round((ms / size) * 10) / 10} ${name}`;
}

const VERBS: Readonly<Record<string, string>> = {
  "saga.started": "the run began",
  "step.started": "began",
  "step.dispatched": "sent to a worker",
  "step.succeeded": "succeeded",
  "step.failed": "failed",
  "step.skipped": "skipped",
  "step.paused": "waits",
  "compensation.started": "the rollback began",
  "run.succeeded": "the run succeeded",
  "run.failed": "the run failed",
  "run.cancelled": "the run was cancelled",
};

/** How a step stands, in one list: graph, timeline, events and details say the same. */
export const STANDING_WORDS = {
  running: "running",
  waiting: "waiting",
  retrying: "waiting to be tried again",
  incident: "at an incident",
  done: "succeeded",
  failed: "failed",
  skipped: "skipped",
} as const;

export const UNDO_WORDS = {
  undoing: "being undone",
  undone: "undone",
  failed: "the undo failed",
  passed: "nothing to undo",
} as const;

/** Undefined: the definition is not read yet. Then steps are called by their ids. */
export type Names = StepNames | undefined;

export const nameIn = (names: Names, step: string): string => names?.get(step) ?? step;

/** One row in a few words. */
export function rowWords(row: Row, names?: Names): string {
  const said = isUndo(row) ? undoVerb(row) : (VERBS[typeOf(row)] ?? kindOf(row)?.replaceAll("_", " ") ?? typeOf(row));
  const step = row.step_id === undefined ? "" : `${nameIn(names, row.step_id)}: `;
  return `${step}${said}${detailOf(row)}`;
}

const UNDO_VERBS: Readonly<Record<string, string>> = {
  "step.started": "the undo began",
  "step.dispatched": "the undo was sent to a worker",
  "step.succeeded": UNDO_WORDS.undone,
  "step.failed": UNDO_WORDS.failed,
  "step.skipped": UNDO_WORDS.passed,
  "step.paused": "the undo waits",
};

const undoVerb = (row: Row): string => UNDO_VERBS[typeOf(row)] ?? `the undo: ${kindOf(row) ?? typeOf(row)}`;

function detailOf(row: Row): string {
  switch (typeOf(row)) {
    case "step.failed":
      return ` with ${failureOf(row).code}${willRetry(row) ? ", is tried again" : ""}`;
    case "step.paused":
      return ` ${awaitedWord(textIn(row, "awaiting") ?? "something")}${nameOf(row)}`;
    case "step.dispatched":
      return ` (attempt ${row.attempt})`;
    default:
      return "";
  }
}

/** The name of what a step awaits, where people gave it: that of a task is an id. */
export function nameOf(row: Row): string {
  const name = textIn(row, "awaiting") === "user_task" ? undefined : textIn(row, "name");
  return name === undefined ? "" : `: ${name}`;
}
