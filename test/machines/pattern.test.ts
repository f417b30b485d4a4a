// Regular expressions from outside: weighed before they are compiled, bounded in what they keep.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { RE2JS } from "re2js";
import { describe, expect, it } from "vitest";
import { compilePattern, PatternError } from "../../machines/values/pattern.js";
import { programSize } from "../../machines/values/pattern-size.js";
import { WeightedCache } from "../../machines/values/weighted-cache.js";

setFlagsFromString("--expose-gc");
const collectGarbage: () => void = runInNewContext("gc");
const usedHeap = () => {
  collectGarbage();
  return process.memoryUsage().heapUsed;
};

describe("the size of a pattern's program, from its source", () => {
  it.each([
    "^[0-9]{5}$",
    "^[a-z0-9._%+-]+@[a-z0-9.-]+\\.[a-z]{2,}$",
    "((a{0,30}){0,30})",
    "(a?){500}a{500}",
    "(\\pL|[^a]){500}x{3,30}",
    "[[:alpha:]_]{1,255}@[^\\]@]{5,}",
    "(?i)(A|a)+b",
    "(?:(?:\\p{Greek}[]x]\\d){10}){100}",
    `${"[a-z]{1000}".repeat(60)}`,
  ])("%s is about what the engine makes of it", (pattern) => {
    const actual = RE2JS.compile(pattern).programSize();
    expect(programSize(pattern)).toBeGreaterThanOrEqual(actual / 2);
    expect(programSize(pattern)).toBeLessThanOrEqual(actual * 2 + 20);
  });

  it("is known without compiling it: a program of 160,000 instructions is refused at once", () => {
    const bomb = "a{1000}".repeat(140);
    expect(() => compilePattern(bomb)).toThrow(PatternError);
    expect(() => compilePattern(bomb)).toThrow("over 10000 instructions");
  });

  it.each(["(?=a)b", "(a)\\1", "(", "a{1001}", "((a{100}){100}){100}", "a".repeat(1_001)])(
    "%s is refused",
    (pattern) => {
      expect(() => compilePattern(pattern)).toThrow(PatternError);
    },
  );
});

/** Random letters: the worst text for an engine that remembers states. */
function randomText(letters: string, length: number): string {
  let seed = 1;
  const next = () => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
    return letters[(seed >>> 16) % letters.length];
  };
  return Array.from({ length }, next).join("");
}

function costOf(pattern: string, text: string, fresh = true): number {
  let units = 0;
  compilePattern(pattern).test(text, (more) => (units += more), fresh);
  return units;
}

describe("the cost of a test", () => {
  const text = randomText("abcd", 2_000);

  it("is that of its text where the engine reads it once", () => {
    for (const pattern of ["^[a-z]+$", "^[0-9]{5}$", "x", "[a-z0-9.]+@[a-z0-9.]+\\.[a-z]{2,}"])
      expect(costOf(pattern, text), pattern).toBeLessThan(text.length * 2);
  });

  it("is that of the states it builds, which the text decides", () => {
    const hostile = ".{200}c.{20}d$";
    expect(costOf(hostile, `${text}a`)).toBeGreaterThan(text.length * 200);
    expect(costOf(hostile, "c".repeat(2_000))).toBeLessThan(text.length * 2);
  });

  it("is that of the threads where there are too many states to remember", { tags: "long" }, () => {
    expect(costOf("(?s).{0,900}c.{900}d$", `${randomText("abcd", 3_000)}a`)).toBeGreaterThan(3_000 * 1_000);
  });

  it("does not depend on what was tested before, if it begins afresh", () => {
    const first = costOf("(a|b)*a(a|b){5}c", text);
    expect(costOf("(a|b)*a(a|b){5}c", text, false)).toBeLessThan(first);
    expect(costOf("(a|b)*a(a|b){5}c", text)).toBe(first);
  });

  it("is paid before the work: who cannot pay stops it", () => {
    const pattern = compilePattern(".{200}c.{20}d$");
    let left = 10_000;
    const spend = (units: number) => {
      left -= units;
      if (left < 0) throw new Error("no more");
    };
    expect(() => pattern.test(`${randomText("abcd", 1_000_000)}a`, spend, true)).toThrow("no more");
    expect(left).toBeGreaterThan(-2_000_000);
    expect(pattern.test(`${"-".repeat(200)}c${"-".repeat(20)}d`, () => {}, true)).toBe(true);
  });
});

describe("a pattern", () => {
  it("forgets the states of a hostile text: six of them keep no 40 MB", { tags: "long" }, () => {
    const text = `${randomText("abcd", 3_000)}a`;
    const patterns = Array.from({ length: 6 }, (_, n) => compilePattern(`.{${200 + n}}c.{20}d$`));
    const before = usedHeap();
    for (const pattern of patterns) pattern.test(text, () => {}, false);
    const kept = (usedHeap() - before) / 2 ** 20;
    console.log(`six hostile patterns keep ${kept.toFixed(0)} MB`);
    expect(kept).toBeLessThan(12);
    for (const pattern of patterns)
      expect(pattern.test(`${"-".repeat(300)}c${"-".repeat(20)}d`, () => {}, false)).toBe(true);
  });
});

describe("a cache that is bounded by weight", () => {
  it("holds what was used last, whatever the number", () => {
    const cache = new WeightedCache<number, string>(100);
    for (let key = 0; key < 50; key++) cache.set(key, `v${key}`, 10);
    expect(cache.weight).toBeLessThanOrEqual(100);
    expect(cache.get(49)).toBe("v49");
    expect(cache.get(0)).toBeUndefined();
    for (let key = 100; key < 1_000; key++) {
      cache.set(key, "", 1);
      expect(cache.get(49)).toBe("v49");
    }
    expect(cache.weight).toBeLessThanOrEqual(110);
  });

  it("holds a single value that is heavier than the cache, and nothing for long beside it", () => {
    const cache = new WeightedCache<string, number>(10);
    cache.set("heavy", 1, 1_000);
    expect(cache.get("heavy")).toBe(1);
    cache.set("light", 2, 1);
    cache.set("lighter", 3, 5);
    expect(cache.get("heavy")).toBeUndefined();
  });

  it("counts a value that is set again once", () => {
    const cache = new WeightedCache<string, number>(100);
    for (let n = 0; n < 20; n++) cache.set("a", n, 40);
    expect(cache.get("a")).toBe(19);
    expect(cache.weight).toBe(40);
    cache.delete("a");
    expect(cache.size).toBe(0);
  });
});
