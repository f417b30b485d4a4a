// No workflow can stall a node: hostile expressions, patterns and templates end with an error or a value within the budget of one step.
// The longest hold of the event loop is printed. JSON Schemas: test/machines/schema/hostile.test.ts.
// @module-tag both
import { afterAll, describe, expect, it } from "vitest";
import {
  compileExpression,
  compileTemplate,
  ExpressionError,
  ExpressionSyntaxError,
  withFuel,
} from "../../machines/expression/index.js";
import { computing } from "../harness/computing.js";
import { LONG } from "../harness/long.js";
import { EXPRESSIONS, LARGE, TEMPLATES, UNCOMPILED } from "./hostile-sources.js";

/** Far above the time of any of them (the aim is 50 ms), so that a busy machine does not fail the test. */
const STALL_MS = 750;

interface Hold {
  readonly ms: number;
  readonly what: string;
}
const holds: Hold[] = [];
const endings = { value: 0, error: 0 };

function held(what: string, work: () => unknown): unknown {
  try {
    return computing(work, (ms) => holds.push({ ms, what }));
  } catch (error) {
    return error;
  }
}

function ends(what: string, work: () => unknown): unknown {
  const result = held(what, work);
  if (result instanceof Error) expect(result, what).toBeInstanceOf(ExpressionError);
  endings[result instanceof Error ? "error" : "value"]++;
  expect(holds.at(-1)?.ms, what).toBeLessThan(STALL_MS);
  return result;
}

/** These cannot have a result: a budget that is not kept shows here before it shows in the time. */
const OVER_BUDGET = ["nested", "absorbing"];

/** Each of them uses up its budget. The short form has some of every kind. */
const chosen = (sources: readonly string[]) => (LONG ? sources : sources.filter((_, nth) => nth % 3 === 0));

describe.each(Object.entries(EXPRESSIONS))("%s", (kind, sources) => {
  it.each(chosen(sources).map((source) => [source.length > 70 ? `${source.slice(0, 70)}…` : source, source]))(
    "%s",
    (_, source) => {
      const expression = compileExpression(source);
      const result = ends(source, () => expression.evaluate(LARGE));
      if (OVER_BUDGET.includes(kind)) expect(String(result)).toContain("the expression used up its step budget");
    },
  );
});

describe("budgets", () => {
  it.each(Object.entries(TEMPLATES))("a template: %s", (what, document) => {
    const template = compileTemplate(document);
    ends(what, () => template.render(LARGE));
  });

  it.each(UNCOMPILED)("at publish: %s", (what, source) => {
    expect(held(what, () => compileExpression(source))).toBeInstanceOf(ExpressionSyntaxError);
    expect(holds.at(-1)?.ms).toBeLessThan(STALL_MS);
  });

  it("all expressions of one step share a budget, also where each alone has enough", () => {
    const honest = compileExpression("vars.list.all(x, x.price >= 0 && x.name != '')");
    expect(honest.evaluate(LARGE)).toBe(true);
    const step = () => withFuel(() => Array.from({ length: 1000 }, () => honest.test(LARGE)));
    expect(held("a step of a thousand expressions", step)).toBeInstanceOf(ExpressionError);
    expect(holds.at(-1)?.ms).toBeLessThan(STALL_MS);
  });
});

afterAll(() => {
  const longest = [...holds].sort((a, b) => b.ms - a.ms).slice(0, 3);
  const text = longest.map(({ ms, what }) => `${ms.toFixed(0)} ms ${what.slice(0, 60)}`).join("; ");
  console.log(
    `${holds.length} hostile sources, ${endings.error} errors, ${endings.value} values. Longest holds: ${text}`,
  );
});
