// `try_catch`: runs a chain of steps in the run itself, and another one if an error comes out of it.
import {
  defaulted,
  flag,
  id,
  type Kind,
  list,
  number,
  optional,
  required,
  variableName,
} from "../definition/attribute.js";
import { LONGEST_WAIT_MS } from "../time.js";
import { durationOf, stepType } from "./step.js";

const pattern: Kind<string> = {
  name: "error code, may end in *",
  parse(raw, place) {
    if (typeof raw !== "string" || !/^[^*]{0,256}\*?$/.test(raw) || raw === "")
      return place.problem("must be an error code; a * may only end it");
    return raw;
  },
};

export const tryCatch = stepType({
  name: "try_catch",
  summary: "Runs a chain of steps; an error that comes out of it goes to another chain.",
  attributes: {
    try: required(id, "The first step of the chain that is tried."),
    catch: required(id, "The first step of the chain that takes the error; it sees `error`."),
    errors: defaulted(list(pattern, { min: 1, max: 100 }), ["*"], "The codes that are caught; they may end in `*`."),
    error_var: defaulted(variableName, "error", "The variable of the error; entering removes it."),
    rollback: defaulted(flag, false, "What completed inside is undone before the catch."),
    timeout_ms: optional(
      number({ min: 1, max: LONGEST_WAIT_MS }),
      "What is inside is cancelled then; code `timeout`, which its own catch may take.",
    ),
  },
  edges: (attributes) => [{ label: "catch", target: attributes.catch, at: ["catch"], catches: true }],
  blocks: (attributes) => [{ kind: "try", start: attributes.try, at: ["try"] }],
  enter({ attributes, scope, facts }) {
    const { timeout_ms, rollback, error_var: forgets } = attributes;
    const timeout =
      timeout_ms === undefined ? {} : { dueAt: facts.now + durationOf(timeout_ms, scope, "timeout_ms", 1) };
    return { kind: "inside", start: attributes.try, edge: "try", rollback, forgets, ...timeout };
  },
});
