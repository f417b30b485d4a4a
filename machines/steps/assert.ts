// `assert`: fails unless a condition holds. Never retried.

import { defaulted, expression, optional, required, text } from "../attribute/kinds.js";
import { constantTruth } from "../expression/index.js";
import { type EngineErrorCode, givenCode } from "../values/error-code.js";
import { codesOf } from "./named.js";
import { failed, shownText, stepType, textOf } from "./step.js";

export const assert = stepType({
  name: "assert",
  summary: "Fails unless the condition holds.",
  attributes: {
    condition: required(expression, "Must be truthy."),
    message: optional(text, "The error's message."),
    code: defaulted(text, "assertion_failed" satisfies EngineErrorCode, "The error's code."),
  },
  errors: "its `code`, by default `assertion_failed`",
  codes: ({ code }) => codesOf(code),
  doubts({ condition }) {
    const truth = constantTruth(condition);
    const message = truth ? "is always true: the step checks nothing" : "is always false: the step always fails";
    return truth === undefined ? [] : [{ code: "condition_constant", at: ["condition"], message }];
  },
  enter({ attributes: { condition, message, code }, scope }) {
    if (condition.test(scope)) return { kind: "done" };
    return failed(
      givenCode(textOf(code, scope, "code")),
      message ? shownText(message, scope, "message") : `the condition does not hold: ${condition.source}`,
    );
  },
});
