// The rules of expressions and templates as tables of expected results, and hostile sources that must end with an error.
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are our templates, not JavaScript's.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  asText,
  compileExpression,
  compileTemplate,
  ExpressionError,
  ExpressionSyntaxError,
  instant,
  type Scope,
  truthy,
} from "../../machines/expression/index.js";
import type { Json } from "../../machines/values/json.js";

const now = Date.UTC(2026, 10, 21, 9, 30, 0, 250);
const secret = "hunter2";
const scope: Scope = {
  inputs: { amount: 10, list: ["a", "b", "c"], name: "Ada", nothing: null, secret, empty: {}, flag: true },
  vars: { count: 1, i: 1, half: 0.5, "step-1": { ok: true }, list: [1, 2, 3], when: "2026-11-21T09:30:00Z", step: 4 },
  run: { id: "r1", started_at: instant(now), dry_run: false },
  item: 3,
  now: instant(now),
};
const evaluate = (source: string, within: Scope = scope) => compileExpression(source).evaluate(within);
const failure = (work: () => unknown): Error => {
  try {
    work();
  } catch (error) {
    return error as Error;
  }
  throw new Error("nothing was thrown");
};

describe("an expression", () => {
  it.each<[string, Json]>([
    // Numbers: JSON's are doubles, and kinds mix.
    ["inputs.amount / 7", 10 / 7],
    ["10 / 7", 1],
    ["10 % 4", 2],
    ["inputs.amount % 4", 2],
    ["-7.5 % 2", -1.5],
    ["vars.count + 1", 2],
    ["1 + vars.half", 1.5],
    ["2u * vars.half", 1],
    ["1 + 2u", 3],
    ["-vars.count", -1],
    ["0 * -vars.half", 0],
    ["inputs.list[vars.i]", "b"],
    ["inputs.list[vars.i + 1]", "c"],
    ["inputs.list[int(vars.half * 4.0)]", "c"],
    ["size(inputs.list) > 2.5", true],
    ["size(inputs.list) < vars.half", false],
    ["vars.count == 1", true],
    ["1 == vars.count && vars.count == 1u", true],
    ["vars.count != 2", true],
    ["9007199254740993 == 9007199254740992.0", false],
    ["1 in vars.list", true],
    ["4 in vars.list", false],
    ["'b' in inputs.list", true],
    ["'name' in inputs && 'nothing' in inputs && !('other' in inputs)", true],
    ["{1: 'x', 'k': 'y'}[vars.count]", "x"],
    ["vars.list == [1, 2, 3]", true],
    ["vars.list.map(x, x * 2)", [2, 4, 6]],
    ["vars.list.filter(x, x >= 2).size()", 2],
    ["vars.list + [4.0]", [1, 2, 3, 4]],
    ["vars.list.map(x, [x, x + 1]).map(p, p[0] + p[1])", [3, 5, 7]],
    ["9007199254740992", 2 ** 53],
    ["7u", 7],
    ["1e300", 1e300],
    ["int('42') + int(' 7'.trim())", 49],
    // Names and keys.
    ["vars['step-1'].ok", true],
    ["has(inputs.name) && !has(inputs.other) && has(inputs.nothing)", true],
    ["inputs.nothing == null", true],
    ["inputs.other == 1 || true", true],
    ["inputs", scope.inputs as Json],
    ["vars.list", [1, 2, 3]],
    ["{'a': inputs.list, 2: null}", { a: ["a", "b", "c"], 2: null }],
    // Text.
    ["inputs.name + '!'", "Ada!"],
    ["'Ada Lovelace'.split(' ')[1].upperAscii()", "LOVELACE"],
    ["'a,b,c'.split(',', 2)", ["a", "b,c"]],
    ["'aaa'.replace('a', 'b', 2) + 'xyx'.replace('x', '')", "bbay"],
    ["'abc'.replace('', '-')", "-a-b-c-"],
    ["['a', 'b'].join('+')", "a+b"],
    ["inputs.name.matches('^A[a-z]+$')", true],
    ["inputs.name.substring(vars.i)", "da"],
    ["size('héé😀')", 4],
    ["b'abc'", "YWJj"],
    // Times.
    ["now", "2026-11-21T09:30:00.250Z"],
    ["run.started_at == now && run.started_at < now + duration('1s')", true],
    ["[now]", ["2026-11-21T09:30:00.250Z"]],
    ["run", { id: "r1", started_at: "2026-11-21T09:30:00.250Z", dry_run: false }],
    ["timestamp(vars.when)", "2026-11-21T09:30:00.000Z"],
    ["timestamp(vars.count)", "1970-01-01T00:00:01.000Z"],
    ["now - timestamp(vars.when)", 250],
    ["duration('90s')", 90_000],
    ["duration('-1.5ms')", -2],
    [
      "[now.getFullYear(), now.getMonth(), now.getDate(), now.getDayOfWeek(), now.getDayOfYear()]",
      [2026, 10, 21, 6, 324],
    ],
    [
      "[now.getHours(), now.getHours('+05:30'), now.getMinutes('+05:30'), now.getHours('Europe/Berlin')]",
      [9, 15, 0, 10],
    ],
    ["timestamp('2026-03-29T01:30:00Z').getHours('Europe/Berlin')", 3],
    ["duration('90m').getHours()", 1],
  ])("%s", (source, expected) => {
    expect(evaluate(source)).toEqual(expected);
  });

  it.each<[string, boolean]>([
    ["true", true],
    ["inputs.amount", true],
    ["0.0", false],
    ["''", false],
    ["'no'", true],
    ["null", false],
    ["[]", false],
    ["inputs.empty", false],
    ["inputs", true],
    ["now", true],
    ["duration('0s')", false],
  ])("%s is tested as %s", (source, expected) => {
    expect(compileExpression(source).test(scope)).toBe(expected);
  });

  it.each([
    ["inputs.other", 'missing key "other"'],
    ["inputs.other.deeper", 'missing key "other"'],
    ["inputs.constructor", 'missing key "constructor"'],
    ["inputs.__proto__", 'missing key "__proto__"'],
    ["inputs['__proto__']['polluted']", 'missing key "__proto__"'],
    ["constructor", 'unknown name "constructor"'],
    ["__proto__.x", 'unknown name "__proto__"'],
    ["nobody", 'unknown name "nobody"'],
    ["inputs.list[3]", "index out of bounds"],
    ["inputs.list[vars.half]", "index out of bounds"],
    ["inputs[inputs.secret]", "missing key"],
    ["int(inputs.secret)", "invalid argument of int()"],
    ["double('')", "invalid argument of double()"],
    ["timestamp(inputs.secret)", "invalid argument of timestamp()"],
    ["duration(inputs.secret)", "invalid argument of duration()"],
    ["now.getHours(inputs.secret)", "invalid argument of getHours()"],
    ["inputs.name.matches('(')", "invalid argument of matches()"],
    ["inputs.name + 1", "found no matching overload for '_+_' applied to '(string, int)'"],
    ["inputs.name && true", "type mismatch: expected bool, got string"],
    ["1 / 0", "divide by zero"],
    ["vars.count % 0", "modulus by zero"],
    ["vars.count / 0", "the result is not a finite number"],
    ["9223372036854775807 + 1", "int overflow during _+_"],
    ["9007199254740993", "the result is an integer beyond 2^53, which JSON cannot carry: use string()"],
    ["int", "the result is not a JSON value"],
    ["{'__proto__': 1}", '"__proto__" is not allowed as a member name in an object'],
    ["{inputs.secret: 1, inputs.secret: 2}", "duplicate map key"],
  ])("%s fails clearly, and without a value of the scope", (source, message) => {
    const error = failure(() => evaluate(source));
    expect(error).toBeInstanceOf(ExpressionError);
    expect(error.message).toBe(message);
    expect(error.message).not.toContain(secret);
  });

  it.each([
    ["", 0],
    ["1 +", 3],
    ["a b", 2],
    ["vars.a && nope(1)", 10],
    ["'open", 0],
    ["has(1)", 0],
    ["[1].all(2, true)", 4],
  ])("%j does not compile, and says where", (source, position) => {
    const error = failure(() => compileExpression(source));
    expect(error).toBeInstanceOf(ExpressionSyntaxError);
    expect((error as ExpressionSyntaxError).position).toBe(position);
  });

  it("knows the names it reads, without those it binds itself", () => {
    const { references } = compileExpression(
      "inputs.list.filter(x, x != vars.y && type(x) == string).map(i, i + item)",
    );
    expect([...references].sort()).toEqual(["inputs", "item", "vars"]);
  });

  it("a name of the scope hides a type of CEL, and only there", () => {
    const hidden = { type: "express", list: [1], int: 5 };
    expect(compileExpression("type == 'express' && list.exists(x, x == 1) && int(2.0) == 2").test(hidden)).toBe(true);
    expect(compileExpression("type(1) == int").test({})).toBe(true);
    expect([...compileExpression("type(1) == int").references]).toEqual([]);
  });

  it("warns about a subtraction that looks like the id of a step", () => {
    expect(compileExpression("vars.step-1").warnings).toEqual([
      'vars.step-1 is a subtraction; for a key write vars["step-1"]',
    ]);
    expect(compileExpression("vars.step - 1").warnings).toEqual([]);
    expect(compileExpression("'vars.step-1' + vars['step-1']").warnings).toEqual([]);
    expect(evaluate("vars.step-1")).toBe(3);
  });

  it("returns JSON of the scope as the same object", () => {
    expect(evaluate("vars.list")).toBe((scope.vars as { list: Json }).list);
  });

  it("converts only the values that it reads", () => {
    const touched: string[] = [];
    const vars = new Proxy(
      { a: 1, b: 2 },
      {
        get: (target, key) => {
          touched.push(String(key));
          return Reflect.get(target, key);
        },
        ownKeys: () => {
          throw new Error("all keys were listed");
        },
      },
    );
    expect(evaluate("vars.a + 1", { vars })).toBe(2);
    expect(touched).toContain("a");
    expect(touched).not.toContain("b");
  });

  it("does not depend on the host's time zone", () => {
    const zone = process.env.TZ;
    process.env.TZ = "America/New_York";
    try {
      // 02:30 does not exist there on this day.
      expect(evaluate("timestamp('2026-03-08T02:30:00Z').getHours()")).toBe(2);
    } finally {
      if (zone === undefined) delete process.env.TZ;
      else process.env.TZ = zone;
    }
  });
});

