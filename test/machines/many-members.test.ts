// Documents and values with many members: what is said of them is bounded, and each is walked as often as it must be.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MOST_LISTED } from "../../machines/attribute/findings.js";
import { compileRule, compileWorkflow, type JsonObject, measure, readTrigger } from "../../machines/index.js";
import { beginningOfJson } from "../../machines/values/json.js";

const MANY = 20_000;
/** A step takes longer to read than a member. */
const STEPS = 3_000;
const many = <T>(count: number, of: (index: number) => T): T[] => Array.from({ length: count }, (_, n) => of(n));
const members = (of: (index: number) => unknown = () => 1) =>
  Object.fromEntries(many(MANY, (n) => [`k${n}`, of(n)])) as JsonObject;
const noop = { id: "s0", type: "noop" };
const wf = (steps: readonly object[], head: object = {}) => ({ id: "w", name: "w", start: "s0", steps, ...head });
const RULE = { rule_id: "r", name: "r", rule_type: "decision_table" };

describe("the problems of a document are listed up to a bound, with the number of the others", () => {
  const unknown = MANY - MOST_LISTED;
  it.each<[string, () => { problems: readonly object[] }, number]>([
    ["unknown members", () => compileWorkflow(wf([noop], members())), unknown],
    ["unknown members of a step", () => compileWorkflow(wf([{ ...noop, ...members() }])), unknown],
    ["and of its inputs", () => compileWorkflow(wf([{ ...noop, inputs: members() }])), unknown],
    [
      "steps of no type",
      () => compileWorkflow(wf(many(STEPS, (n) => ({ id: `s${n}`, type: "nop" })))),
      STEPS - MOST_LISTED + 1,
    ],
    ["of a rule", () => compileRule({ ...RULE, ...members() }), unknown + 1],
    [
      "of a trigger",
      () => readTrigger({ trigger_type: "cron", workflow_id: "w", config: {}, ...members() }),
      unknown + 1,
    ],
  ])("%s", (_, read, unlisted) => {
    const { problems } = read();
    expect(problems).toHaveLength(MOST_LISTED + 1);
    expect(problems.at(-1)).toEqual({ path: "$", message: `has ${unlisted} more problems, which are not listed` });
  });

  it("a document with fewer has each of them listed", () => {
    const { problems } = compileWorkflow(wf([noop], Object.fromEntries(many(900, (n) => [`k${n}`, 1]))));
    expect(problems).toHaveLength(900);
  });

  it.each([
    ["entrypoints", { entrypoints: members(() => "s0") }],
    ["entrypoints of no step", { entrypoints: members((n) => `nowhere${n}`) }],
  ])("too many %s are one problem", (_, head) => {
    expect(compileWorkflow(wf([noop], head)).problems).toEqual([
      { path: "$.entrypoints", message: "must have at most 10000 members" },
    ]);
  });
});

describe("a large value", () => {
  it("is measured once", () => {
    let walks = 0;
    const ownKeys = (target: object) => {
      walks++;
      return Reflect.ownKeys(target);
    };
    const value = new Proxy(members(), { ownKeys });
    expect([measure(value), measure({ value }), measure([[value]])]).toEqual([
      measure(members()),
      expect.any(Number),
      expect.any(Number),
    ]);
    expect(walks).toBe(1);
  });

  it("that was measured is refused where it is nested too deeply", () => {
    const nested = (value: unknown, levels: number) => many(levels, () => 0).reduce<unknown>((inner) => [inner], value);
    const large = nested(members(), 99);
    expect(measure(large)).toEqual(expect.any(Number));
    expect(measure(nested(large, 100))).toEqual(expect.any(Number));
    expect(measure(nested(large, 101))).toMatchObject({ message: "is nested deeper than 200 levels" });
  });
});

describe("the beginning of a value as JSON", () => {
  it("is the beginning of what JSON.stringify writes", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.nat(40), (value, chars) => {
        const whole = JSON.stringify(value);
        const begun = beginningOfJson(value as JsonObject, chars);
        expect(whole.startsWith(begun)).toBe(true);
        expect(begun.length).toBeGreaterThanOrEqual(Math.min(whole.length, chars) - 1);
        expect(begun.length).toBeLessThanOrEqual(chars);
      }),
    );
  });
});
