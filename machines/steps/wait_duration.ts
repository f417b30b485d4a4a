// `wait_duration`: waits for a time.
import { number, optional, text } from "../attribute/kinds.js";
import { ExpressionError } from "../expression/index.js";
import { LONGEST_WAIT_MS, parseDuration } from "../values/time.js";
import { constantText } from "./named.js";
import { durationOf, millis, stepType } from "./step.js";
import { span, written } from "./words.js";

const NO_DURATION = "is not an ISO 8601 duration of weeks, days, hours, minutes and seconds, such as P1DT12H";

export const waitDuration = stepType({
  name: "wait_duration",
  summary: "Waits for a time.",
  attributes: {
    duration_ms: optional(number({ min: 0, max: LONGEST_WAIT_MS }), "Milliseconds."),
    duration: optional(text, "ISO 8601, such as PT15M, or a CEL duration as one whole template."),
  },
  pauses: true,
  check({ duration_ms, duration }, place) {
    if ((duration_ms === undefined) === (duration === undefined)) place.problem("needs either duration_ms or duration");
    if (!duration?.constant) return;
    const ms = parseDuration(String(duration.render({})));
    if (ms === undefined) place.at("duration").problem(NO_DURATION);
    else if (ms > LONGEST_WAIT_MS) place.at("duration").problem("is longer than ten years");
  },
  times({ duration_ms, duration }) {
    if (duration_ms !== undefined) return { duration_ms: millis(duration_ms) };
    const written = constantText(duration);
    return { duration: written === undefined ? undefined : parseDuration(written) };
  },
  nextWhen: ({ duration_ms, duration }) =>
    `after ${duration_ms === undefined ? duration && written(duration) : span(duration_ms)}`,
  enter({ attributes: { duration_ms, duration }, scope, facts, run }) {
    const source = duration_ms ?? isoMs(duration?.render(scope));
    const ms = durationOf(source, scope, duration_ms === undefined ? "duration" : "duration_ms");
    if (run.dryRun || ms <= 0) return { kind: "done" };
    return { kind: "wait", awaiting: "timer", wait: { kind: "timer", dueAt: facts.now + ms } };
  },
});

/** A CEL duration is rendered as milliseconds; a string is ISO 8601. */
function isoMs(rendered: unknown): number {
  const ms = typeof rendered === "number" ? rendered : parseDuration(String(rendered));
  if (ms === undefined || ms < 0) throw new ExpressionError(`duration ${NO_DURATION}`);
  return ms;
}
