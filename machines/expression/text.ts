// The string functions that take a text apart or put one together, in linear time and paid for. characters.ts has those that count
// characters.
import { type CelError, type CelList, type CelValue, celError, isCelList } from "@bufbuild/cel";
import { compilePattern, type Pattern, PatternError } from "../values/pattern.js";
import { paySearch } from "./characters.js";
import { isFirstUse, MAX_TEXT_CHARS, spend } from "./fuel.js";
import { makeText } from "./prices.js";
import { listOf } from "./values.js";

export function replace(text: string, old: string, by: string, limit?: bigint): string {
  const count = limit === undefined || limit < 0n ? Number.POSITIVE_INFINITY : Number(limit);
  if (count === 0) return text;
  if (old === "") return interleave(text, by, count);
  const parts = split(text, old, Number.isFinite(count) ? count + 1 : undefined);
  spend(parts.length * 2);
  makeText(text.length + (parts.length - 1) * by.length);
  return parts.join(by);
}

/** An empty needle matches before each character and at the end, as in Go's strings.Replace. */
function interleave(text: string, by: string, count: number): string {
  if (text === "") return by;
  const parts = split(text, "", Number.isFinite(count) ? count : undefined);
  spend(parts.length * 2);
  makeText(text.length + (parts.length + 1) * by.length);
  return by + parts.join(by) + (count > parts.length ? by : "");
}

/** The text with every run of ASCII characters changed. */
export function asciiOf(text: string, change: (run: string) => string): string {
  return text.replace(/[^\u0080-\uffff]+/g, (run) => {
    spend(4);
    return change(run);
  });
}

/** At most `limit` parts. The last has the rest of the text, as in Go; JavaScript's limit would drop it. */
export function split(text: string, separator: string, limit?: number): string[] {
  paySearch(text, separator);
  if (limit === 0) return [];
  const parts = separator === "" ? Array.from(text) : text.split(separator);
  spend(parts.length);
  if (limit === undefined || limit < 0 || parts.length <= limit) return parts;
  const tail = parts.splice(limit - 1).join(separator);
  return [...parts, tail];
}

export function splitToList(text: string, separator: string, limit?: bigint): CelList {
  return listOf(split(text, separator, limit === undefined ? undefined : Number(limit)));
}

export function join(list: CelValue, separator: string): string | CelError {
  if (!isCelList(list)) return celError("invalid argument of join()");
  spend(list.size);
  const parts: string[] = [];
  let chars = 0;
  for (const item of list) {
    if (typeof item !== "string") return celError("invalid argument of join()");
    chars += item.length + separator.length;
    if (chars > MAX_TEXT_CHARS) makeText(chars);
    parts.push(item);
  }
  makeText(chars);
  return parts.join(separator);
}

/**
 * The first use of a pattern within a budget also pays for its compilation, whether or not the pattern is in
 * the cache: the cost must not depend on what else the process does.
 */
export function matches(text: string, pattern: string): boolean | CelError {
  const first = isFirstUse(pattern);
  if (first) spend(500 + pattern.length * 10);
  const compiled = patternOf(pattern);
  if (compiled === undefined) return celError("invalid argument of matches()");
  spend(first ? 20 + compiled.size * 50 : 20);
  return compiled.test(text, spend, first);
}

function patternOf(source: string): Pattern | undefined {
  try {
    return compilePattern(source);
  } catch (error) {
    if (error instanceof PatternError) return undefined;
    throw error;
  }
}
