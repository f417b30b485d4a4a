// `wait_until`: waits until a point in time. A past one does not wait.
import { required, text } from "../attribute/kinds.js";
import { ExpressionError } from "../expression/index.js";
import { LONGEST_WAIT_MS, parseInstant } from "../values/time.js";
import { stepType, textOf } from "./step.js";
import { written } from "./words.js";

export const waitUntil = stepType({
  name: "wait_until",
  summary: "Waits until a point in time.",
  attributes: { until: required(text, "RFC 3339, or a CEL timestamp as one whole template.") },
  pauses: true,
  check({ until }, place) {
    if (until.constant && parseInstant(String(until.render({}))) === undefined)
      place.at("until").problem("is not an RFC 3339 time");
  },
  nextWhen: ({ until }) => `at ${written(until)}`,
  enter({ attributes, scope, facts, run }) {
    const dueAt = parseInstant(textOf(attributes.until, scope, "until"));
    if (dueAt === undefined) throw new ExpressionError("until is not an RFC 3339 time");
    if (dueAt > facts.now + LONGEST_WAIT_MS) throw new ExpressionError("the wait is longer than ten years");
    if (run.dryRun || dueAt <= facts.now) return { kind: "done" };
    return { kind: "wait", awaiting: "timer", wait: { kind: "timer", dueAt } };
  },
});
