// `error`: fails, by the workflow's own will. Catchable, never retried.
import { optional, text, value } from "../definition/attribute.js";
import { stepType, textOf } from "./step.js";

export const error = stepType({
  name: "error",
  summary: "Fails with a code of the workflow's own.",
  attributes: {
    code: optional(
      text,
      "The error's code; without it the error that was caught last is raised again, else it is `error`.",
    ),
    message: optional(text, "What went wrong."),
    details: optional(value, "Anything more to say."),
  },
  last: true,
  enter({ attributes: { code, message, details }, scope, caught }) {
    if (!code && caught) return { kind: "failed", error: caught };
    const failure = {
      code: code ? textOf(code, scope, "code") : "error",
      message: message ? textOf(message, scope, "message") : "the workflow raised an error",
    };
    return { kind: "failed", error: details ? { ...failure, details: details.render(scope) } : failure };
  },
});
