// `while`: repeats its body in the run itself while a condition holds. The run's frame counts the rounds.
import { defaulted, expression, type NumberSource, number, required, stepId } from "../attribute/kinds.js";
import { constantTruth, type Scope } from "../expression/index.js";
import { LONGEST_WAIT_MS } from "../values/time.js";
import { durationOf, failed, numberOf, stepType } from "./step.js";
import { excerpt } from "./words.js";

const MAX_ROUNDS = 10_000;

export const whileStep = stepType({
  name: "while",
  summary: "Repeats its body while a condition holds; the condition is checked before each round.",
  attributes: {
    condition: required(expression, "Checked before each round; sees `iteration`, from 0."),
    body: required(stepId, "The first step of a round."),
    max_iterations: defaulted(
      number({ min: 1, max: MAX_ROUNDS, whole: true }),
      1000,
      "The most rounds; one more fails: loop_limit_exceeded.",
    ),
    delay_ms: defaulted(number({ min: 0, max: LONGEST_WAIT_MS }), 0, "The delay between two rounds."),
    keep_last: defaulted(number({ min: 0, max: MAX_ROUNDS, whole: true }), 10, "Rounds whose outputs are kept."),
  },
  output: "the last rounds' outputs",
  errors: "errors from its body, `loop_limit_exceeded`",
  pauses: true,
  block: { kind: "while", starts: ["body"], when: ({ condition }) => excerpt(condition.source) },
  outputSchema: () => ({ type: "array" }),
  doubts: ({ condition }) =>
    constantTruth(condition) === false
      ? [{ code: "condition_constant", at: ["condition"], message: "is always false: the body never runs" }]
      : [],
  nextWhen: ({ condition }) => `unless ${excerpt(condition.source)}`,
  enter({ attributes, scope, frame, facts, run, waited }) {
    const { iteration, outputs, most, keep } =
      frame?.kind === "while" ? frame : { iteration: 0, outputs: [], ...roundsOf(attributes, scope) };
    const within = { ...scope, iteration };
    if (!attributes.condition.test(within)) return { kind: "done", output: [...outputs] };
    if (iteration >= most) return failed("loop_limit_exceeded", `the loop has run ${most} rounds`);
    const delay = run.dryRun || iteration === 0 ? 0 : durationOf(attributes.delay_ms, within, "delay_ms");
    if (delay > 0 && !waited)
      return { kind: "wait", awaiting: "timer", wait: { kind: "timer", dueAt: facts.now + delay } };
    return { kind: "enter_block", start: attributes.body, edge: "while", rounds: { most, keep } };
  },
});

function roundsOf(
  { max_iterations, keep_last }: { max_iterations: NumberSource; keep_last: NumberSource },
  scope: Scope,
): { most: number; keep: number } {
  const bounded = (source: NumberSource, name: string, min: number) =>
    Math.min(Math.floor(numberOf(source, scope, name, min)), MAX_ROUNDS);
  return { most: bounded(max_iterations, "max_iterations", 1), keep: bounded(keep_last, "keep_last", 0) };
}
