// Ordinary values in the functions of expressions: whole doubles where an int is needed, mixed numbers, optional values, names of one's
// own, and errors that say what to do.
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are our templates, not JavaScript's.
// @module-tag both
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CATALOGUE } from "../../machines/expression/catalogue/index.js";
import {
  compileExpression,
  compileTemplate,
  ExpressionError,
  ExpressionSyntaxError,
  type Scope,
} from "../../machines/expression/index.js";
import type { Json } from "../../machines/values/json.js";
import { long } from "../harness/long.js";

const scope: Scope = {
  inputs: {
    n: 5,
    i: 1,
    half: 0.5,
    price: 19.99,
    list: [3, 1, 2],
    empty: {},
    order: { note: "gift", lines: [] },
    no: null,
  },
  vars: { a: { price: 254.95 }, b: { price: 399.9 } },
};
const evaluate = (source: string) => compileExpression(source).evaluate(scope);
const fault = (source: string) => {
  try {
    evaluate(source);
  } catch (error) {
    expect(error).toBeInstanceOf(ExpressionError);
    return (error as Error).message;
  }
  return undefined;
};

/** An example, split at its integers outside of texts. */
function withHoles(example: string) {
  const parts = example.split(/(?<=^(?:[^'"]|'[^']*'|"[^"]*")*)(?<![\w.])\d+(?![\w.])/);
  return { example, parts, holes: parts.length - 1 };
}

describe("a whole double serves as an int", () => {
  it.each<[string, Json]>([
    ["'%d items'.format([inputs.n])", "5 items"],
    ["'%.2f'.format([5])", "5.00"],
    ["'%.2f €'.format([inputs.price])", "19.99 €"],
    ["'%d %b %o %x'.format([inputs.n, inputs.n, inputs.n, inputs.n])", "5 101 5 5"],
    ["'%e'.format([5])", "5.000000e+00"],
    ["'%s'.format([inputs.list])", "[3, 1, 2]"],
    ["lists.range(inputs.n)", [0, 1, 2, 3, 4]],
    ["inputs.list.slice(inputs.i, 3)", [1, 2]],
    ["inputs.list[?inputs.i].orValue(0)", 1],
    ["[[1, [[2]]]].flatten(inputs.i + 1)", [1, [2]]],
    ["'abc'.substring(inputs.i, inputs.i + 1)", "b"],
    ["'abcabc'.indexOf('b', inputs.i + 1)", 4],
    ["'a,b,c'.split(',', inputs.i + 1)", ["a", "b,c"]],
    ["'aaa'.replace('a', 'b', inputs.i)", "baa"],
    ["math.bitShiftLeft(inputs.i, inputs.n)", 32],
    ["math.bitOr(inputs.n, 2)", 7],
    ["decimal(inputs.price).round(inputs.i)", "20.0"],
    ["duration(string(inputs.n) + 'm')", 300_000],
    ["timestamp(inputs.n)", "1970-01-01T00:00:05.000Z"],
    ["{1: 'one'}[inputs.i]", "one"],
    ["'abc'.substring(decimal('1.0')) + '%d'.format([decimal('5.00')])", "bc5"],
    ["duration(inputs.n)", 5_000],
  ])("%s", (source, expected) => {
    expect(evaluate(source)).toEqual(expected);
  });

  it("also in an ISO duration", () => {
    expect(compileTemplate("PT${inputs.n}M").render(scope)).toBe("PT5M");
  });

  it("as every integer of every function's example, whatever its value", { tags: "long" }, () => {
    const examples = CATALOGUE.flatMap(({ functions }) => functions.map(({ example }) => example));
    const templates = examples.map(withHoles).filter(({ holes }) => holes > 0);
    expect(templates.length).toBeGreaterThan(40);
    const property = fc.property(
      fc.nat(templates.length - 1),
      fc.array(fc.integer({ min: -3, max: 12 })),
      (nth, numbers) => {
        const { parts, holes, example } = templates[nth] as (typeof templates)[number];
        const values = Array.from({ length: holes }, (_, hole) => numbers[hole] ?? hole);
        const fill = (write: (hole: number) => string) =>
          parts.map((part, hole) => (hole < holes ? part + write(hole) : part)).join("");
        const of = (source: string) => {
          try {
            return compileExpression(source).evaluate({ inputs: { n: values } });
          } catch {
            return "an error";
          }
        };
        const [asInts, asDoubles] = [of(fill((hole) => `(${values[hole]})`)), of(fill((hole) => `inputs.n[${hole}]`))];
        expect(asDoubles, example).toEqual(asInts);
      },
    );
    fc.assert(property, { numRuns: long(3_000, 30_000) });
  });

  it.each([
    ["'%d'.format([inputs.half])", "format(): %d takes a whole number"],
    ["lists.range(inputs.half)", "found no matching overload for 'lists.range' applied to '(double)'"],
  ])("and another does not: %s", (source, message) => {
    expect(fault(source)).toBe(message);
  });
});

describe("numbers of different kinds", () => {
  it.each<[string, Json]>([
    ["[1, 2.5, 3u].sum()", 6.5],
    ["[].sum()", 0],
    ["[decimal('0.1'), 0.2, 1].sum()", "1.3"],
    ["[duration('1m'), duration('30s')].sum()", 90_000],
    ["[2, 1.5, 3u].min()", 1.5],
    ["[2, 1.5, decimal('3.5')].max()", "3.5"],
    ["math.greatest(1, 2.5, decimal('2.50'))", 2.5],
    ["math.least([2, inputs.half])", 0.5],
    ["[3, inputs.half, 2u, decimal('0.7')].sort().map(x, double(x))", [0.5, 0.7, 2, 3]],
    ["['b', 'a'].sort()", ["a", "b"]],
    ["inputs.list.sort() == [1, 2, 3] && sum(inputs.list) == 6 && max(inputs.list) == 3", true],
    [
      "[1, 1.0, 1u, decimal('1.0'), '1', [1], [1.0], {'a': 1}, {'a': 1u}, null].distinct()",
      [1, "1", [1], { a: 1 }, null],
    ],
    ["math.round(inputs.half) + math.round(-2.5) + math.round(0.49999999999999994)", -2],
    ["math.round(decimal('2.5'))", "3"],
    ["math.sqrt(inputs.n + 4)", 3],
  ])("%s", (source, expected) => {
    expect(evaluate(source)).toEqual(expected);
  });

  it.each([
    ["[1, 'a'].sum()", "sum(): an item is no number and no duration"],
    ["[1, 'a'].max()", "max(): the values are of different types"],
    ["[].max()", "max(): there is no value"],
    ["[1, 'a'].sort()", "sort(): what it sorts by has no order, or is of different types"],
    ["[1].slice(0, 2)", "slice(): the index is outside of the list"],
    ["inputs.list.slice(2, 1)", "slice(): the end is before the start"],
    ["'abc'.substring(4)", "substring(): the index is outside of the text"],
    ["'%s'.format([])", "format(): there are fewer values than clauses"],
    ["'%y'.format([1])", "format(): a clause is unknown; write %% for a percent sign"],
    ["math.abs('x')", "found no matching overload for 'math.abs' applied to '(string)'"],
    ["decimal('x')", 'decimal(): the text is no number of at most 1000 digits, such as "19.99"'],
    ["decimal('1') + 'x'", "found no matching overload for '_+_' applied to '(decimal, string)'"],
    ["decimal('1') / 0", "decimal divide by zero"],
    ["decimal('1').round(2, 'nearest')", "round(): a mode is half_up, half_even, half_down, up, down, ceiling, floor"],
    ["base64.decode('?')", "base64.decode(): the text is no base64"],
    ["optional.none().value()", "value(): the optional value is none"],
    ["inputs.order.orValue('')", "type mismatch: expected optional_type, got map"],
    ["[?1]", "type mismatch: expected optional_type, got int"],
    ["inputs.n.?x", 'missing key "x"'],
    ["inputs.?n.or()", "found no matching overload for 'or'"],
    ["decimal(' 1')", 'decimal(): the text is no number of at most 1000 digits, such as "19.99"'],
    ["inputs.missing.?x", 'missing key "missing"'],
  ])("%s is an error that says why", (source, message) => {
    expect(fault(source)).toBe(message);
  });
});

describe("an optional value", () => {
  it.each<[string, Json]>([
    ["inputs.?note.orValue('')", ""],
    ["inputs.?order.note.orValue('')", "gift"],
    ["inputs.?order.?remark.orValue('none')", "none"],
    ["inputs.?no.hasValue() && inputs.?no.value() == null", true],
    ["inputs.order.lines[?0].hasValue()", false],
    ["inputs.?n.optMap(x, x * 2).orValue(0)", 10],
    ["{'n': 1, ?'note': inputs.?note, ?'gift': inputs.order.?note}", { n: 1, gift: "gift" }],
    ["[1, ?inputs.?note, ?inputs.?i]", [1, 1]],
    ["inputs.?__proto__.hasValue() || inputs.?constructor.hasValue() || inputs[?'__proto__'].hasValue()", false],
    ["inputs.?n.orValue(1 / 0)", 5],
    ["has(.inputs.n) && !has(.inputs.note) && !has(output.note)", true],
    ["optional.of(inputs.?note) == optional.of(optional.none())", true],
  ])("%s", (source, expected) => {
    expect(evaluate(source)).toEqual(expected);
  });

  it("as a result is its value or null, and as a condition whether it has one that passes", () => {
    expect(evaluate("[inputs.?note, inputs.?n, inputs.?no]")).toEqual([null, 5, null]);
    expect(compileTemplate("note: ${inputs.?note}").render(scope)).toBe("note: null");
    const test = (source: string) => compileExpression(source).test(scope);
    expect([test("inputs.?note"), test("inputs.?n"), test("inputs.?empty"), test("inputs.?no")]).toEqual([
      false,
      true,
      false,
      false,
    ]);
  });

  it("tests for a variable, so that no step needs to set it", () => {
    const { variables, references } = compileExpression("vars.?a.orValue(vars[?'b'].orValue(vars.c))");
    expect([...variables]).toEqual(["c"]);
    expect([...references]).toEqual(["vars"]);
  });
});

describe("a name of one's own", () => {
  it.each<[string, Json]>([
    ["cel.bind(n, inputs.n + 1, n * n)", 36],
    ["cel.bind(inputs, {'n': 1}, inputs.n) + inputs.n", 6],
    ["inputs.list.map(x, cel.bind(y, x * 2, y + x))", [9, 3, 6]],
    ["inputs.list.transformList(i, x, i * 10 + x)", [3, 11, 22]],
    ["{'a': 1, 'b': 2}.transformMapEntry(k, v, {string(v): k})", { 1: "a", 2: "b" }],
    ["inputs.list.sortBy(x, -x).first()", 3],
    ["inputs.list.exists(i, x, i == 1 && x == 1)", true],
  ])("%s", (source, expected) => {
    expect(evaluate(source)).toEqual(expected);
  });

  it("is no name that the expression reads from its scope", () => {
    const names = (source: string) => [...compileExpression(source).references].sort();
    expect(names("cel.bind(x, inputs.a, x + y)")).toEqual(["inputs", "y"]);
    expect(names("vars.l.transformMap(k, v, k + v + w)")).toEqual(["vars", "w"]);
    expect(names("vars.l.sortBy(x, x.n).first().optMap(f, f + item)")).toEqual(["item", "vars"]);
    expect(names("math.round(lists.range(2).sum() + decimal('1'))")).toEqual([]);
  });

  it.each([
    ["math.pow(2, 3)", 'unknown function "math.pow"', 5],
    ["cel.bind(1, 2, 3)", 'unknown function "cel.bind"', 4],
    ["inputs.list.median()", 'unknown function "median"', 12],
    ["inputs.?", "unexpected end, a name is expected", 8],
    ["inputs[?]", 'unexpected "]", a value is expected', 8],
  ])("%s is refused when it is compiled", (source, message, position) => {
    expect(() => compileExpression(source)).toThrow(ExpressionSyntaxError);
    expect(() => compileExpression(source)).toThrow(expect.objectContaining({ message, position }));
  });

  it("of a transformed map cannot reach a prototype", () => {
    expect(fault("{'a': 1}.transformMapEntry(k, v, {'__proto__': v})")).toBe(
      '"__proto__" is not allowed as a member name in an object',
    );
    expect(fault("{'a': 1, 'b': 2}.transformMapEntry(k, v, {'same': v})")).toBe("duplicate map key");
  });
});

describe("money", () => {
  it("adds up exactly in decimals, and not in doubles", () => {
    expect(evaluate("vars.a.price + vars.b.price")).not.toBe(654.85);
    expect(evaluate("(decimal(vars.a.price) + decimal(vars.b.price)).string()")).toBe("654.85");
    expect(evaluate("decimal('19.99') * 100")).toBe("1999.00");
    expect(evaluate("double(decimal(inputs.price) * 100)")).toBe(1999);
  });

  it.each<[Json, Json]>([
    ["${decimal('19.99') * 3}", "59.97"],
    ["you pay ${decimal(inputs.price) * inputs.n} €", "you pay 99.95 €"],
    [
      { total: "${decimal('1.50')}", cents: "${int(decimal('1.50') * 100)}" },
      { total: "1.50", cents: 150 },
    ],
    ["${decimal('0.00') == 0 && decimal(inputs.price) == inputs.price && inputs.price in [decimal('19.990')]}", true],
    ["${decimal('10') / 4}", "2.5"],
    ["${decimal('1') / 3}", "0.3333333333333333333333333333333333"],
    ["${decimal('-7.5') % 2}", "-1.5"],
    ["${(decimal('100') / 3).round(2)}", "33.33"],
    ["${'%.2f'.format([decimal('2.345').round(2)])}", "2.35"],
    ["${type(decimal('1')) == decimal}", true],
    ["${-decimal('1.10')}", "-1.10"],
    ["${decimal('1e-3') + decimal(1e-7)}", "0.0010001"],
  ])("%j", (template, expected) => {
    expect(compileTemplate(template).render(scope)).toEqual(expected);
  });

  it("a decimal is true unless it is zero", () => {
    expect(compileExpression("decimal('0.00')").test(scope)).toBe(false);
    expect(compileExpression("decimal('0.01')").test(scope)).toBe(true);
  });
});

describe("values at their edges", () => {
  it.each<[string, Json]>([
    ["inputs.empty.?items.orValue([]).map(i, decimal(i.p) * i.q).sum().round(2)", "0.00"],
    ["[].sum().round(2)", "0.00"],
    ["(1.5).round()", "2"],
    ["5.round(2)", "5.00"],
    ["inputs.price.round(1)", "20.0"],
    ["inputs.n.scale() + inputs.price.scale()", 2],
    ["5u.round(1)", "5.0"],
    ["inputs.list[ ?0].orValue(9)", 3],
    ["inputs.list[decimal('1')] + inputs.list[?decimal('2.0')].orValue(0)", 3],
    ["{1: 'a'}[decimal('1.0')]", "a"],
    ["decimal('1') in {1: 'a'}", true],
    ["'%e'.format([decimal('1e400')])", "1.000000e+400"],
    ["'%.2e'.format([decimal('-0.0012345')])", "-1.23e-03"],
    ["'%.1e'.format([decimal('9.96')])", "1.0e+01"],
    ["'%e'.format([decimal('0')])", "0.000000e+00"],
    ["'%.3e'.format([9007199254740993])", "9.007e+15"],
    ["'abc'.indexOf('c', 3)", -1],
    ["'abc'.indexOf('', 3)", 3],
    ["''.indexOf('a', 0)", -1],
    ["'abc'.lastIndexOf('c', 3)", 2],
    ["strings.quote('\\u0000' + '1')", '"\\0001"'],
    ["inputs.?no.optFlatMap(c, optional.ofNonZeroValue(c)).name.orValue('-')", "-"],
    ["inputs.?order.optFlatMap(c, optional.ofNonZeroValue(c)).note.orValue('-')", "gift"],
  ])("%s", (source, expected) => {
    expect(evaluate(source)).toEqual(expected);
  });

  it.each<[string, RegExp]>([
    ["[null].min()", /min\(\): the values have no order/],
    ["[{}].max()", /max\(\): the values have no order/],
    ["[true, 1].max()", /different types/],
    ["{1: 'a', '1': 'b'}", /duplicate map key/],
    ["(1.0 / 0.0).round(2)", /round\(\): the number is not finite/],
    ["math.bitShiftLeft(1, -1)", /math\.bitShiftLeft\(\): /],
    ["math.bitShiftRight(1, -1)", /math\.bitShiftRight\(\): /],
    ["'abc'.indexOf('c', 4)", /outside of the text/],
    ["inputs.list[decimal('0.5')]", /./],
  ])("%s is an error that says why", (source, message) => {
    expect(fault(source)).toMatch(message);
  });

  it("tells what has() takes", () => {
    for (const source of ["has(inputs.?a)", "has(inputs['a'])", "has(inputs)", "has(a, b)"])
      expect(() => compileExpression(source)).toThrow(/has\(\) takes a member, such as has\(inputs\.note\)/);
  });
});
