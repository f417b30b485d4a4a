// A document is compiled in slices, so that its compiler may do something else between them. How long a slice takes is printed; how many
// there are, and what one holds, is checked.
import { afterAll, describe, expect, it } from "vitest";
import {
  type Compiled,
  compileRule,
  compileRuleSlices,
  compileWorkflow,
  compileWorkflowSlices,
  inOnePiece,
  type JsonObject,
  type Slices,
} from "../../machines/index.js";
import { computing } from "../harness/computing.js";

const many = <T>(count: number, of: (index: number) => T): T[] => Array.from({ length: count }, (_, n) => of(n));
const wf = (steps: readonly object[]) => ({ id: "w", name: "w", start: "s0", steps });
const chained = (count: number, of: (index: number) => object) =>
  many(count, (n) => ({ id: `s${n}`, ...(n + 1 < count && { next: `s${n + 1}` }), ...of(n) }));

const printed: string[] = [];
afterAll(() => console.log(`longest slices: ${printed.join(", ")}`));

function slicesOf<T>(what: string, slices: Slices<T>): { readonly count: number; readonly result: T } {
  let [count, longest] = [0, 0];
  for (;;) {
    const slice = computing(
      () => slices.next(),
      (ms) => {
        longest = Math.max(longest, ms);
      },
    );
    count++;
    if (!slice.done) continue;
    printed.push(`${what} ${longest.toFixed(0)} ms of ${count}`);
    return { count, result: slice.value };
  }
}

const HONEST = wf(
  chained(1_000, (n) => ({
    type: "transform",
    when: "inputs.total_amount > 100 && inputs.customer.country == 'DE'",
    save_as: `v${n}`,
    expression: "inputs.items.filter(i, i.price > 10.0).map(i, i.price * 2.0)",
  })),
);
const TEMPLATES = wf([{ id: "s0", type: "set_var", variables: { x: many(18_000, (n) => `\${inputs.a${n}}`) } }]);
const LARGE = wf(chained(45, (n) => ({ type: "transform", expression: `[${"1,".repeat(3_900)}${n}]` })));
/** Two on each step of the one chain for each try. */
const TRIES = wf([
  ...many(300, (n) => ({
    id: `s${n}`,
    type: "try_catch",
    try: `t${n}`,
    catch: "c0",
    ...(n < 299 && { next: `s${n + 1}` }),
  })),
  ...many(300, (n) => ({ id: `t${n}`, type: "noop" })),
  ...many(300, (n) => ({ id: `c${n}`, type: "log", message: "x", ...(n < 299 && { next: `c${n + 1}` }) })),
]);

describe("a workflow document", () => {
  it.each<[string, JsonObject, number]>([
    ["a thousand steps with two expressions each", HONEST as unknown as JsonObject, 3_000],
    ["one step with 18,000 templates", TEMPLATES as unknown as JsonObject, 18_000],
    ["45 expressions of 8 KB", LARGE as unknown as JsonObject, 90],
  ])("is read a step and an expression at a time: %s", (what, document, least) => {
    const { count, result } = slicesOf(what, compileWorkflowSlices(document));
    expect(result.problems).toEqual([]);
    expect(result.program).toBeDefined();
    expect(count).toBeGreaterThan(least);
  });

  it("has the same problems in the same order, whether it is read in slices or in one piece", () => {
    const faulty = wf([
      { id: "s0", type: "merge", sources: ["{'a': 1}", "1 +", 2], strategy: "wild", next: "s1" },
      { id: "s1", type: "set_var", when: "((", variables: { a: "${1 +", b: "${)}" }, nxt: "s0" },
    ]);
    const lines = ({ problems }: Compiled) => problems.map(({ path, message }) => `${path}: ${message}`);
    expect(lines(inOnePiece(compileWorkflowSlices(faulty)))).toEqual(lines(compileWorkflow(faulty)));
    expect(compileWorkflow(faulty).problems.map(({ path }) => path)).toEqual([
      "$.steps[0].sources[1]",
      "$.steps[0].sources[2]",
      "$.steps[0].strategy",
      "$.steps[1].when",
      "$.steps[1].nxt",
      "$.steps[1].variables.a",
      "$.steps[1].variables.b",
    ]);
  });

  it("whose steps are in the catch chains of many tries is weighed with the edges that this makes", () => {
    const { result } = slicesOf("300 tries with one chain", compileWorkflowSlices(TRIES));
    expect(result.problems).toHaveLength(1);
    expect(result.problems[0]?.message).toContain("is over its budget");
  });
});

describe("a rule document", () => {
  const rows = many(1_000, (n) => ({ when: `inputs.amount > ${n} && inputs.country == 'DE'`, then: { n } }));
  const rule = { rule_id: "r", name: "r", rule_type: "decision_table", spec: { hit_policy: "first", rows } };

  it("is read an expression at a time", () => {
    const { count, result } = slicesOf("a rule of 1,000 rows", compileRuleSlices(rule));
    expect(result.rule?.rows).toHaveLength(1_000);
    expect(count).toBeGreaterThan(1_000);
  });

  it("that is stored parses a condition when it is first evaluated", () => {
    const faulty = { ...rule, spec: { hit_policy: "first", rows: [{ when: "1 +", then: {} }] } };
    expect(compileRule(faulty).problems).toHaveLength(1);
    const { rule: stored } = compileRule(faulty, { stored: true });
    expect(() => stored?.rows[0]?.when.test({})).toThrow("the expression does not compile");
  });
});
