// Retry and Catch of the Amazon States Language: the conditions on an error's name, and a policy of the step where one says the same. The steps
// are made in machine.ts.

import { isObject, type Json, type JsonObject } from "../../values/json.js";
import type { FieldPath } from "../../values/json-path.js";
import { LONGEST_WAIT_MS } from "../../values/time.js";
import { quoted } from "../cel.js";
import type { Report } from "../report.js";

/** The variable that has the error of the state as `{Error, Cause}`. */
export const FAILURE = "vars.failure";

/** The names of the specification for the codes of this service. All others are names already. */
export const ERROR_NAMES: Readonly<Record<string, string>> = {
  timeout: "States.Timeout",
  heartbeat_timeout: "States.HeartbeatTimeout",
  no_branch_matched: "States.NoChoiceMatched",
  limit_exceeded: "States.DataLimitExceeded",
};

/** Errors that end an execution, whatever a state catches. */
const FATAL = ["States.Runtime", "States.DataLimitExceeded"];
const TIMEOUTS = ["States.Timeout", "States.HeartbeatTimeout"];

const within = (names: readonly string[]) => `${FAILURE}.Error in [${names.map(quoted).join(", ")}]`;

/** Whether the error is one of the names. */
export function matching(names: readonly string[]): string {
  const others = names.filter(
    (name) => !name.startsWith("States.") || !["States.ALL", "States.TaskFailed", "States.Timeout"].includes(name),
  );
  const tests: string[] = [];
  if (names.includes("States.ALL")) tests.push(`!(${within(FATAL)})`);
  if (names.includes("States.TaskFailed")) tests.push(`!(${within([...FATAL, ...TIMEOUTS])})`);
  if (names.includes("States.Timeout")) tests.push(within(TIMEOUTS));
  const named = others.filter((name) => !FATAL.includes(name));
  if (named.length > 0) tests.push(within(named));
  return tests.length === 0 ? "false" : tests.join(" || ");
}

export const namesIn = (entry: JsonObject): readonly string[] =>
  Array.isArray(entry.ErrorEquals) ? entry.ErrorEquals.map(String) : [];

export interface Retrier {
  readonly names: readonly string[];
  readonly attempts: number;
  readonly intervalMs: number;
  readonly rate: number;
  readonly maxMs: number;
  readonly jitter: boolean;
}

const KNOWN = [
  "ErrorEquals",
  "IntervalSeconds",
  "MaxAttempts",
  "BackoffRate",
  "MaxDelaySeconds",
  "JitterStrategy",
  "Comment",
];

export function retriersOf(value: Json | undefined, path: FieldPath, report: Report): readonly Retrier[] {
  const entries = Array.isArray(value) ? value.filter(isObject) : [];
  return entries.map((entry, index) => {
    for (const name of Object.keys(entry))
      if (!KNOWN.includes(name))
        report.refuse([...path, index, name], `${name} of a Retry`, "the specification has no such field");
    const number = (name: string, otherwise: number) => {
      const given = entry[name];
      return typeof given === "number" ? given : otherwise;
    };
    return {
      names: namesIn(entry),
      attempts: number("MaxAttempts", 3),
      intervalMs: Math.min(number("IntervalSeconds", 1) * 1_000, LONGEST_WAIT_MS),
      rate: number("BackoffRate", 2),
      maxMs: Math.min(number("MaxDelaySeconds", Number.POSITIVE_INFINITY) * 1_000, LONGEST_WAIT_MS),
      jitter: entry.JitterStrategy === "FULL",
    };
  });
}

/** The step's own policy keeps one idempotency key for all attempts, so it is taken where it says the same: one retrier for all errors. */
export function policyOf(retriers: readonly Retrier[]): JsonObject | undefined {
  const [only, second] = retriers;
  if (!only) return { max_attempts: 1, initial_backoff_ms: 0 };
  if (second || only.names.length !== 1 || only.names[0] !== "States.ALL" || only.rate < 1) return undefined;
  return {
    max_attempts: only.attempts + 1,
    initial_backoff_ms: Math.min(only.intervalMs, only.maxMs),
    max_backoff_ms: only.maxMs,
    multiplier: only.rate,
    jitter: only.jitter,
  };
}
