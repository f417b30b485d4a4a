// Decimals against rational numbers: a sum, a product, a quotient and a rounding are what fractions of whole numbers say.
// @module-tag both
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compileExpression, ExpressionError } from "../../machines/expression/index.js";
import { cases, firstSeed } from "../harness/long.js";

/** A fraction with a positive denominator. */
type Rational = readonly [numerator: bigint, denominator: bigint];

function rational(text: string): Rational {
  const [, sign = "", whole = "", fraction = ""] = /^(-?)(\d+)\.?(\d*)$/.exec(text) ?? [];
  return [BigInt(`${sign}${whole}${fraction}`), 10n ** BigInt(fraction.length)];
}

const same = ([a, b]: Rational, [c, d]: Rational) => a * d === c * b;
const less = ([a, b]: Rational, [c, d]: Rational) => a * d < c * b;

const numeral = fc
  .tuple(fc.boolean(), fc.bigInt({ min: 0n, max: 10n ** 40n }), fc.nat(30), fc.nat(45))
  .map(([negative, digits, scale, keep]) => {
    const text = digits
      .toString()
      .slice(0, keep + 1)
      .padStart(scale + 1, "0");
    const point = text.length - scale;
    return `${negative ? "-" : ""}${text.slice(0, point)}${scale > 0 ? `.${text.slice(point)}` : ""}`;
  });
const options = { numRuns: cases(500, 10_000), seed: firstSeed() };
const evaluate = (source: string, a: string, b = "0") => compileExpression(source).evaluate({ a, b });

describe("a decimal", () => {
  it("adds, subtracts and multiplies exactly, and compares by value", () => {
    fc.assert(
      fc.property(numeral, numeral, (a, b) => {
        const [[m, n], [p, q]] = [rational(a), rational(b)];
        const result = (operator: string) => rational(String(evaluate(`decimal(a) ${operator} decimal(b)`, a, b)));
        expect(same(result("+"), [m * q + p * n, n * q])).toBe(true);
        expect(same(result("-"), [m * q - p * n, n * q])).toBe(true);
        expect(same(result("*"), [m * p, n * q])).toBe(true);
        expect(evaluate("decimal(a) < decimal(b)", a, b)).toBe(less([m, n], [p, q]));
        expect(evaluate("decimal(a) == decimal(b)", a, b)).toBe(same([m, n], [p, q]));
        expect(evaluate("[decimal(a), decimal(b)].distinct().size()", a, b)).toBe(same([m, n], [p, q]) ? 1 : 2);
      }),
      options,
    );
  });

  it("keeps its digits: its text is the text that it was made of", () => {
    fc.assert(
      fc.property(numeral, (a) => {
        expect(evaluate("decimal(a)", a)).toBe(/[1-9]/.test(a) ? a : a.replace("-", ""));
      }),
      options,
    );
  });

  it("divides to 34 digits at least, and is nearest to the quotient", () => {
    fc.assert(
      fc.property(numeral, numeral, (a, b) => {
        const [[m, n], [p, q]] = [rational(a), rational(b)];
        fc.pre(p !== 0n);
        const text = String(evaluate("decimal(a) / decimal(b)", a, b));
        const [r, s] = rational(text);
        // |r/s - mq/np| is at most half a unit of the 34th digit of mq/np.
        const size = (value: bigint) => (value < 0n ? -value : value);
        expect(2n * 10n ** 33n * size(r * n * p - m * q * s) <= size(m * q * s), text).toBe(true);
      }),
      options,
    );
  });

  it("has the remainder of whole times, with the sign of the dividend", () => {
    fc.assert(
      fc.property(numeral, numeral, (a, b) => {
        const [[m, n], [p, q]] = [rational(a), rational(b)];
        fc.pre(p !== 0n);
        const rest = (m * q) % (p * n);
        expect(same(rational(String(evaluate("decimal(a) % decimal(b)", a, b))), [rest, n * q])).toBe(true);
      }),
      options,
    );
  });

  it.each(["half_up", "half_even", "half_down", "up", "down", "ceiling", "floor"])("rounds %s", (mode) => {
    const short = fc
      .tuple(fc.integer({ min: -20_000, max: 20_000 }), fc.nat(3))
      .map(([n, scale]) => [n, scale] as const);
    fc.assert(
      fc.property(short, ([n, scale]) => {
        const text = (Math.abs(n) / 10 ** scale).toFixed(scale);
        const rounded = Number(evaluate(`decimal(a).round(1, '${mode}')`, n < 0 ? `-${text}` : text)) * 10;
        // In tenths: n / 10^(scale - 1), exactly.
        const unit = 10 ** Math.max(0, scale - 1);
        const exact = scale === 0 ? n * 10 : n;
        const [below, rest] = [Math.floor(exact / unit), ((exact % unit) + unit) % unit];
        const away = exact < 0 ? below : below + 1;
        const near = exact < 0 ? below + 1 : below;
        const nearest = rest * 2 > unit ? below + 1 : below;
        const half = rest * 2 === unit;
        const wanted: Record<string, number> = {
          half_up: half ? away : nearest,
          half_down: half ? near : nearest,
          half_even: half ? (below % 2 === 0 ? below : below + 1) : nearest,
          up: away,
          down: near,
          ceiling: below + 1,
          floor: below,
        };
        expect(Math.round(rounded)).toBe(rest === 0 ? below : (wanted[mode] ?? Number.NaN));
      }),
      options,
    );
  });

  it("is taken from a double by its shortest text", () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true, min: -1e15, max: 1e15 }), (value) => {
        fc.pre(!Object.is(value, -0));
        expect(compileExpression("double(decimal(v))").evaluate({ v: value })).toBe(value);
        expect(compileExpression("decimal(v) == v").evaluate({ v: value })).toBe(true);
      }),
      options,
    );
  });

  it.each([
    ["decimal(a)", "1".repeat(1_001)],
    ["decimal(a)", "1e1000"],
    ["decimal(a)", "1e-1001"],
    ["decimal(a)", "1e9999"],
    ["decimal(a) * decimal(a)", "9".repeat(501)],
    ["decimal(a) + 1", "9".repeat(1_000)],
    ["decimal(a) / 3", `1e-1000`],
    ["decimal(a)", "1,5"],
    ["decimal(a)", ""],
    ["decimal(a)", "0x10"],
    ["decimal(0.0 / 0.0)", "1"],
    ["decimal(1.0 / 0.0)", "1"],
  ])("of too many digits, or of no number, is an error, case %$: %s", (source, a) => {
    expect(() => evaluate(source, a)).toThrow(ExpressionError);
  });

  it("with a thousand digits is within the budget, and a loop over such numbers ends", () => {
    const a = "7".repeat(500);
    expect(evaluate("decimal(a) * decimal(a) > decimal(a)", a)).toBe(true);
    expect(evaluate("size(string(decimal(a) / 3))", a)).toBeGreaterThan(400);
    const products = "lists.range(100000).map(i, decimal(a) * decimal(a)).size()";
    expect(() => evaluate(products, a)).toThrow("the expression used up its step budget");
  });
});
