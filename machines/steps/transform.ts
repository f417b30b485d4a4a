// `transform`: computes a value from the run's data.
import { expression, optional, value } from "../attribute/kinds.js";
import { isNull, stepType } from "./step.js";

export const transform = stepType({
  name: "transform",
  summary: "Computes a value.",
  attributes: {
    expression: optional(expression, "The value, as CEL."),
    template: optional(value, "The value, as a document with templates inside."),
  },
  output: "the value",
  check({ expression, template }, place) {
    if ((expression === undefined) === (template === undefined) && !isNull(template))
      place.problem("needs either expression or template");
  },
  enter: ({ attributes: { expression, template }, scope }) => ({
    kind: "done",
    output: expression?.evaluate(scope) ?? template?.render(scope) ?? null,
  }),
});
