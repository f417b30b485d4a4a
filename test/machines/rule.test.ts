// Decision tables: malformed documents with their paths and messages, and the results of evaluations.
import { describe, expect, it } from "vitest";
import { compileRule, evaluateRule, type JsonObject, type Rule } from "../../machines/index.js";

const ROW = { when: "v > 1", then: { branch: "a" } };
const spec = (more: object = {}) => ({ hit_policy: "first", rows: [ROW], ...more });
const document = (more: object = {}) => ({
  rule_id: "r",
  name: "A rule",
  rule_type: "decision_table",
  spec: spec(),
  ...more,
});
const table = (rows: readonly object[], more: object = {}) => document({ spec: spec({ rows, ...more }) });
const linesOf = (of: unknown) => compileRule(of).problems.map(({ path, message }) => `${path} ${message}`);

const MALFORMED: readonly (readonly [string, unknown, readonly string[]])[] = [
  ["no object", [], ["$ must be an object"]],
  [
    "nothing in it",
    {},
    ["$.rule_id is required", "$.name is required", "$.rule_type is required", "$.spec is required"],
  ],
  ["an unknown field", document({ colour: 1 }), ["$.colour is unknown"]],
  ["an id with a blank", document({ rule_id: "a b" }), ["$.rule_id must be 1 to 128 of A-Z a-z 0-9 _ . : -"]],
  ["an id of a prototype", document({ rule_id: "constructor" }), ["$.rule_id must not be constructor"]],
  ["a version from 0", document({ version: 0 }), ["$.version must be at least 1"]],
  ["a version with a fraction", document({ version: 1.5 }), ["$.version must be a whole number"]],
  ["a version that is a template", document({ version: "${1}" }), ["$.version must be a number"]],
  ["a name that is none", document({ name: 1 }), ["$.name must be a string"]],
  ["a tenant that is none", document({ tenant_id: 1 }), ["$.tenant_id must be a string"]],
  ["a type that is none", document({ rule_type: "tree" }), ["$.rule_type must be decision_table"]],
  ["published as text", document({ published: "yes" }), ["$.published must be true or false"]],
  ["a spec that is a list", document({ spec: [] }), ["$.spec must be an object"]],
  ["an empty spec", document({ spec: {} }), ["$.spec.hit_policy is required", "$.spec.rows is required"]],
  ["a hit policy of later", document({ spec: spec({ hit_policy: "collect" }) }), ["$.spec.hit_policy must be first"]],
  ["an unknown field in the spec", document({ spec: spec({ defualt: {} }) }), ["$.spec.defualt is unknown"]],
  ["rows that are no list", document({ spec: spec({ rows: {} }) }), ["$.spec.rows must be a list"]],
  ["no rows and no default", table([]), ["$.spec.rows must have a row, unless the table has a default_output"]],
  ["too many rows", table(Array(1001).fill(ROW)), ["$.spec.rows must have at most 1000 items"]],
  ["a row that is none", table([ROW, 1 as never]), ["$.spec.rows[1] must be an object"]],
  ["an empty row", table([{}]), ["$.spec.rows[0].when is required", "$.spec.rows[0].then is required"]],
  ["an unknown field in a row", table([{ ...ROW, note: "" }]), ["$.spec.rows[0].note is unknown"]],
  [
    "a when that is a boolean",
    table([{ ...ROW, when: true }]),
    ["$.spec.rows[0].when must be a CEL expression (a string)"],
  ],
  ["an empty when", table([{ ...ROW, when: " " }]), ["$.spec.rows[0].when an expression is expected (at character 1)"]],
  [
    "an unknown function",
    table([{ ...ROW, when: "f(v)" }]),
    ['$.spec.rows[0].when unknown function "f" (at character 1)'],
  ],
  ["a then that is text", table([{ ...ROW, then: "a" }]), ["$.spec.rows[0].then must be an object"]],
  ["a then that is null", table([{ ...ROW, then: null }]), ["$.spec.rows[0].then is required"]],
  [
    "a default that is a list",
    document({ spec: spec({ default_output: [] }) }),
    ["$.spec.default_output must be an object"],
  ],
  ["what cannot be stored", table([{ ...ROW, then: { a: "\u0000" } }]), ["$.spec.rows[0].then.a contains U+0000"]],
];

describe("malformed rules", () => {
  it.each(MALFORMED)("%s", (_, malformed, expected) => {
    expect(linesOf(malformed)).toEqual(expected);
    expect(compileRule(malformed).rule).toBeUndefined();
  });

  it("every fault is listed at once", () => {
    const rows = [{ when: "v >", then: 1 }, { then: {} }];
    const found = linesOf({ rule_id: 1, name: "n", rule_type: "x", spec: { hit_policy: "first", rows }, extra: 1 });
    expect(found.map((line) => line.split(" ")[0])).toEqual([
      "$.extra",
      "$.rule_id",
      "$.rule_type",
      "$.spec.rows[0].when",
      "$.spec.rows[0].then",
      "$.spec.rows[1].when",
    ]);
  });
});

