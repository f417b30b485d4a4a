// `try_catch`: runs a chain of steps in the run itself, and its catch chain if an error leaves the first one.
import { list } from "../attribute/composite.js";
import {
  defaulted,
  flag,
  id,
  type Kind,
  naming,
  number,
  optional,
  required,
  stepId,
  variableName,
} from "../attribute/kinds.js";
import { LONGEST_WAIT_MS } from "../values/time.js";
import { durationOf, millis, stepType } from "./step.js";
import { excerpt } from "./words.js";

const pattern: Kind<string> = {
  name: "error code, may end in *",
  written: { type: "string", pattern: "^[^*]{0,256}\\*?$", minLength: 1 },
  parse(raw, place) {
    if (typeof raw !== "string" || !/^[^*]{0,256}\*?$/.test(raw) || raw === "")
      return place.problem("must be an error code; a * is allowed at its end only");
    return raw;
  },
};

const caught = (errors: readonly string[]) =>
  errors.includes("*") ? "any error caught" : `error ${excerpt(errors.join(", "))} caught`;

export const tryCatch = stepType({
  name: "try_catch",
  summary: "Runs a chain of steps; an error that leaves it goes to another chain.",
  attributes: {
    try: required(stepId, "The first step of the chain that is tried."),
    catch: required(naming("handler", id), "The first step of the chain that handles the error; it sees `error`."),
    errors: defaulted(list(pattern, { min: 1, max: 100 }), ["*"], "The codes that are caught; they may end in `*`."),
    error_var: defaulted(variableName, "error", "The variable of the error; entering removes it."),
    rollback: defaulted(flag, false, "Undoes the completed steps of the try before the catch."),
    timeout_ms: optional(
      number({ min: 1, max: LONGEST_WAIT_MS }),
      "After this time everything inside is cancelled; code `timeout`, which its own catch may handle.",
    ),
  },
  edges: ({ errors, catch: target }) => [
    { label: "catch", target, at: ["catch"], catches: true, when: caught(errors) },
  ],
  errors: "uncaught errors from inside, `timeout`",
  variables: "caught",
  block: { kind: "try", starts: ["try"] },
  catches: ({ errors, error_var: variable }) => ({ errors, variable }),
  times: ({ timeout_ms }) => (timeout_ms === undefined ? {} : { timeout_ms: millis(timeout_ms) }),
  nextWhen: () => "the try, or its catch, is done",
  enter({ attributes, scope, facts }) {
    const { timeout_ms, rollback, error_var: removes } = attributes;
    const timeout =
      timeout_ms === undefined ? {} : { dueAt: facts.now + durationOf(timeout_ms, scope, "timeout_ms", 1) };
    return { kind: "enter_block", start: attributes.try, edge: "try", rollback, removes, ...timeout };
  },
});