describe("the budget", () => {
  const list = Array.from({ length: 10_000 }, (_, index) => ({ price: index % 20, name: `n${index}` }));
  const large: Scope = { vars: { list, n: 1 } };

  it("brackets inside a literal are no nesting", () => {
    expect(evaluate(`"${"(".repeat(500)}".size()`)).toBe(500);
  });

  it("a long but honest loop is within the budget", () => {
    expect(evaluate("vars.list.filter(x, x.price > 10 && x.name.startsWith('n1')).size() > 0", large)).toBe(true);
    expect(evaluate("vars.list.map(x, {'name': x.name, 'double': x.price * 2}).size()", large)).toBe(10_000);
  });

  it("the amounts of ten thousand items add up within the budget", () => {
    const items = Array.from({ length: 10_000 }, () => ({ price: 19.99, count: 3 }));
    const total = "vars.items.map(item, decimal(item.price) * item.count).sum()";
    expect(compileExpression(total).evaluate({ vars: { items } })).toBe("599700.00");
  });

  it("the parts of a template share one budget", () => {
    const part = "${vars.list.all(x, x.price >= 0 && x.name != '')}";
    expect(compileTemplate([part]).render(large)).toEqual([true]);
    const error = failure(() => compileTemplate(Array.from({ length: 50 }, () => part)).render(large));
    expect(error).toBeInstanceOf(ExpressionError);
    // The next evaluation has a full budget again.
    expect(evaluate("vars.n + 1", large)).toBe(2);
  });
});

