// Equality, order and keys of values: one relation, whatever asks for it. `==` is the rule; `distinct` and `sets` find equal values by keys and
// must agree with it.
// @module-tag both

import type { CelValue } from "@bufbuild/cel";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { withoutStacks } from "../../machines/expression/compile.js";
import { plan } from "../../machines/expression/evaluate.js";
import { withFuel } from "../../machines/expression/fuel.js";
import { compileExpression } from "../../machines/expression/index.js";
import { equal, keyOf } from "../../machines/expression/order.js";
import { parse } from "../../machines/expression/parse.js";
import { variablesRead } from "../../machines/expression/variables-read.js";
import { cases, firstSeed } from "../harness/long.js";

const options = { numRuns: cases(1_000, 30_000), seed: firstSeed() };
const evaluate = (source: string, scope = {}) => compileExpression(source).evaluate(scope);
const celOf = (source: string) => withFuel(() => withoutStacks(() => plan(parse(source).expr)({}))) as CelValue;

/** Numbers that are neighbours or the same in several kinds. */
const wholes = [
  "0",
  "1",
  "-1",
  "7",
  "9007199254740992",
  "9007199254740993",
  "1152921504606846976",
  "1152921504606847000",
];
const number = fc.oneof(
  fc.constantFrom(...wholes),
  fc.constantFrom(...wholes.filter((text) => !text.startsWith("-")).map((text) => `${text}u`)),
  fc.constantFrom(...wholes).map((text) => `double(${text})`),
  fc
    .constantFrom(...wholes, "0.1", "0.10", "1.0", "1e23", "99999999999999991611392", "5e-324", "1e-7")
    .map((text) => `decimal('${text}')`),
  fc.constantFrom(
    "0.1",
    "1e23",
    "5e-324",
    "1e-7",
    "-0.0",
    "(0.0 / 0.0)",
    "(1.0 / 0.0)",
    "(-1.0 / 0.0)",
    "0.30000000000000004",
  ),
);
const scalar = fc.oneof(
  number,
  fc.constantFrom(
    "null",
    "true",
    "false",
    "'a'",
    "'b'",
    "'1'",
    "b'a'",
    "b'ab'",
    "int",
    "string",
    "type([])",
    "type({})",
  ),
  fc.constantFrom(
    "timestamp(0)",
    "timestamp(1)",
    "duration('1s')",
    "duration('0s')",
    "timestamp('1970-01-01T00:00:00.5Z')",
  ),
);
const source: fc.Arbitrary<string> = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    scalar,
    fc.array(tie("value"), { maxLength: 2 }).map((items) => `[${items.join(", ")}]`),
    fc
      .tuple(fc.constantFrom("1", "1u", "'1'", "true"), tie("value"), fc.boolean(), tie("value"))
      .map(([key, first, both, second]) => `{${key}: ${first}${both ? `, 'k': ${second}` : ""}}`),
    tie("value").map((inner) => `optional.of(${inner})`),
    fc.constant("optional.none()"),
  ),
})).value;

describe("the key of a value", () => {
  it("is the same for equal values, and for no others", () => {
    fc.assert(
      fc.property(source, source, (one, other) => {
        const [a, b] = [celOf(one), celOf(other)];
        withFuel(() => {
          const [left, right] = [keyOf(a), keyOf(b)];
          expect(equal(a, b)).toBe(equal(b, a));
          if (left !== undefined && right !== undefined) expect(left === right).toBe(equal(a, b));
          else if (left !== right) expect(equal(a, b)).toBe(false);
        });
      }),
      options,
    );
  });

  it("makes distinct and sets what comparing each with each makes", () => {
    fc.assert(
      fc.property(fc.array(source, { maxLength: 5 }), fc.array(source, { maxLength: 3 }), (left, right) => {
        const [l, r] = [`[${left.join(", ")}]`, `[${right.join(", ")}]`];
        const [a, b] = [left, right].map((list) => list.map(celOf)) as [CelValue[], CelValue[]];
        const is = (x: CelValue, y: CelValue) => withFuel(() => equal(x, y));
        const kept: CelValue[] = [];
        for (const item of a) if (!kept.some((other) => is(other, item))) kept.push(item);
        expect(evaluate(`${l}.distinct().size()`)).toBe(kept.length);
        expect(evaluate(`sets.contains(${l}, ${r})`)).toBe(b.every((item) => a.some((other) => is(other, item))));
        expect(evaluate(`sets.intersects(${l}, ${r})`)).toBe(b.some((item) => a.some((other) => is(other, item))));
      }),
      { ...options, numRuns: cases(300, 10_000) },
    );
  });
});

