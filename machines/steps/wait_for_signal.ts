// `wait_for_signal`: pauses the run until a signal of a name comes, or takes one that came before.
import { defaulted, id, type Kind, number, optional, required, text } from "../definition/attribute.js";
import { ExpressionError } from "../expression/index.js";
import { LONGEST_WAIT_MS } from "../time.js";
import type { Edge } from "./step.js";
import { durationOf, stepType, textOf } from "./step.js";

/** `fail`, `continue`, or the id of a step. */
export const onTimeout: Kind<string> = { ...id, name: '"fail" | "continue" | step id' };

export function timeoutEdges(target: string): Edge[] {
  return target === "fail" || target === "continue" ? [] : [{ label: "timeout", target, at: ["on_timeout"] }];
}

const SIGNAL_NAME = /^[A-Za-z0-9_.:-]{1,128}$/;
const SIGNAL_NAME_RULE = "must be 1 to 128 of A-Z a-z 0-9 _ . : -";

export const waitForSignal = stepType({
  name: "wait_for_signal",
  summary: "Waits for a signal, or takes the oldest one of its name that no step has taken yet.",
  attributes: {
    signal_name: required(text, "The signal's name."),
    timeout_ms: optional(number({ min: 0, max: LONGEST_WAIT_MS }), "How long to wait; for ever if absent."),
    on_timeout: defaulted(
      onTimeout,
      "fail",
      "`fail` (code `timeout`), `continue` with a null payload, or the step to go to.",
    ),
  },
  output: "the signal's payload; null after a timeout that goes on",
  pauses: true,
  check({ signal_name }, place) {
    if (signal_name.constant && !SIGNAL_NAME.test(String(signal_name.render({}))))
      place.at("signal_name").problem(SIGNAL_NAME_RULE);
  },
  edges: ({ on_timeout }) => timeoutEdges(on_timeout),
  enter({ attributes: { signal_name, timeout_ms }, scope, facts, run, maybeSignalled }) {
    const name = textOf(signal_name, scope, "signal_name");
    if (!SIGNAL_NAME.test(name)) throw new ExpressionError(`signal_name ${SIGNAL_NAME_RULE}`);
    if (run.dryRun) return { kind: "done", output: {} };
    if (maybeSignalled) {
      if (facts.signal === undefined) return { kind: "need", need: { kind: "signal", name } };
      if (facts.signal) return { kind: "done", output: facts.signal.payload, signal: facts.signal };
    }
    const timeout = timeout_ms === undefined ? undefined : durationOf(timeout_ms, scope, "timeout_ms");
    const due = timeout === undefined ? {} : { dueAt: facts.now + timeout };
    const look = run.family === undefined ? {} : ({ look: true } as const);
    return { kind: "wait", awaiting: "signal", name, wait: { kind: "signal", name, ...due, ...look } };
  },
});
