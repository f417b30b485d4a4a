// `error`: fails deliberately, with a code of the workflow. Can be caught, is never retried.

import { optional, text, value } from "../attribute/kinds.js";
import { givenCode } from "../values/error-code.js";
import { codesOf } from "./named.js";
import { type Failure, shownText, stepType, textOf } from "./step.js";
import { written } from "./words.js";

export const error = stepType({
  name: "error",
  summary: "Fails with a code of the workflow's own.",
  attributes: {
    code: optional(
      text,
      "The error's code; without it the error that was caught last is raised again, else it is `error`.",
    ),
    message: optional(text, "What went wrong."),
    details: optional(value, "Anything else about the error."),
  },
  errors: "its `code`, by default `error`",
  last: true,
  alwaysFails: true,
  chartText: ({ code }) => (code ? `Raises ${written(code)}.` : "Raises the error that was caught last."),
  codes: ({ code }) => (code ? codesOf(code) : undefined),
  nextWhen: () => null,
  enter({ attributes: { code, message, details }, scope, caught }) {
    if (!code && caught) return { kind: "failed", error: caught };
    const failure: Failure = {
      code: code ? givenCode(textOf(code, scope, "code")) : "error",
      message: message ? shownText(message, scope, "message") : "the workflow raised an error",
    };
    return { kind: "failed", error: details ? { ...failure, details: details.render(scope) } : failure };
  },
});