describe("numbers of different kinds", () => {
  it.each([
    ["9007199254740993 > double(9007199254740992)", true],
    ["9007199254740993 <= double(9007199254740992)", false],
    // As the specification's own suite has it: the greatest int and the double beside it are one in order.
    ["9223372036854775807 < double(9223372036854775807)", false],
    ["9223372036854775807 == double(9223372036854775807)", false],
    ["9007199254740993u == double(9007199254740992)", false],
    ["decimal(1e23) == 1e23 && decimal(0.1) == 0.1", true],
    ["double(1152921504606846976) == decimal(1152921504606846976)", true],
    ["0.0 / 0.0 == 0.0 / 0.0 || 1 < 0.0 / 0.0 || 1 >= 0.0 / 0.0", false],
    ["cel.bind(l, [0.0 / 0.0], l == l)", false],
  ])("compare exactly: %s", (text, expected) => {
    expect(evaluate(text)).toBe(expected);
  });
});

describe("comparing pays for what it reads", () => {
  const big = (end: string) => JSON.parse(JSON.stringify({ s: "x".repeat(1 << 20) + end })) as { s: string };
  it.each([
    ["texts in maps", "lists.range(200).all(i, inputs.a == inputs.b)", { a: big("y"), b: big("y") }],
    ["texts in lists", "lists.range(200).all(i, inputs.a.s in [inputs.b.s])", { a: big("y"), b: big("y") }],
    [
      "bytes in lists",
      "cel.bind(x, [bytes(inputs.s)], cel.bind(y, [bytes(inputs.s)], lists.range(20000).all(i, x == y)))",
      big(""),
    ],
    ["sorted bytes", "cel.bind(x, bytes(inputs.s), lists.range(5000).map(i, x).sort().size() > 0)", big("")],
  ])("%s", (_, text, inputs) => {
    expect(() => evaluate(text, { inputs })).toThrow(/step budget/);
  });

  it("finds a time among thousands", () => {
    const times = "cel.bind(l, lists.range(3000).map(i, timestamp(i)), timestamp(-5) in l)";
    expect(evaluate(times)).toBe(false);
    expect(evaluate("timestamp(5) in [timestamp(5)] && duration('60s') == duration('1m')")).toBe(true);
    expect(evaluate("timestamp(5) == duration('5s') || int == string")).toBe(false);
  });
});

describe("the variables that a document reads", () => {
  // biome-ignore-start lint/suspicious/noTemplateCurlyInString: these are our templates, not JavaScript's.
  it.each([
    [{ when: "vars.a + vars['b'] > .vars.c" }, ["a", "b", "c"]],
    [{ text: "Dear ${vars.name}: ${vars.?note.orValue('')} ${vars[?\"x\"]}" }, ["name", "note", "x"]],
    [{ when: "'t' in vars && has(vars.u) && .vars . v" }, ["t", "u", "v"]],
    [{ when: "inputs.vars.a + output.vars" }, []],
    [{ when: "inputs.list.all(vars, vars > 1)" }, []],
    [{ note: "the vars of the step: vars.a, vars.b" }, []],
    [{ when: "'vars.a' == inputs.x" }, []],
    [{ when: "vars.all(k, k != '')" }, undefined],
    [{ when: "vars[inputs.name]" }, undefined],
    [{ out: "${vars}" }, undefined],
  ])("%j", (document, names) => {
    const read = variablesRead(document);
    expect(read && [...read].sort()).toEqual(names);
  });
  // biome-ignore-end lint/suspicious/noTemplateCurlyInString: above.

  it("are found in linear time", () => {
    for (const gap of [" ", "?", "\n"]) {
      variablesRead({ a: `vars.${gap.repeat(200_000)}!`, b: `vars${gap.repeat(200_000)}[`, c: "vars.".repeat(50_000) });
    }
  });
});
