// Nothing that a workflow can say stalls a node: hostile expressions, patterns and templates end as errors, or as values, within
// the budget of one step. The longest hold of the event loop is printed. JSON Schemas: test/run/hostile-schemas.test.ts.
import { afterAll, describe, expect, test } from "vitest";
import {
  burn,
  compileExpression,
  compileTemplate,
  ExpressionError,
  ExpressionSyntaxError,
  warmUp,
} from "../../machines/expression/index.js";
import { EXPRESSIONS, LARGE, TEMPLATES, UNCOMPILED } from "./hostile-sources.js";

/** Far over what any of them takes (the aim is 50), far under what would be missed: a machine that is busy must not fail this. */
const STALL_MS = 750;

interface Hold {
  readonly ms: number;
  readonly what: string;
}
const holds: Hold[] = [];
const endings = { value: 0, error: 0 };

/** On a busy machine the clock says too much, on an idle one the processor does (V8 has helper threads): the lesser is right. */
function held(what: string, work: () => unknown): unknown {
  const before = process.cpuUsage();
  const began = performance.now();
  try {
    return work();
  } catch (error) {
    return error;
  } finally {
    const { user, system } = process.cpuUsage(before);
    holds.push({ ms: Math.min((user + system) / 1000, performance.now() - began), what });
  }
}

function ends(what: string, work: () => unknown): void {
  const result = held(what, work);
  if (result instanceof Error) expect(result, what).toBeInstanceOf(ExpressionError);
  endings[result instanceof Error ? "error" : "value"]++;
  expect(holds.at(-1)?.ms, what).toBeLessThan(STALL_MS);
}

warmUp();

describe.each(Object.entries(EXPRESSIONS))("%s", (_, sources) => {
  test.each(sources.map((source) => [source.length > 70 ? `${source.slice(0, 70)}…` : source, source]))(
    "%s",
    (_, source) => {
      const expression = compileExpression(source);
      ends(source, () => expression.evaluate(LARGE));
    },
  );
});

/** These cannot be values: a budget that is not kept would show here before it shows in the time. */
test.each([...(EXPRESSIONS.nested ?? []), ...(EXPRESSIONS.absorbing ?? [])])("is over its budget: %s", (source) => {
  const expression = compileExpression(source);
  expect(() => expression.evaluate(LARGE)).toThrow("the expression used up its step budget");
});

test.each(Object.entries(TEMPLATES))("a template: %s", (what, document) => {
  const template = compileTemplate(document);
  ends(what, () => template.render(LARGE));
});

test.each(UNCOMPILED)("at publish: %s", (what, source) => {
  expect(held(what, () => compileExpression(source))).toBeInstanceOf(ExpressionSyntaxError);
  expect(holds.at(-1)?.ms).toBeLessThan(STALL_MS);
});

test("all expressions of one step share a budget, also where each alone has enough", () => {
  const honest = compileExpression("vars.list.all(x, x.price >= 0 && x.name != '')");
  expect(honest.evaluate(LARGE)).toBe(true);
  const step = () => burn(() => Array.from({ length: 1000 }, () => honest.test(LARGE)));
  expect(held("a step of a thousand expressions", step)).toBeInstanceOf(ExpressionError);
  expect(holds.at(-1)?.ms).toBeLessThan(STALL_MS);
});

afterAll(() => {
  const longest = [...holds].sort((a, b) => b.ms - a.ms).slice(0, 3);
  const text = longest.map(({ ms, what }) => `${ms.toFixed(0)} ms ${what.slice(0, 60)}`).join("; ");
  console.log(
    `${holds.length} hostile sources, ${endings.error} errors, ${endings.value} values. Longest holds: ${text}`,
  );
});
