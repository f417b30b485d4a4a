// `map`: makes a value of every item of a list, one after the other and here. Steps for every item are a `foreach`.
import { expression, optional, required, value } from "../definition/attribute.js";
import { forEachItem } from "../expression/index.js";
import { listOf, stepType } from "./step.js";

export const map = stepType({
  name: "map",
  summary: "Makes a value of every item of a list.",
  attributes: {
    items: required(expression, "The list."),
    expression: optional(expression, "The value, as CEL; sees `item` and `index`."),
    template: optional(value, "The value, as a document with templates inside; sees `item` and `index`."),
  },
  output: "the values, in the order of the items",
  check({ expression, template }, place) {
    if ((expression === undefined) === (template === undefined)) place.problem("needs either expression or template");
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
