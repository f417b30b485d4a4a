// A response as the output of its step: {status, headers, body}; and the pieces of HTTP that go with it. It does not
// decide whether the step succeeded: attempt.ts does.
import { type Json, type JsonObject, measure } from "../../../machines/index.js";
import type { Incoming } from "../../egress/exchange.js";

/** The output, or a message why it cannot be stored. */
export function outputOf({ status, headers, cookies, body }: Incoming): JsonObject | string {
  const output = {
    status,
    // One is text, as every other header is; several cannot be one text, because a comma may be part of each.
    headers: { ...headers, ...(cookies.length > 0 && { "set-cookie": cookies.length === 1 ? cookies[0] : cookies }) },
    body: bodyOf(headers["content-type"] ?? "", body),
  } as JsonObject;
  const size = measure(output);
  return typeof size === "number"
    ? output
    : `the response cannot be stored: ${size.path.slice(1, 200)} ${size.message}`;
}

/** JSON is parsed, text stays text, anything else becomes {base64}; null for an empty body. */
function bodyOf(contentType: string, body: Buffer): Json {
  if (body.length === 0) return null;
  const value = isJson(contentType) ? jsonOf(contentType, body) : undefined;
  // `null` is JSON.
  if (value !== undefined) return value;
  return textOf(contentType, body) ?? { base64: body.toString("base64") };
}

const isJson = (contentType: string) => /^\s*(application|text)\/([\w.!#$&^-]+\+)?json\s*(;|$)/i.test(contentType);

/**
 * JSON is UTF-8 (RFC 8259, section 8.1), whatever charset its type names. Only what is no JSON in UTF-8 is read in that charset.
 * Undefined: it is declared as JSON, and does not parse.
 */
function jsonOf(contentType: string, body: Buffer): Json | undefined {
  for (const charset of [UTF_8, charsetOf(contentType)]) {
    try {
      return JSON.parse(decoded(charset, body)) as Json;
    } catch {
      // The next charset may fit.
    }
  }
  return undefined;
}

/** The body in the charset that its type names. Without one, and with a name that is none, it is UTF-8. */
function textOf(contentType: string, body: Buffer): string | undefined {
  try {
    const text = decoded(charsetOf(contentType), body);
    return text.includes("\0") ? undefined : text;
  } catch {
    return undefined; // Bytes that are not valid in it.
  }
}

const UTF_8 = "utf-8";

function charsetOf(contentType: string): string {
  const label = /;\s*charset\s*=\s*"?([\w.:-]{1,40})/i.exec(contentType)?.[1] ?? UTF_8;
  try {
    return new TextDecoder(label).encoding;
  } catch {
    return UTF_8;
  }
}

/** A byte order mark goes before any name, and is no part of the text. Throws if the bytes are not valid. */
function decoded(charset: string, bytes: Buffer): string {
  const marked = BYTE_ORDER_MARKS.find(([mark]) => bytes.subarray(0, mark.length).equals(mark));
  return new TextDecoder(marked?.[1] ?? charset, { fatal: true }).decode(bytes);
}

const BYTE_ORDER_MARKS: readonly (readonly [Buffer, string])[] = [
  [Buffer.from([0xef, 0xbb, 0xbf]), UTF_8],
  [Buffer.from([0xff, 0xfe]), "utf-16le"],
  [Buffer.from([0xfe, 0xff]), "utf-16be"],
];

/** `Retry-After` (seconds or a date) in milliseconds from `now`. */
export function retryAfterOf({ headers }: Pick<Incoming, "headers">, now: number): number | undefined {
  const text = headers["retry-after"]?.trim();
  if (text === undefined) return undefined;
  const ms = /^\d{1,9}$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now;
  return Number.isFinite(ms) ? Math.max(0, Math.ceil(ms)) : undefined;
}

/** `expected`: statuses, or classes such as "2xx". */
export function isExpected(status: number, expected: readonly (number | string)[]): boolean {
  return expected.some((item) => item === status || item === `${Math.floor(status / 100)}xx`);
}

/** The body as it is sent, and its content type unless the request's headers name one. */
export function requestBody(body: Json | undefined): { readonly text: string; readonly type: string } | undefined {
  if (body === undefined) return undefined;
  if (typeof body === "string") return { text: body, type: "text/plain; charset=utf-8" };
  return { text: JSON.stringify(body), type: "application/json" };
}
