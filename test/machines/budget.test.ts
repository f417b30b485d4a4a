// A document is weighed before it is compiled: 1.5 MB of anything ends with a problem that names the limit and the place.
// @module-tag both
import { describe, expect, it } from "vitest";
import { compileRule, compileWorkflow, type JsonObject, Schemas } from "../../machines/index.js";
import { LONG } from "../harness/long.js";

const schemas = new Schemas();
const options = { schemaProblems: (schema: JsonObject) => schemas.problems(schema) };
const many = <T>(count: number, of: (index: number) => T): T[] => Array.from({ length: count }, (_, n) => of(n));
const wf = (steps: readonly object[], head: object = {}) => ({ id: "w", name: "w", start: "s0", steps, ...head });
const chained = (of: (index: number) => object, count = 900) =>
  many(count, (n) => ({ id: `s${n}`, ...(n + 1 < count && { next: `s${n + 1}` }), ...of(n) }));

const OVER = /is over its budget of 400000 units/;

const OVER_BUDGET: readonly [string, object][] = [
  ["expressions", wf(chained((n) => ({ type: "transform", expression: `[${"1,".repeat(800)}${n}]` })))],
  ["templates", wf([{ id: "s0", type: "set_var", variables: { x: many(100_000, (n) => `\${inputs.a${n}}`) } }])],
  [
    "boolean schemas",
    wf(
      chained(() => ({ type: "noop" }), 2),
      { input_schema: { anyOf: many(200_000, () => false) } },
    ),
  ],
  ["schema objects", wf([{ id: "s0", type: "noop" }], { input_schema: { allOf: many(9_000, () => ({})) } })],
  [
    "patterns",
    wf([{ id: "s0", type: "noop" }], {
      input_schema: { allOf: many(900, () => ({ pattern: "a{1000}".repeat(9) })) },
    }),
  ],
  ["edges", wf(chained(() => ({ type: "switch", cases: many(90, (k) => ({ when: "true", next: `s${k}` })) })))],
];
/** Most of the compiler's time. */
const FAULTY: readonly [string, object][] = [
  ["what is faulty", wf(chained(() => ({ type: "merge", sources: many(100, () => "1 + 1 + ") })))],
];

describe("a document over its budget", () => {
  it.each(LONG ? FAULTY : OVER_BUDGET)("%s: one problem names the limit and the place", (_, document) => {
    const { program, problems } = compileWorkflow(document, options);
    expect(program).toBeUndefined();
    const over = problems.filter(({ message }) => OVER.test(message));
    expect(over).toHaveLength(1);
    expect(over[0]?.path).toMatch(/^\$\.(steps\[\d+\]|input_schema)/);
  });

  it("is refused as a rule, too", { tags: "short" }, () => {
    const rows = many(1_000, (n) => ({ when: `[${"1,".repeat(500)}${n}] == []`, then: {} }));
    const rule = { rule_id: "r", name: "r", rule_type: "decision_table", spec: { hit_policy: "first", rows } };
    expect(compileRule(rule).problems.map(({ message }) => message)).toContainEqual(expect.stringMatching(OVER));
    expect(compileRule(rule, { stored: true }).problems).toEqual([]);
  });

  it("is compiled if it is stored already", { tags: "long" }, () => {
    const document = wf(chained((n) => ({ type: "transform", expression: `[${"1,".repeat(300)}${n}]` })));
    expect(compileWorkflow(document, options).problems).toHaveLength(1);
    expect(compileWorkflow(document, { limits: null }).problems).toEqual([]);
  });

  it("an honest document of a thousand steps is within it", { tags: "short" }, () => {
    const step = () => ({
      type: "action",
      action: "shop.reserve",
      when: "vars.order.total > 100 && inputs.customer.tier in ['gold', 'silver']",
      inputs: { sku: "${inputs.sku}", amount: "${vars.order.total * 2}" },
    });
    expect(compileWorkflow(wf(chained(step, 1_000)), options).problems).toEqual([]);
  });
});
