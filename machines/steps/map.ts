// `map`: computes a value from every item of a list, in the step itself. `foreach` runs steps for every item.
import { expression, optional, required, value } from "../attribute/kinds.js";
import { forEachItem } from "../expression/index.js";
import { isNull, listOf, stepType } from "./step.js";

export const map = stepType({
  name: "map",
  summary: "Computes a value from every item of a list.",
  attributes: {
    items: required(expression, "The list."),
    expression: optional(expression, "The value, as CEL; sees `item` and `index`."),
    template: optional(value, "The value, as a document with templates inside; sees `item` and `index`."),
  },
  output: "the values, in the order of the items",
  outputSchema: () => ({ type: "array" }),
  fits: ({ items }) => [{ at: ["items"], given: items, schema: { type: "array" }, by: "the list" }],
  check({ expression, template }, place) {
    if ((expression === undefined) === (template === undefined) && !isNull(template))
      place.problem("needs either expression or template");
  },
  enter({ attributes: { items, expression, template }, scope }) {
    const all = listOf(items, scope, "items");
    if (expression)
      return { kind: "done", output: forEachItem(all, scope, expression, (round) => expression.evaluate(round)) };
    return {
      kind: "done",
      output: template ? forEachItem(all, scope, template, (round) => template.render(round)) : [],
    };
  },
});
