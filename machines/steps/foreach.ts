// `foreach`: runs its body once for each item, as child runs, at most `max_concurrency` of them at once.
import { defaulted, expression, localName, number, optional, required, stepId } from "../attribute/kinds.js";
import { ExpressionError } from "../expression/index.js";
import { RESERVED_NAMES } from "../expression/scope.js";
import type { EndedChild } from "../messages/fact.js";
import type { Json } from "../values/json.js";
import { spread } from "../values/secret.js";
import { failed, numberOf, type StepOutcome, stepType, tooLarge } from "./step.js";

export const foreach = stepType({
  name: "foreach",
  summary: "Runs its body for each item of a list, each as a child run.",
  attributes: {
    items: required(expression, "The list."),
    body: required(stepId, "The first step of the body."),
    item_var: optional(localName, "Another name for `item` in the body."),
    index_var: optional(localName, "Another name for `index` in the body."),
    max_concurrency: defaulted(number({ min: 0, whole: true }), 1, "Items that run at once; 0: all."),
    tolerated_failures: defaulted(number({ min: 0, whole: true }), 0, "Items that may fail."),
    max_items: defaulted(number({ min: 0, whole: true }), 10_000, "A longer list fails the step."),
  },
  output: "the items' outputs in input order; {error} where one failed",
  errors: "the error of the item that exceeded the tolerance, `cancelled`, `limit_exceeded`",
  pauses: true,
  block: {
    kind: "item",
    starts: ["body"],
    locals: ({ item_var: item = "item", index_var: index = "index" }) => ({ item, index }),
  },
  outputSchema: () => ({ type: "array" }),
  fits: ({ items }) => [{ at: ["items"], given: items, schema: { type: "array" }, by: "the list" }],
  nextWhen: () => "every item is done",
  check({ item_var, index_var }, place) {
    // A default may be spelled out.
    const names = [
      ["item_var", item_var, "item"],
      ["index_var", index_var, "index"],
    ] as const;
    for (const [attribute, name, own] of names) {
      if (name !== undefined && name !== own && RESERVED_NAMES.has(name))
        place.at(attribute).problem(`"${name}" is a reserved name`);
    }
    if (item_var !== undefined && item_var === index_var) place.at("index_var").problem("must differ from item_var");
  },
  enter({ attributes, scope, group, facts, groupEntry }) {
    // Evaluated at the entry as well: an error in it fails the step before any child starts.
    const tolerated = numberOf(attributes.tolerated_failures, scope, "tolerated_failures");
    if (!group)
      return begin(spread(attributes.items.evaluate(scope)), numberOf(attributes.max_items, scope, "max_items"));
    if (group.failed > tolerated) {
      if (group.running > 0) return { kind: "await_children", stop: "another item failed" };
      return { kind: "failed", error: group.verdict?.error ?? { code: "error", message: "an item failed" } };
    }
    if (group.running > 0 || group.started < group.total) return { kind: "await_children" };
    if (facts.ended === undefined) return { kind: "need", need: { kind: "ended", entry: groupEntry } };
    return facts.ended ? { kind: "done", output: facts.ended.map(itemOutput) } : tooLarge("the outputs of the items");

    function begin(items: Json, limit: number): StepOutcome {
      if (!Array.isArray(items)) throw new ExpressionError("items must be a list");
      if (items.length > limit)
        return failed("limit_exceeded", `there are ${items.length} items, over max_items (${limit})`);
      if (items.length === 0) return { kind: "done", output: [] };
      const window = Math.floor(numberOf(attributes.max_concurrency, scope, "max_concurrency")) || items.length;
      return { kind: "start_children", group: { kind: "items", total: items.length, window }, items };
    }
  },
});

function itemOutput({ state, output, error }: EndedChild): Json {
  return state === "succeeded" ? output : { error: { ...error } };
}
