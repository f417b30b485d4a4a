// Durations and events in words, for pages and screen readers. Without DOM and without React.
import type { StepNames } from "../graph/names.js";
import { awaitedWord, reasonWord } from "../parts/state-words.js";
import { failureOf, isUndo, kindOf, type Row, textIn, typeOf, willRetry } from "./rows.js";

const UNITS: readonly (readonly [ms: number, name: string])[] = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "min"],
  [1_000, "s"],
];

export function durationWords(ms: number): string {
  const [size, name] = UNITS.find(([size]) => ms >= size) ?? [1, "ms"];
  // A line does not end between a number and its unit.
  return `${Math.round((ms / size) * 10) / 10}\u00a0${name}`;
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

/** How a step ended, in one list: graph, timeline, events and details say the same. */
export const END_WORDS = { done: "succeeded", failed: "failed", skipped: "skipped" } as const;

export const UNDO_WORDS = {
  undoing: "being undone",
  undone: "undone",
  failed: "the undo failed",
  passed: "nothing to undo",
} as const;

/** Undefined: the definition is not read yet. Then steps are called by their ids. */
export type Names = StepNames | undefined;

export const nameIn = (names: Names, step: string): string => names?.get(step) ?? step;

/** Where something failed. The API says the phase of an undo only. */
export const atStep = (name: string, phase: string | undefined): string =>
  phase === "compensation" ? `at the undo of ${name}` : `at ${name}`;

/** One row in a few words: what it says, apart from the name of its step, which may be long. */
export interface RowWords {
  readonly step?: string;
  readonly said: string;
}

export function rowParts(row: Row, names?: Names): RowWords {
  const verb = isUndo(row) ? undoVerb(row) : (VERBS[typeOf(row)] ?? logWords(row));
  const said = `${verb}${detailOf(row)}`;
  return row.step_id === undefined ? { said } : { step: nameIn(names, row.step_id), said };
}

export function rowWords(row: Row, names?: Names): string {
  const { step, said } = rowParts(row, names);
  return step === undefined ? said : `${step}: ${said}`;
}

/** What the log says by its kind. What a later release adds is said as the service calls it. */
const LOG_VERBS: Readonly<Record<string, string>> = {
  pause: reasonWord("operator"),
  resume: "resumed by an operator",
  quarantine: "put in quarantine",
  release: "released from quarantine",
  cancel: "the cancel of the run was asked for",
  terminate: "the run was terminated",
  retry_step: "tried again by an operator",
  skip_step: "skipped by an operator",
  retry: "tried again",
  signal: "a signal came",
  slot_awaited: "waits for a slot",
  slot_granted: "got a slot",
  turn_awaited: "waits for its turn",
  turn_taken: "its turn came",
  children: "its children end first",
};

function logWords(row: Row): string {
  const kind = kindOf(row);
  return kind === undefined ? typeOf(row) : (LOG_VERBS[kind] ?? kind.replaceAll("_", " "));
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
