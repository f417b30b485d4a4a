// The steps that work on objects and lists: merge, filter, map.
import { describe, expect, it } from "vitest";
import { attribute, type Draft, failureOf, finish, problemsOf } from "./rig.js";

const INPUTS = {
  base: { a: 1, deep: { x: 1, list: [1, 2], same: { p: 1 } }, gone: { q: 1 } },
  patch: { b: 2, deep: { y: 2, list: [3], same: { r: 2 } }, gone: null },
  rows: [
    { sku: "pen", price: 2, n: 3 },
    { sku: "book", price: 20, n: 1 },
    { sku: "desk", price: 300, n: 1 },
  ],
  item: "outer",
};
const run = (step: Draft, inputs: object = INPUTS) => finish([step], { inputs: inputs as never });
const outputOf = (step: Draft, inputs?: object) => run(step, inputs).context.output;
const merge = (more: Record<string, unknown> = {}): Draft => ({
  type: "merge",
  sources: ["inputs.base", "inputs.patch"],
  ...more,
});

describe("merge, filter and map", () => {
  attribute("merge.sources", "a later one wins, each being CEL", () => {
    expect(outputOf({ type: "merge", sources: ["{'a': 1, 'b': 1}", "{'b': 2}", "{'c': inputs.item}"] })).toEqual({
      a: 1,
      b: 2,
      c: "outer",
    });
    expect(outputOf({ type: "merge", sources: ["inputs.base"] })).toEqual(INPUTS.base);
    expect(failureOf(run({ type: "merge", sources: ["inputs.base", "inputs.rows"] }))).toBe(
      "expression_error: sources[1] must be an object",
    );
    expect(failureOf(run({ type: "merge", sources: ["null"] }))).toBe("expression_error: sources[0] must be an object");
    expect(failureOf(run({ type: "merge", sources: ["vars.nowhere"] }))).toBe(
      'expression_error: missing key "nowhere": vars.nowhere in steps[0].sources[0]',
    );
  });

  attribute("merge.sources", "are checked: a list of 1 to 100 expressions", () => {
    expect(problemsOf({ type: "merge" })).toEqual([".sources: is required"]);
    expect(problemsOf({ type: "merge", sources: "inputs" })).toEqual([".sources: must be a list"]);
    expect(problemsOf({ type: "merge", sources: [] })).toEqual([".sources: must have at least 1 item"]);
    expect(problemsOf({ type: "merge", sources: Array(101).fill("inputs") })).toEqual([
      ".sources: must have at most 100 items",
    ]);
    expect(problemsOf({ type: "merge", sources: ["inputs", { a: 1 }] })).toEqual([
      ".sources[1]: must be a CEL expression (a string)",
    ]);
  });

  attribute("merge.strategy", "shallow by default: a member replaces a member, whatever it is", () => {
    const shallow = { a: 1, b: 2, deep: INPUTS.patch.deep, gone: null };
    expect(outputOf(merge())).toEqual(shallow);
    expect(outputOf(merge({ strategy: "shallow" }))).toEqual(shallow);
    expect(problemsOf(merge({ strategy: "wide" }))).toEqual([".strategy: must be one of shallow, deep"]);
    expect(problemsOf(merge({ strategy: 1 }))).toEqual([".strategy: must be one of shallow, deep"]);
  });

  attribute("merge.strategy", "deep: objects that meet are merged, arrays and all else are replaced", () => {
    const deep = { a: 1, b: 2, deep: { x: 1, y: 2, list: [3], same: { p: 1, r: 2 } }, gone: null };
    expect(outputOf(merge({ strategy: "deep" }))).toEqual(deep);
    // A value between two objects cuts what is below it off.
    const cut = { type: "merge", strategy: "deep", sources: ["{'a': {'x': 1}}", "{'a': 1}", "{'a': {'y': 2}}"] };
    expect(outputOf(cut)).toEqual({ a: { y: 2 } });
  });

  it("merge: its sources stay as they were", () => {
    const before = structuredClone(INPUTS);
    const merged = run(merge({ strategy: "deep" }));
    expect(INPUTS).toEqual(before);
    expect(merged.context.variables.s).not.toBe(INPUTS.base);
  });

  it("merge: a member named __proto__ reaches no prototype", () => {
    const hostile = JSON.parse('{"one": {"__proto__": {"polluted": 1}}, "two": {"__proto__": {"polluted": 2}}}');
    for (const strategy of ["shallow", "deep"]) {
      const merged = outputOf(merge({ strategy, sources: ["inputs.one", "inputs.two"] }), hostile) as object;
      expect(Object.getPrototypeOf(merged)).toBe(Object.prototype);
      expect(Object.keys(merged)).toEqual(["__proto__"]);
    }
    expect(({} as { polluted?: number }).polluted).toBeUndefined();
  });

  it("merge: a hundred sources of a thousand members each take no longer than their members", () => {
    const wide = Object.fromEntries(Array.from({ length: 1_000 }, (_, index) => [`k${index}`, { n: index }]));
    const merged = outputOf(merge({ strategy: "deep", sources: Array(100).fill("inputs") }), wide);
    expect(merged).toEqual(wide);
  });

  const filter = (more: Record<string, unknown> = {}): Draft => ({
    type: "filter",
    items: "inputs.rows",
    condition: "item.price > 10",
    ...more,
  });

  attribute("filter.items", "is a list, by CEL, in the scope of the run", () => {
    expect(outputOf(filter({ items: "[3, 30]", condition: "item > 10" }))).toEqual([30]);
    expect(outputOf(filter({ items: "[]" }))).toEqual([]);
    expect(failureOf(run(filter({ items: "inputs.base" })))).toBe("expression_error: items must be a list");
    expect(failureOf(run(filter({ items: "null" })))).toBe("expression_error: items must be a list");
    expect(failureOf(run(filter({ items: "item" })))).toBe(
      'expression_error: unknown name "item": item in steps[0].items',
    );
    expect(problemsOf({ type: "filter", condition: "true" })).toEqual([".items: is required"]);
    expect(problemsOf(filter({ items: [1] }))).toEqual([".items: must be a CEL expression (a string)"]);
  });

  attribute("filter.condition", "keeps an item when truthy, and sees item and index beside the run", () => {
    expect(outputOf(filter())).toEqual([INPUTS.rows[1], INPUTS.rows[2]]);
    expect(outputOf(filter({ condition: "index != 1" }))).toEqual([INPUTS.rows[0], INPUTS.rows[2]]);
    expect(outputOf(filter({ condition: "inputs.item == 'outer'" }))).toEqual(INPUTS.rows);
    expect(outputOf(filter({ items: "[0, 1, '', 'x', [], [1], null, true]", condition: "item" }))).toEqual([
      1,
      "x",
      [1],
      true,
    ]);
    expect(failureOf(run(filter({ condition: "item.colour == 'red'" })))).toBe(
      "expression_error: missing key \"colour\": item.colour == 'red' in steps[0].condition",
    );
    expect(problemsOf({ type: "filter", items: "[]" })).toEqual([".condition: is required"]);
    expect(problemsOf(filter({ condition: "item >" }))).toEqual([
      expect.stringMatching(/^\.condition: .*\(at character \d+\)$/),
    ]);
  });

  const map = (more: Record<string, unknown> = {}): Draft => ({
    type: "map",
    items: "inputs.rows",
    expression: "item.price * item.n",
    ...more,
  });
  const template = (of: unknown) => map({ expression: undefined, template: of });
  /** The step as a document has it: a member that is undefined is none. */
  const asPosted = (step: Draft): Draft => JSON.parse(JSON.stringify(step));

  attribute("map.items", "is a list, and an empty one maps to an empty one", () => {
    expect(outputOf(map({ items: "inputs.rows.filter(r, r.n == 1)" }))).toEqual([20, 300]);
    expect(outputOf(map({ items: "[]" }))).toEqual([]);
    expect(outputOf(asPosted(template({ a: 1 })), { rows: [] })).toEqual([]);
    expect(failureOf(run(map({ items: "inputs.item" })))).toBe("expression_error: items must be a list");
    expect(problemsOf({ type: "map", expression: "item" })).toEqual([".items: is required"]);
  });

  attribute("map.expression", "is the value of each item, as CEL, with item and index", () => {
    expect(outputOf(map())).toEqual([6, 20, 300]);
    expect(outputOf(map({ expression: "[index, item.sku, inputs.item]" }))).toEqual([
      [0, "pen", "outer"],
      [1, "book", "outer"],
      [2, "desk", "outer"],
    ]);
    expect(outputOf(map({ expression: "null" }))).toEqual([null, null, null]);
    expect(failureOf(run(map({ expression: "item.nothing" })))).toBe(
      'expression_error: missing key "nothing": item.nothing in steps[0].expression',
    );
  });

  attribute("map.template", "is a document with templates inside; one of the two is needed", () => {
    expect(outputOf(asPosted(template({ line: "${index + 1}: ${item.sku}", n: "${item.n}", fixed: [1] })))).toEqual([
      { line: "1: pen", n: 3, fixed: [1] },
      { line: "2: book", n: 1, fixed: [1] },
      { line: "3: desk", n: 1, fixed: [1] },
    ]);
    expect(outputOf(asPosted(template("same")))).toEqual(["same", "same", "same"]);
    const either = [": needs either expression or template"];
    expect(problemsOf({ type: "map", items: "[]" })).toEqual(either);
    expect(problemsOf(map({ template: "x" }))).toEqual(either);
  });

  const LONG = { rows: Array.from({ length: 10_000 }, (_, n) => ({ n, price: n })) };

  it("filter, map: ten thousand items are within the budget of one step", () => {
    expect(outputOf(filter({ condition: "item.price >= 9998" }), LONG)).toHaveLength(2);
    expect(outputOf(map({ expression: "item.price + 1" }), LONG)).toHaveLength(10_000);
  });

  it("filter, map: all items share one budget, and it ends", () => {
    const spent = /^expression_error: the expression used up its step budget: .* in steps\[0\]\./;
    const each = "[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, a + b > 0))";
    expect(failureOf(run(filter({ condition: each }), LONG))).toMatch(spent);
    expect(failureOf(run(map({ expression: each }), LONG))).toMatch(spent);
    expect(failureOf(run(asPosted(template({ a: [`\${${each}}`] })), LONG))).toMatch(spent);
  });

  it("map: a large value in every item of the result is refused before it is one", () => {
    const big = { rows: LONG.rows, text: "x".repeat(100_000) };
    const tooLarge = /^expression_error: the result is too large: inputs\.text in steps\[0\]\.(expression|template)$/;
    expect(failureOf(run(map({ expression: "inputs.text" }), big))).toMatch(tooLarge);
    expect(failureOf(run(asPosted(template("${inputs.text}")), big))).toMatch(tooLarge);
  });

  it("a failed merge, filter or map stores its error, and the run goes on where on_error says", () => {
    for (const step of [merge({ sources: ["1"] }), filter({ items: "1" }), map({ items: "1" })]) {
      const run = finish([{ ...step, on_error: "continue", next: "s2" }, { type: "noop" }], { inputs: INPUTS });
      expect(run.state).toBe("succeeded");
      expect(run.context.variables.s).toMatchObject({ error: { code: "expression_error", step_id: "s" } });
    }
  });
});
