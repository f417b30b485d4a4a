// The price of every function that reads or makes something large: units of the step budget in proportion to what it touches. A budget of
// 700,000 units is meant to last for some ten milliseconds, so a function whose work is cheaper than that could hold the node.
import { describe, expect, it } from "vitest";
import { compileExpression } from "../../machines/expression/compile.js";
import { fuelUsed } from "../../machines/expression/fuel.js";
import { functionNames } from "../../machines/expression/functions.js";
import { type Scope, withFuel } from "../../machines/expression/index.js";

const LARGE = 40_000;
const many = <T>(size: number, of: (index: number) => T): T[] => Array.from({ length: size }, (_, index) => of(index));

/** Large values of as many parts. `mixed` is the worst for what looks for runs of characters. */
function scopeOf(size: number): Scope {
  return {
    text: "x".repeat(size),
    other: `${"x".repeat(size - 1)}y`,
    mixed: "aé".repeat(size / 2),
    digits: "1".repeat(size),
    emoji: "😀a".repeat(size / 3),
    long: "7".repeat(size / 50),
    numbers: many(size, (n) => n),
    lists: many(size, (n) => [n]),
    others: many(size, (n) => n),
    words: many(size, (n) => `w${n}`),
    map: Object.fromEntries(many(size, (n) => [`k${n}`, n])),
    same: Object.fromEntries(many(size, (n) => [`k${n}`, n])),
    one: { a: 1 },
  };
}

const SMALL = 40;
const scopes = new Map([LARGE, SMALL].map((size) => [size, scopeOf(size)]));

/** Units for every thousand characters, elements or members. */
const PER_READ = 12;
const PER_CHARACTER = 250;
const PER_ELEMENT = 900;

/** Functions by their names: an expression in which it does the work, and the least it costs. */
const PRICES: Readonly<Record<string, readonly (readonly [source: string, least: number])[]>> = {
  size: [
    ["size(text)", 60],
    ["size(map)", PER_ELEMENT],
    ["size(bytes(text))", PER_READ],
  ],
  bytes: [
    ["bytes(text) == b''", PER_READ],
    ["bytes(text)", PER_ELEMENT],
  ],
  string: [
    ["string(text) == ''", PER_READ],
    ["string(bytes(text)) == ''", PER_CHARACTER],
  ],
  "_+_": [
    // Put together four times: what else the expression reads would not pay so much.
    ["text + text + text + text + text == ''", 40 * PER_READ],
    ["[bytes(text)].exists(b, size(b + b + b + b + b) == 0)", 40 * PER_READ],
    ["(numbers + others).exists(n, false)", 2 * PER_ELEMENT],
  ],
  "_==_": [
    ["text == other", 2 * PER_READ],
    ["bytes(text) == bytes(other)", 4 * PER_READ],
    ["numbers == others", PER_ELEMENT],
    ["map == same", 4 * PER_ELEMENT],
  ],
  "_!=_": [
    ["text != other", 2 * PER_READ],
    ["map != same", 4 * PER_ELEMENT],
  ],
  "_<_": [["text < other", 2 * PER_READ]],
  "_<=_": [["text <= other", 2 * PER_READ]],
  "_>_": [["text > other", 2 * PER_READ]],
  "_>=_": [["bytes(text) >= bytes(other)", 4 * PER_READ]],
  "@in": [
    ["-1 in numbers", PER_ELEMENT],
    ["text in one", PER_READ],
    ["bytes(text) in [bytes(other)]", 2 * PER_READ],
  ],
  contains: [
    ["text.contains('y')", PER_READ],
    ["text.contains(other)", LARGE],
  ],
  startsWith: [["text.startsWith(other)", 2 * PER_READ]],
  endsWith: [["text.endsWith(other)", 2 * PER_READ]],
  matches: [["text.matches('x*y')", PER_CHARACTER]],
  indexOf: [
    ["text.indexOf('y')", PER_READ],
    ["emoji.indexOf('y', size(emoji) - 1)", 10 * PER_READ],
  ],
  lastIndexOf: [["text.lastIndexOf('yy')", 2 * PER_READ]],
  charAt: [
    ["text.charAt(1)", PER_READ],
    ["emoji.charAt(size(emoji) - 1)", 10 * PER_READ],
  ],
  substring: [
    ["text.substring(1) == ''", PER_READ],
    ["emoji.substring(1, size(emoji)) == ''", 10 * PER_READ],
  ],
  replace: [
    ["text.replace('x', 'yy') == ''", 2 * PER_ELEMENT],
    ["text.replace('', 'y') == ''", 2 * PER_ELEMENT],
    ["text.replace('y', 'x') == ''", PER_READ],
  ],
  split: [["size(text.split('x'))", PER_ELEMENT]],
  join: [["words.join(',') == ''", PER_ELEMENT]],
  lowerAscii: [
    ["mixed.lowerAscii() == ''", 2 * PER_ELEMENT],
    ["text.lowerAscii() == ''", PER_READ],
  ],
  upperAscii: [
    ["mixed.upperAscii() == ''", 2 * PER_ELEMENT],
    ["text.upperAscii() == ''", PER_READ],
  ],
  trim: [["text.trim() == ''", PER_ELEMENT]],
  "strings.quote": [["strings.quote(mixed) == ''", 2 * PER_ELEMENT]],
  format: [
    ["'%s'.format([text]) == ''", PER_READ],
    ["'%s'.format([numbers]) == ''", 10 * PER_ELEMENT],
    ["'%s'.format([map]) == ''", 17 * PER_ELEMENT],
    ["'%x'.format([text]) == ''", 2 * PER_ELEMENT],
    ["'%X'.format([bytes(text)]) == ''", 2 * PER_ELEMENT],
    ["'%s'.format([bytes(text)]) == ''", 2 * PER_READ],
  ],
  int: [["int(digits)", PER_READ]],
  uint: [["uint(digits)", PER_READ]],
  double: [["double(digits)", PER_READ]],
  bool: [["bool(digits)", PER_READ]],
  duration: [["duration(digits)", PER_READ]],
  timestamp: [["timestamp(digits)", PER_READ]],
  decimal: [["decimal(long) == 1", 4]],
  round: [["decimal(long).round(-1) == 1", 8]],
  sum: [["sum(numbers)", 2 * PER_ELEMENT]],
  min: [["min(numbers)", 2 * PER_ELEMENT]],
  max: [["max(words)", 2 * PER_ELEMENT]],
  "math.greatest": [["math.greatest(numbers)", 2 * PER_ELEMENT]],
  "math.least": [["math.least(numbers)", 2 * PER_ELEMENT]],
  sort: [["size(sort(numbers))", 20 * PER_ELEMENT]],
  distinct: [
    ["size(distinct(numbers))", 12 * PER_ELEMENT],
    ["size([text, other].distinct())", 2 * PER_READ],
  ],
  slice: [["size(numbers.slice(1, size(numbers)))", 2 * PER_ELEMENT]],
  flatten: [["size(lists.flatten())", 8 * PER_ELEMENT]],
  reverse: [
    ["size(numbers.reverse())", 3 * PER_ELEMENT],
    ["text.reverse() == ''", PER_ELEMENT],
  ],
  "lists.range": [["size(lists.range(size(numbers)))", 3 * PER_ELEMENT]],
  unwrapOpt: [["size(numbers.map(n, optional.of(n)).unwrapOpt())", 20 * PER_ELEMENT]],
  "optional.unwrap": [["size(optional.unwrap(numbers.map(n, optional.of(n))))", 20 * PER_ELEMENT]],
  "sets.contains": [["sets.contains(numbers, [1])", 12 * PER_ELEMENT]],
  "sets.equivalent": [["sets.equivalent(numbers, [-1])", 12 * PER_ELEMENT]],
  "sets.intersects": [["sets.intersects(numbers, [-1])", 12 * PER_ELEMENT]],
  "base64.encode": [["base64.encode(text) == ''", PER_ELEMENT]],
  "base64.decode": [["base64.decode(digits) == b''", PER_ELEMENT]],
  "optional.ofNonZeroValue": [["optional.ofNonZeroValue(map)", PER_ELEMENT]],
};