describe("warnings", () => {
  it("a row below one that always matches is warned about", () => {
    const rows = [ROW, { when: " true", then: {} }, ROW];
    expect(compileRule(table(rows)).warnings).toEqual([
      { path: "$.spec.rows[1]", message: "always matches: the rows below it are never tried", code: "rule_row_never" },
    ]);
    expect(compileRule(table(rows.slice(0, 2))).warnings).toEqual([]);
  });

  it("a when that subtracts an id is warned about at its place", () => {
    expect(compileRule(table([{ when: "inputs.step-1 > 0", then: {} }])).warnings).toEqual([
      {
        path: "$.spec.rows[0].when",
        message: 'inputs.step-1 is a subtraction; for a key write inputs["step-1"]',
        code: "expression_doubt",
      },
    ]);
  });
});

function evaluated(rows: readonly object[], inputs: JsonObject, more: object = {}) {
  const { rule, problems } = compileRule(table(rows, more), { version: 7 });
  expect(problems).toEqual([]);
  return evaluateRule(rule as Rule, inputs);
}

describe("an evaluation", () => {
  const rows = [
    { when: "amount > 1000", then: { branch: "board", limits: [1, "${x}"] } },
    { when: "inputs.amount > 100", then: { branch: "lead" } },
    { when: "vip", then: { branch: "vip" } },
  ];

  it("gives the output of the first row that matches, and names the rows that it tried", () => {
    expect(evaluated(rows, { amount: 500, vip: true })).toEqual({
      output: { branch: "lead" },
      audit: {
        rule_id: "r",
        version: 7,
        matched_row: 1,
        used_default: false,
        rows: [
          { index: 0, matched: false },
          { index: 1, matched: true },
        ],
      },
    });
  });

  it("returns `then` as it is: a template in it is text", () => {
    expect(evaluated(rows, { amount: 5000 }).output).toEqual({ branch: "board", limits: [1, "${x}"] });
  });

  it("falls back to the default, else has no output", () => {
    const inputs = { amount: 1, vip: false };
    const looked = [0, 1, 2].map((index) => ({ index, matched: false }));
    expect(evaluated(rows, inputs, { default_output: { branch: "none" } })).toMatchObject({
      output: { branch: "none" },
      audit: { matched_row: null, used_default: true, rows: looked },
    });
    const none = evaluated(rows, inputs);
    expect(none.output).toBeUndefined();
    expect(none.audit).toMatchObject({ matched_row: null, used_default: false, rows: looked });
  });

  it("sees inputs and each of its keys; inputs is always the inputs", () => {
    const row = [{ when: "inputs.inputs == 1 && inputs['a-b'] == 2 && size(inputs) == 2", then: {} }];
    expect(evaluated(row, { inputs: 1, "a-b": 2 }).audit.matched_row).toBe(0);
    expect(() => evaluated([{ when: "vars.x", then: {} }], {})).toThrow(
      'unknown name "vars": vars.x in spec.rows[0].when',
    );
  });

  it("is truthy as everywhere: text, numbers, lists", () => {
    for (const value of [0, "", [], {}, null, false])
      expect(evaluated([{ when: "v", then: {} }], { v: value }).audit.matched_row, String(value)).toBeNull();
    for (const value of [1, "x", [0], { a: 0 }, true])
      expect(evaluated([{ when: "v", then: {} }], { v: value }).audit.matched_row, String(value)).toBe(0);
  });

  it("a row that fails fails the evaluation, whatever the rows below it; a matching row above it prevents that", () => {
    const failing = [
      { when: "missing > 1", then: {} },
      { when: "true", then: {} },
    ];
    expect(() => evaluated(failing, {})).toThrow('unknown name "missing": missing > 1 in spec.rows[0].when');
    expect(evaluated([...failing].reverse(), {}).audit.matched_row).toBe(0);
  });

  it("all rows share one budget", () => {
    const list = Array.from({ length: 1000 }, (_, index) => index);
    const heavy = { when: "list.exists(x, x < 0)", then: {} };
    expect(evaluated([heavy], { list }).audit.matched_row).toBeNull();
    expect(() => evaluated(Array(1000).fill(heavy), { list })).toThrow(
      / step budget: list\.exists\(x, x < 0\) in spec\.rows\[\d+\]\.when$/,
    );
  });

  it("a key such as __proto__ does not reach a prototype", () => {
    const inputs = JSON.parse('{"__proto__": {"vip": true}}');
    expect(() => evaluated([{ when: "vip", then: {} }], inputs)).toThrow('unknown name "vip"');
  });
});
