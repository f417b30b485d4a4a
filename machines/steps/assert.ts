// `assert`: fails unless a condition holds. Never retried.

import { defaulted, expression, optional, required, text } from "../attribute/kinds.js";
import { type EngineErrorCode, givenCode } from "../values/error-code.js";
import { failed, stepType, textOf } from "./step.js";

export const assert = stepType({
  name: "assert",
  summary: "Fails unless the condition holds.",
  attributes: {
    condition: required(expression, "Must be truthy."),
    message: optional(text, "The error's message."),
    code: defaulted(text, "assertion_failed" satisfies EngineErrorCode, "The error's code."),
  },
  errors: "its `code`, by default `assertion_failed`",
  enter({ attributes: { condition, message, code }, scope }) {
    if (condition.test(scope)) return { kind: "done" };
    return failed(
      givenCode(textOf(code, scope, "code")),
      message ? textOf(message, scope, "message") : `the condition does not hold: ${condition.source}`,
    );
  },
});
