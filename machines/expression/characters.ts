// Characters are code points, as CEL counts them: a pair of surrogates is one character, and no function cuts it. A text without pairs,
// as nearly every text is, is indexed directly. Looking for a pair takes no time in a text of Latin letters, which V8 stores in bytes, and
// 1 ns a character in another; counting takes 5 ns (measured).
import { type CelError, celError } from "@bufbuild/cel";
import { spend } from "./fuel.js";
import { makeText } from "./prices.js";

const PAIRS = /[\ud800-\udbff]/;

function hasPairs(text: string): boolean {
  spend(text.length >>> 6);
  return PAIRS.test(text);
}

export function length(text: string): bigint {
  spend(text.length >>> 4);
  return BigInt(hasPairs(text) ? countTo(text, text.length) : text.length);
}

/** The number of characters before an offset. */
function countTo(text: string, offset: number): number {
  spend(offset >>> 3);
  let count = 0;
  for (let index = 0; index < offset; index++, count++) if (isLead(text.charCodeAt(index))) index++;
  return count;
}

/** The offset of the character with that index, or the end. Undefined: the text has fewer characters. */
function offsetOf(text: string, index: number): number | undefined {
  if (index < 0 || index > text.length) return undefined;
  if (!hasPairs(text)) return index;
  spend(index >>> 3);
  let offset = 0;
  for (let count = 0; count < index; count++) {
    if (offset >= text.length) return undefined;
    offset += isLead(text.charCodeAt(offset)) ? 2 : 1;
  }
  return offset;
}

/** The texts of expressions are well-formed, so a leading surrogate has its other half behind it. */
function isLead(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}

function outside(name: string): CelError {
  return celError(`${name}(): the index is outside of the text`);
}

export function charAt(text: string, index: bigint): string | CelError {
  const offset = offsetOf(text, Number(index));
  if (offset === undefined) return outside("charAt");
  return offset === text.length ? "" : String.fromCodePoint(text.codePointAt(offset) as number);
}

export function substring(text: string, start: bigint, end?: bigint): string | CelError {
  const from = offsetOf(text, Number(start));
  const to = end === undefined ? text.length : offsetOf(text, Number(end));
  if (from === undefined || to === undefined) return outside("substring");
  return from > to ? celError("substring(): the end is before the start") : text.substring(from, to);
}

export function indexOf(text: string, needle: string, start?: bigint): bigint | CelError {
  const from = start === undefined ? 0 : offsetOf(text, Number(start));
  if (from === undefined) return outside("indexOf");
  paySearch(text, needle);
  return indexAt(text, text.indexOf(needle, from));
}

export function lastIndexOf(text: string, needle: string, start?: bigint): bigint | CelError {
  const from = start === undefined ? text.length : offsetOf(text, Number(start));
  if (from === undefined) return outside("lastIndexOf");
  paySearch(text, needle, true);
  return indexAt(text, text.lastIndexOf(needle, from));
}

function indexAt(text: string, offset: number): bigint {
  return BigInt(offset <= 0 || !hasPairs(text) ? offset : countTo(text, offset));
}

/**
 * V8 searches in linear time if the needle fits its tables (250 characters; 13 µs for 64 KiB). For longer needles, and for a search
 * from the end, the worst case is the product of the lengths.
 */
export function paySearch(text: string, needle: string, backwards = false): void {
  if (needle.length > 250 || backwards) spend((text.length * needle.length) / 64);
}

export function reverse(text: string): string {
  spend(text.length);
  makeText(text.length);
  return (hasPairs(text) ? Array.from(text) : text.split("")).reverse().join("");
}

/** White space as Unicode defines it. */
const BLANK = /[\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/;

export function trim(text: string): string {
  spend(text.length);
  let start = 0;
  let end = text.length;
  while (start < end && BLANK.test(text[start] as string)) start++;
  while (end > start && BLANK.test(text[end - 1] as string)) end--;
  return text.slice(start, end);
}

const ESCAPES: Readonly<Record<string, string>> = {
  // CEL's octal escapes have three digits.
  "\u0000": "\\000",
  "\u0007": "\\a",
  "\b": "\\b",
  "\t": "\\t",
  "\n": "\\n",
  "\v": "\\v",
  "\f": "\\f",
  "\r": "\\r",
  '"': '\\"',
  "\\": "\\\\",
};

/** Writes a text as a literal of CEL. */
export function quote(text: string): string {
  spend(text.length * 2);
  makeText(text.length * 2);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is escaped.
  return `"${text.replace(/[\u0000\u0007-\r"\\]/g, (char) => ESCAPES[char] ?? char)}"`;
}