/** They read a number, a time, a flag or one item, or nothing of their argument. */
const CONSTANT = new Set([
  ..."type dyn scale first last or orValue hasValue value optional.of optional.none math.abs math.ceil math.floor".split(
    " ",
  ),
  ..."math.round math.trunc math.sign math.sqrt math.isNaN math.isInf math.isFinite".split(" "),
  ..."math.bitAnd math.bitOr math.bitXor math.bitNot math.bitShiftLeft math.bitShiftRight".split(" "),
]);

/** Also of an evaluation that fails. */
function unitsOf(source: string, size: number): number {
  const expression = compileExpression(source);
  const scope = scopes.get(size) ?? {};
  withFuel(() => {
    try {
      expression.evaluate(scope);
    } catch {
      // A price is paid before the work, whatever comes of it.
    }
  });
  return fuelUsed();
}

describe("a function", () => {
  it.each(Object.entries(PRICES).flatMap(([name, calls]) => calls.map(([source, least]) => ({ name, source, least }))))(
    "$name pays for what it touches: $source",
    ({ source, least }) => {
      const [large, small] = [unitsOf(source, LARGE), unitsOf(source, SMALL)];
      expect(large - small).toBeGreaterThanOrEqual((least * LARGE) / 1_000 - 10);
    },
  );

  it("has a price, or is known to take no time that depends on its argument", () => {
    const priced = functionNames().filter((name) => !name.startsWith("get") && !CONSTANT.has(name));
    const functions = Object.keys(PRICES).filter((name) => /^[a-z]/.test(name));
    expect(priced.toSorted()).toEqual(functions.sort());
  });
});

describe("a result", () => {
  it.each([
    ["[map]", PER_ELEMENT],
    ["[numbers]", 240],
    ["bytes(text)", PER_ELEMENT],
  ])("pays for its members: %s", (source, least) => {
    expect(unitsOf(source, LARGE) - unitsOf(source, SMALL)).toBeGreaterThanOrEqual((least * LARGE) / 1_000 - 10);
  });
});
