// The literals of CEL: numbers, quoted texts and quoted bytes, read at an offset of the source.
import { type CelValue, celUint } from "@bufbuild/cel";
import { getTextEncoding } from "@bufbuild/protobuf/wire";
import { ExpressionSyntaxError } from "./errors.js";
import type { Constant } from "./tree.js";

/** The value of a constant of the tree. */
export function constantOf({ case: kind, value }: Constant): CelValue {
  if (kind === "uint64Value") return celUint(value);
  if (kind === "nullValue") return null;
  if (kind === undefined || kind === "durationValue" || kind === "timestampValue")
    throw new ExpressionSyntaxError("the expression cannot be parsed");
  return value;
}

export interface Literal {
  readonly constant: Constant;
  /** The offset after it. */
  readonly end: number;
}

const DOUBLE = /-?(?:\d*\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)/y;
const UINT = /(0x[0-9a-fA-F]+|\d+)[uU]/y;
const INT = /-?(?:0x[0-9a-fA-F]+|\d+)/y;
const QUOTE = /([bB]?)([rR]?)("""|'''|"|')/y;
const ESCAPED_BYTE = /\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2}))/y;
const ESCAPED = /\\([abfnrtv"'`\\?])/y;
const MEANT: Readonly<Record<string, string>> = {
  a: "\u0007",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
};
const LAST_CODE_POINT = 0x10ffff;

function matchAt(pattern: RegExp, source: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at;
  return pattern.exec(source);
}

/** Undefined: there is no number. A minus right before it is part of it. */
export function readNumber(source: string, at: number): Literal | undefined {
  const double = matchAt(DOUBLE, source, at)?.[0];
  if (double !== undefined)
    return { constant: { case: "doubleValue", value: Number.parseFloat(double) }, end: at + double.length };
  const [uint, digits = ""] = matchAt(UINT, source, at) ?? [];
  if (uint !== undefined) return { constant: { case: "uint64Value", value: BigInt(digits) }, end: at + uint.length };
  const int = matchAt(INT, source, at)?.[0];
  if (int === undefined) return undefined;
  const value = int.startsWith("-") ? -BigInt(int.slice(1)) : BigInt(int);
  return { constant: { case: "int64Value", value }, end: at + int.length };
}

/** Undefined: there is no quote, with or without a prefix. Throws ExpressionSyntaxError if the literal is not closed. */
export function readQuoted(source: string, at: number): Literal | undefined {
  const [opening, bytes = "", raw = "", quote = ""] = matchAt(QUOTE, source, at) ?? [];
  if (opening === undefined) return undefined;
  const { parts, end } = readParts(source, at + opening.length, quote, raw !== "");
  if (end === undefined) throw new ExpressionSyntaxError("a quoted text is not closed", at);
  if (bytes !== "") return { constant: { case: "bytesValue", value: bytesOf(parts) }, end };
  return { constant: { case: "stringValue", value: textOf(parts, at) }, end };
}

/** The text of a literal, and the code points or bytes that are escaped in it. */
type Part = string | number;

/** `end` is undefined if the quote does not come. A text in single quotes ends with its line. */
function readParts(source: string, from: number, quote: string, raw: boolean): { parts: Part[]; end?: number } {
  const parts: Part[] = [];
  let plain = from;
  let at = from;
  const flush = () => {
    if (at > plain) parts.push(source.slice(plain, at));
  };
  while (at < source.length) {
    const escaped = raw || source[at] !== "\\" ? undefined : readEscape(source, at);
    if (escaped) {
      flush();
      parts.push(escaped.part);
      at = plain = at + escaped.length;
    } else if (source.startsWith(quote, at)) {
      flush();
      return { parts, end: at + quote.length };
    } else if (quote.length === 1 && (source[at] === "\n" || source[at] === "\r")) break;
    else at++;
  }
  return { parts };
}

/** Undefined: the backslash stands for itself. */
function readEscape(source: string, at: number): { readonly part: Part; readonly length: number } | undefined {
  const [byte, x, u, long, octal] = matchAt(ESCAPED_BYTE, source, at) ?? [];
  if (byte !== undefined) {
    const part = octal === undefined ? Number.parseInt(x ?? u ?? long ?? "", 16) : Number.parseInt(octal, 8);
    return { part, length: byte.length };
  }
  const [escaped, char = ""] = matchAt(ESCAPED, source, at) ?? [];
  return escaped === undefined ? undefined : { part: MEANT[char] ?? char, length: escaped.length };
}

function textOf(parts: readonly Part[], at: number): string {
  return parts.map((part) => (typeof part === "string" ? part : character(part, at))).join("");
}

function character(codePoint: number, at: number): string {
  if (codePoint > LAST_CODE_POINT) throw new ExpressionSyntaxError("an escaped code point does not exist", at);
  if (codePoint >= 0xd800 && codePoint <= 0xdfff)
    throw new ExpressionSyntaxError("surrogate code points are not allowed", at);
  return String.fromCodePoint(codePoint);
}

function bytesOf(parts: readonly Part[]): Uint8Array {
  const chunks = parts.map((part) =>
    typeof part === "string" ? getTextEncoding().encodeUtf8(part) : new Uint8Array([part]),
  );
  const bytes = new Uint8Array(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}
