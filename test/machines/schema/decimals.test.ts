// `multipleOf` is decimal arithmetic on the shortest text of both numbers. The oracle has them as fractions of whole numbers.
// @module-tag both
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Schemas } from "../../../machines/index.js";
import { firstSeed, long } from "../../harness/long.js";

const schemas = new Schemas();
const isMultiple = (value: number, multipleOf: number) => schemas.conforms({ multipleOf }, value).length === 0;

/** A number as a fraction, from its digits one by one. */
function fraction(number: number): { readonly over: bigint; readonly under: bigint } {
  const [mantissa = "", exponent = "0"] = String(number).split("e");
  let [over, under, isBehindPoint] = [0n, 1n, false];
  for (const char of mantissa) {
    if (char === ".") isBehindPoint = true;
    else if (char !== "-") {
      over = over * 10n + BigInt(char);
      if (isBehindPoint) under *= 10n;
    }
  }
  for (let left = Number(exponent); left > 0; left--) over *= 10n;
  for (let left = Number(exponent); left < 0; left++) under *= 10n;
  return { over, under };
}

function isWholeQuotient(value: number, divisor: number): boolean {
  const [left, right] = [fraction(value), fraction(divisor)];
  return (left.over * right.under) % (left.under * right.over) === 0n;
}

describe("multipleOf", () => {
  it.each([
    [19.99, 0.01, true],
    [19.999, 0.01, false],
    [0.1 + 0.2, 0.1, false],
    [0.3, 0.1, true],
    [1e-7, 1e-8, true],
    [1e-7, 1e-6, false],
    [1e308, 1e-7, true],
    [1e308, 0.123456789, false],
    [1e308, 0.5, true],
    [5e-324, 5e-324, true],
    [1.7976931348623157e308, 5e-324, true],
    [-4.35, 0.05, true],
    [0, 0.07, true],
    [-0, 3, true],
    [2 ** 53, 3, false],
    [2 ** 51 + 0.5, 0.5, true],
    [1.1, 1.1, true],
    [7, 2, false],
  ])("counts decimals as they are written: %d and %d", (value, divisor, expected) => {
    expect(isMultiple(value, divisor)).toBe(expected);
    expect(isWholeQuotient(value, divisor)).toBe(expected);
  });

  it("agrees with fractions of whole numbers", () => {
    const positive = fc.oneof(
      fc.double({ min: 5e-324, noNaN: true, noDefaultInfinity: true }),
      fc
        .tuple(fc.integer({ min: 1, max: 99_999 }), fc.integer({ min: -30, max: 30 }))
        .map(([n, e]) => Number(`${n}e${e}`)),
    );
    const value = fc.tuple(positive, fc.boolean()).map(([number, minus]) => (minus ? -number : number));
    const times = fc
      .tuple(positive, fc.integer({ min: -1_000, max: 1_000 }))
      .map(([one, n]) => [one * n, one] as const);
    const pair = fc.oneof(fc.tuple(value, positive), times);
    let multiples = 0;
    const property = fc.property(pair, ([number, divisor]) => {
      fc.pre(Number.isFinite(number) && divisor > 0 && Number.isFinite(divisor));
      const expected = isWholeQuotient(number, divisor);
      if (expected) multiples++;
      expect(isMultiple(number, divisor)).toBe(expected);
    });
    fc.assert(property, { seed: firstSeed(), numRuns: long(2_000, 50_000) });
    expect(multiples).toBeGreaterThan(100);
  });
});
