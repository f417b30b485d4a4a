// Text is code points: every function of text against arrays of code points, and no result with half of a character.
// @module-tag both
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compileExpression, ExpressionError } from "../../machines/expression/index.js";
import type { Json } from "../../machines/values/json.js";
import { cases, firstSeed } from "../harness/long.js";

/** ASCII, Latin, the last characters of the first plane and the first behind it, and emoji; with white space and what is escaped. */
const character = fc.constantFrom(..."aab-é", "🎉", "😀", "\u{10000}", "\uffee", "\ue000", " ", "\n", '"', "\\");
const text = fc.string({ unit: character, maxLength: 12 });
const part = fc.string({ unit: character, maxLength: 2 });
const options = { numRuns: cases(300, 3_000), seed: firstSeed() };

const ERROR = Symbol("an error");
const compiled = new Map<string, ReturnType<typeof compileExpression>>();

function evaluate(source: string, inputs: Record<string, Json>): unknown {
  const expression = compiled.get(source) ?? compileExpression(source);
  compiled.set(source, expression);
  try {
    return expression.evaluate({ inputs });
  } catch (error) {
    expect(error).toBeInstanceOf(ExpressionError);
    return ERROR;
  }
}

const chars = (value: string) => Array.from(value);

/** Where the array holds the part, at `from` or behind it, or before it. */
function found(all: readonly string[], wanted: readonly string[], from: number, step: 1 | -1): number {
  for (let at = from; at >= 0 && at <= all.length; at += step)
    if (at + wanted.length <= all.length && wanted.every((char, index) => all[at + index] === char)) return at;
  return -1;
}

function byCodePoint(left: string, right: string): number {
  const [a, b] = [chars(left), chars(right)];
  for (const [index, char] of a.entries()) {
    const other = b[index];
    if (other === undefined) return 1;
    if (char !== other) return (char.codePointAt(0) as number) - (other.codePointAt(0) as number);
  }
  return a.length - b.length;
}

type Inputs = { t: string; p: string; i: number; j: number };
const inputs: fc.Arbitrary<Inputs> = fc.record({
  t: text,
  p: part,
  i: fc.integer({ min: -1, max: 14 }),
  j: fc.integer({ min: -1, max: 14 }),
});

/** Oracles by the source of their expression: what an array of code points says. */
const ORACLES: Readonly<Record<string, (given: Inputs) => unknown>> = {
  "size(inputs.t)": ({ t }) => chars(t).length,
  "inputs.t.charAt(inputs.i)": ({ t, i }) => (i < 0 || i > chars(t).length ? ERROR : (chars(t)[i] ?? "")),
  "inputs.t.substring(inputs.i)": ({ t, i }) => (i < 0 || i > chars(t).length ? ERROR : chars(t).slice(i).join("")),
  "inputs.t.substring(inputs.i, inputs.j)": ({ t, i, j }) =>
    i < 0 || i > j || j > chars(t).length ? ERROR : chars(t).slice(i, j).join(""),
  "inputs.t.indexOf(inputs.p)": ({ t, p }) => found(chars(t), chars(p), 0, 1),
  "inputs.t.indexOf(inputs.p, inputs.i)": ({ t, p, i }) =>
    i < 0 || i > chars(t).length ? ERROR : found(chars(t), chars(p), i, 1),
  "inputs.t.lastIndexOf(inputs.p)": ({ t, p }) => found(chars(t), chars(p), chars(t).length, -1),
  "inputs.t.lastIndexOf(inputs.p, inputs.i)": ({ t, p, i }) =>
    i < 0 || i > chars(t).length ? ERROR : found(chars(t), chars(p), i, -1),
  "inputs.t.reverse()": ({ t }) => chars(t).reverse().join(""),
  "inputs.t.split('')": ({ t }) => chars(t),
  "inputs.t.split(inputs.p).join(inputs.p)": ({ t }) => t,
  "inputs.t.replace('', inputs.p)": ({ t, p }) =>
    p +
    chars(t)
      .map((char) => char + p)
      .join(""),
  "inputs.t.lowerAscii() + inputs.t.upperAscii()": ({ t }) =>
    t +
    chars(t)
      .map((char) => (char < "\u0080" ? char.toUpperCase() : char))
      .join(""),
  "inputs.t.trim()": ({ t }) => t.replace(/^[ \n]+|[ \n]+$/g, ""),
  "strings.quote(inputs.t)": ({ t }) => `"${t.replace(/[\\"]/g, "\\$&").replaceAll("\n", "\\n")}"`,
  "'%s|%s'.format([inputs.t, [inputs.p]])": ({ t, p }) => `${t}|[${p}]`,
  "inputs.t < inputs.p": ({ t, p }) => byCodePoint(t, p) < 0,
  "inputs.t >= inputs.p": ({ t, p }) => byCodePoint(t, p) >= 0,
  "[inputs.t, inputs.p, 'é😀'].sort()": ({ t, p }) => [t, p, "é😀"].sort(byCodePoint),
  "[inputs.t, inputs.p].max()": ({ t, p }) => (byCodePoint(t, p) < 0 ? p : t),
  "string(bytes(inputs.t)) + string(base64.decode(base64.encode(inputs.t)))": ({ t }) => t + t,
  "'%s'.format([{inputs.t: 1, inputs.t + 'x': 2, 'z' + inputs.p: 3}])": ({ t, p }) => {
    const members = { [t]: 1, [`${t}x`]: 2, [`z${p}`]: 3 };
    const names = Object.keys(members).sort(byCodePoint);
    return names.length < 3 ? ERROR : `{${names.map((name) => `${name}: ${members[name]}`).join(", ")}}`;
  },
};

describe("a text is a sequence of code points", () => {
  it("so a customer's emoji is never cut", () => {
    const given = { c: "Great job🎉🎉 thanks a lot" };
    expect(evaluate("inputs.c.substring(0, 10)", given)).toBe("Great job🎉");
    expect(evaluate("'😀abc'.indexOf('a')", {})).toBe(1);
    expect(evaluate("inputs.c.charAt(10) + inputs.c.substring(9, 10)", given)).toBe("🎉🎉");
    expect(evaluate("'\uffff' < '😀'", {})).toBe(true);
  });

  it.each(Object.entries(ORACLES))("%s is what an array of code points says", (source, oracle) => {
    fc.assert(
      fc.property(inputs, (given) => {
        expect(evaluate(source, given), JSON.stringify(given)).toEqual(oracle(given));
      }),
      options,
    );
  });
});
