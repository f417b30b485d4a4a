// `filter`: keeps the items of a list for which a condition holds.
import { expression, required } from "../attribute/kinds.js";
import { forEachItem } from "../expression/index.js";
import { listOf, stepType } from "./step.js";

export const filter = stepType({
  name: "filter",
  summary: "Keeps the items for which the condition holds.",
  attributes: {
    items: required(expression, "The list."),
    condition: required(expression, "Keeps an item when truthy; sees `item` and `index`."),
  },
  output: "the items kept, in their order",
  outputSchema: () => ({ type: "array" }),
  fits: ({ items }) => [{ at: ["items"], given: items, schema: { type: "array" }, by: "the list" }],
  enter({ attributes: { items, condition }, scope }) {
    const all = listOf(items, scope, "items");
    const kept = forEachItem(all, scope, condition, (round) => condition.test(round));
    return { kind: "done", output: all.filter((_, index) => kept[index]) };
  },
});