describe("a template", () => {
  it.each<[Json, Json]>([
    ["${vars.count}", 1],
    ["${ vars.list }", [1, 2, 3]],
    ["${vars.nothing == 1 || inputs.nothing == null}", true],
    ["n=${vars.count} l=${vars.list} s=${inputs.name} o=${inputs.empty} z=${null}", "n=1 l=[1,2,3] s=Ada o={} z=null"],
    ["${vars.count}${vars.count}", "11"],
    [" ${vars.count}", " 1"],
    ["${4.0 / 2.0} of ${vars.half}", "2 of 0.5"],
    ["at ${now}", "at 2026-11-21T09:30:00.250Z"],
    ["$${vars.count}", "${vars.count}"],
    ["$${a} ${vars.count} $ $$ $x {}", "${a} 1 $ $$ $x {}"],
    ["$$${vars.count}", "$${vars.count}"],
    ["cost: $5", "cost: $5"],
    ["${ {'a': {'b': 1}}.a }", { b: 1 }],
    ["${'}'}", "}"],
    ['${"{" + "\\"}"}', '{"}'],
    ["${'''a'}\"b'''}", "a'}\"b"],
    ["${r'\\'}|${R\"\\\"}", "\\|\\"],
    ["${br'\\'}", "XA=="],
    [
      { a: ["${vars.count}", { b: "x${inputs.name}" }], c: null, d: "$${" },
      { a: [1, { b: "xAda" }], c: null, d: "${" },
    ],
  ])("%j", (template, expected) => {
    expect(compileTemplate(template).render(scope)).toEqual(expected);
  });

  it.each<[Json, number, string]>([
    ["${vars.a", 0, "a template is not closed"],
    ["a ${1 +} b", 7, "a value is expected"],
    ["${'}", 0, "a template is not closed"],
    ["ab${  nope(1)}", 6, 'unknown function "nope"'],
    ["${}", 2, "an expression is expected"],
    [{ a: [1, "${("] }, 0, "a[1]: a template is not closed"],
  ])("%j does not compile", (template, position, message) => {
    const error = failure(() => compileTemplate(template)) as ExpressionSyntaxError;
    expect(error).toBeInstanceOf(ExpressionSyntaxError);
    expect(error.message).toContain(message);
    expect(error.position).toBe(position);
  });

  it("a constant member of a rendered object is the same object", () => {
    const kept = { deep: [1, 2] };
    const rendered = compileTemplate({ kept, made: "${vars.count}" }).render(scope) as { kept: Json };
    expect(rendered.kept).toBe(kept);
  });

  it("collects names and warnings of all its parts", () => {
    const template = compileTemplate({ a: "${vars.step-1}", b: ["${inputs.x} ${item}"] });
    expect([...template.references].sort()).toEqual(["inputs", "item", "vars"]);
    expect(template.warnings).toHaveLength(1);
    expect(template.constant).toBe(false);
  });

  it("an escaped template is a constant", () => {
    expect(compileTemplate({ a: "$${x}" })).toMatchObject({ constant: true });
  });

  it("a value without ${ is rendered as itself", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        fc.pre(!JSON.stringify(value).includes("${"));
        const template = compileTemplate(value as Json);
        expect(template.constant).toBe(true);
        expect(template.render({})).toBe(value);
      }),
    );
  });

  it("any JSON comes through a whole template as the same value", () => {
    // Minus zero becomes zero, as it would in the database.
    const values = fc.jsonValue().filter((value) => !Object.is(value, -0));
    fc.assert(
      fc.property(values, (value) => {
        expect(compileTemplate("${v}").render({ v: value as Json })).toBe(value);
        expect(compileTemplate(["${[v][0]}"]).render({ v: value as Json })).toEqual([value]);
      }),
    );
  });

  it("text written as a CEL literal comes back", () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        const literal = `'${text.replace(/[\\']/g, "\\$&").replace(/\n/g, "\\n").replace(/\r/g, "\\r")}'`;
        expect(compileTemplate(`\${${literal}}`).render({})).toBe(text);
      }),
    );
  });
});

describe("a value", () => {
  it.each<[Json, boolean, string]>([
    [null, false, "null"],
    [0, false, "0"],
    [2, true, "2"],
    [-0.5, true, "-0.5"],
    ["", false, ""],
    ["x", true, "x"],
    [false, false, "false"],
    [[], false, "[]"],
    [[0], true, "[0]"],
    [{}, false, "{}"],
    [{ a: "b" }, true, '{"a":"b"}'],
  ])("%j is %s and reads %j", (value, truth, text) => {
    expect(truthy(value)).toBe(truth);
    expect(asText(value)).toBe(text);
  });
});
