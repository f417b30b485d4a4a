// A response as the output of its step: {status, headers, body}; and the pieces of HTTP that go with it. It does not
// decide whether the step succeeded: attempt.ts does.
import { type Json, type JsonObject, measure } from "../../../machines/index.js";
import type { Incoming } from "../../egress/exchange.js";

/** The output, or a message why it cannot be stored. */
export function outputOf({ status, headers, body }: Incoming): JsonObject | string {
  const output = { status, headers, body: bodyOf(headers["content-type"] ?? "", body) };
  const size = measure(output);
  return typeof size === "number"
    ? output
    : `the response cannot be stored: ${size.path.slice(1, 200)} ${size.message}`;
}

/** JSON is parsed, text stays text, anything else becomes {base64}; null for an empty body. */
function bodyOf(contentType: string, body: Buffer): Json {
  if (body.length === 0) return null;
  const text = textOf(contentType, body);
  if (text === undefined) return { base64: body.toString("base64") };
  return isJson(contentType) ? parsed(text) : text;
}

/** A body that is declared as JSON and does not parse stays text. */
function parsed(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return text;
  }
}

const isJson = (contentType: string) => /^\s*(application|text)\/([\w.!#$&^-]+\+)?json\s*(;|$)/i.test(contentType);

function textOf(contentType: string, body: Buffer): string | undefined {
  const charset = /;\s*charset\s*=\s*"?([\w.:-]{1,40})/i.exec(contentType)?.[1] ?? "utf-8";
  try {
    const text = new TextDecoder(charset, { fatal: true }).decode(body);
    return text.includes("\0") ? undefined : text;
  } catch {
    return undefined; // An unknown charset, or bytes that are not valid in it.
  }
}

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
