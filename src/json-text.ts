// JSON from outside, as text: the same at every door. What may be stored of it is another question (`measure` of machines/).
import { isUtf8 } from "node:buffer";

type Reviver = (key: string, value: unknown) => unknown;

/**
 * With or without a byte order mark before it, as editors and libraries of Windows write it; RFC 8259, section 8.1, lets parsers ignore one.
 * Throws SyntaxError.
 */
export function parseJson(text: string, reviver?: Reviver): unknown {
  return JSON.parse(withoutMark(text), reviver);
}

const withoutMark = (text: string) => (text.startsWith("\uFEFF") ? text.slice(1) : text);

/** The content of a file. Throws Error with what the file is not, for a person who wrote it, or what the reviver throws. */
export function parseJsonFile(bytes: Uint8Array, reviver?: Reviver): unknown {
  // Decoding would replace what is wrong, and nobody would see it.
  if (!isUtf8(bytes)) throw new Error("is not UTF-8");
  const text = Buffer.from(bytes).toString();
  try {
    return parseJson(text, reviver);
  } catch (error) {
    throw error instanceof SyntaxError ? new Error(`is not JSON${placeOf(error, text)}`) : error;
  }
}

/** Where the text ceases to be JSON: `: see line 4, column 21`. V8 quotes the text in its messages: only the place is taken from them. */
export function placeOf(fault: unknown, text: string): string {
  const error = String(fault);
  if (/^SyntaxError: Unexpected end of JSON input$/.test(error)) return ": it ends too early";
  // The engine quotes the text in the middle: only its own words, at both ends, are read.
  const position = / at position (\d+)(?: \(line \d+ column \d+\))?$/.exec(error)?.[1];
  const token = /^SyntaxError: Unexpected token '(\P{Surrogate})', /u.exec(error)?.[1];
  if (position === undefined) return token === undefined ? "" : `: unexpected ${token}`;
  const before = withoutMark(text).slice(0, Number(position)).split("\n");
  return `: see line ${before.length}, column ${(before.at(-1) ?? "").length + 1}`;
}
