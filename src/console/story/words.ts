// Durations and events in words, for pages and screen readers. Without DOM and without React.
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

/** One row in a few words. */
export function rowWords(row: Row): string {
  const verb = VERBS[typeOf(row)] ?? kindOf(row)?.replaceAll("_", " ") ?? typeOf(row);
  const step = row.step_id === undefined ? "" : `${isUndo(row) ? "undo of " : ""}${row.step_id}: `;
  return `${step}${verb}${detailOf(row)}`;
}

function detailOf(row: Row): string {
  switch (typeOf(row)) {
    case "step.failed":
      return ` with ${failureOf(row).code}${willRetry(row) ? ", is tried again" : ""}`;
    case "step.paused":
      return ` for ${[textIn(row, "awaiting"), textIn(row, "name")].filter(Boolean).join(" ")}`;
    case "step.dispatched":
      return ` (attempt ${row.attempt})`;
    default:
      return "";
  }
}
