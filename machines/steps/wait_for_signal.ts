// `wait_for_signal`: waits for a signal of a name, or consumes one that was recorded before.
import {
  DOT_SEGMENT_RULE,
  DOT_SEGMENTS,
  defaulted,
  handler,
  number,
  optional,
  required,
  schema,
  text,
} from "../attribute/kinds.js";
import { ExpressionError, type Template } from "../expression/index.js";
import * as misfit from "../values/misfit.js";
import { LONGEST_WAIT_MS } from "../values/time.js";
import { constantText } from "./named.js";
import { received } from "./payload.js";
import type { Doubt, Edge } from "./step.js";
import { durationOf, millis, stepType, textOf } from "./step.js";
import { type TimeLimits, timeLimit, written } from "./words.js";

interface Waiting extends TimeLimits {
  readonly on_timeout: string;
}

/** Without a time limit there is no timeout. */
export function timeoutEdges({ on_timeout: target, ...limits }: Waiting, missing: string): Edge[] {
  if (target === "fail" || target === "continue") return [];
  const limit = timeLimit(limits);
  const when = limit === undefined ? null : `${limit} without ${missing}`;
  return [{ label: "timeout", target, at: ["on_timeout"], when }];
}

/** When such a step goes on: with what it waits for, or without where a timeout may `continue`. */
export function nextOrTimeout({ on_timeout, ...limits }: Waiting, awaited: string | null): string | null {
  const limit = on_timeout === "continue" ? timeLimit(limits) : undefined;
  return limit === undefined ? awaited : [awaited, limit].filter((part) => part !== null).join(", or ");
}

/** `continue` says nothing where there is no time limit. A step is an edge that no run takes, which is found as such. */
export function unusedTimeout(limit: unknown, onTimeout: string): readonly Doubt[] {
  if (limit !== undefined || onTimeout !== "continue") return [];
  return [{ code: "way_never", at: ["on_timeout"], message: "no run goes this way: the step has no time limit" }];
}

const SIGNAL_NAME = new RegExp(misfit.ID_PATTERN);

/** Why no step can wait for a signal of this name: then nobody can send one either. */
export function signalNameProblem(name: string): string | undefined {
  if (!SIGNAL_NAME.test(name)) return misfit.unlike(misfit.ID_PATTERN);
  return DOT_SEGMENTS.has(name) ? DOT_SEGMENT_RULE : undefined;
}

const signalOf = ({ signal_name }: { signal_name: Template }) => `the signal ${written(signal_name)}`;

export const waitForSignal = stepType({
  name: "wait_for_signal",
  summary: "Waits for a signal, or consumes the oldest one of its name that no step has consumed yet.",
  attributes: {
    signal_name: required(text, "The signal's name."),
    payload_schema: optional(
      schema,
      "The JSON Schema of the payload; another payload fails the step. `x-secret` marks secret parts.",
    ),
    timeout_ms: optional(number({ min: 0, max: LONGEST_WAIT_MS }), "The time to wait; unlimited if absent."),
    on_timeout: defaulted(
      handler,
      "fail",
      "`fail` (code `timeout`), `continue` with a null payload, or the step to go to.",
    ),
  },
  output: "the signal's payload; null after a timeout with `continue` or a step",
  errors: "`timeout`, `schema_mismatch`",
  pauses: true,
  mock: { output: "any", failures: "timeout" },
  check({ signal_name }, place) {
    if (!signal_name.constant) return;
    const problem = signalNameProblem(String(signal_name.render({})));
    if (problem !== undefined) place.at("signal_name").problem(problem);
  },
  edges: (attributes) => timeoutEdges(attributes, signalOf(attributes)),
  codes: ({ payload_schema }) => ["timeout", ...(payload_schema ? ["schema_mismatch"] : [])],
  times: ({ timeout_ms }) => (timeout_ms === undefined ? {} : { timeout_ms: millis(timeout_ms) }),
  waitsForGood: ({ timeout_ms }) => timeout_ms === undefined,
  outputSchema({ signal_name, payload_schema, on_timeout }, known) {
    const name = constantText(signal_name);
    if (on_timeout !== "fail") return undefined;
    return payload_schema ?? (name === undefined ? undefined : known.signal?.(name));
  },
  doubts: ({ timeout_ms, on_timeout }) => unusedTimeout(timeout_ms, on_timeout),
  nextWhen: (attributes) => nextOrTimeout(attributes, signalOf(attributes)),
  enter({ attributes: { signal_name, timeout_ms }, plan, scope, facts, run, maybeSignalled }) {
    const name = textOf(signal_name, scope, "signal_name");
    const problem = signalNameProblem(name);
    if (problem !== undefined) throw new ExpressionError(`signal_name ${problem}`);
    if (run.dryRun) return { kind: "done", output: {} };
    if (maybeSignalled) {
      if (facts.signal === undefined) return { kind: "need", need: { kind: "signal", name } };
      const { signal } = facts;
      if (signal) {
        const got = received(plan, signal.payload, facts);
        return "error" in got
          ? { kind: "failed", error: got.error, signal }
          : { kind: "done", output: got.payload, signal };
      }
    }
    const timeout = timeout_ms === undefined ? undefined : durationOf(timeout_ms, scope, "timeout_ms");
    const due = timeout === undefined ? {} : { dueAt: facts.now + timeout };
    const look = run.family === undefined ? {} : ({ look: true } as const);
    return { kind: "wait", awaiting: "signal", name, wait: { kind: "signal", name, ...due, ...look } };
  },
});
