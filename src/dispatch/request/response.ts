// A response as a step's output: {status, headers, body}. What the body is, is decided by what it says of itself and by what it
// holds; whether the status is a success is not decided here.
import { type Json, type JsonObject, measure } from "../../../machines/index.js";
import type { Incoming } from "../../egress/exchange.js";

/** The output, or why it cannot be stored. */
export function outputOf({ status, headers, body }: Incoming): JsonObject | string {
  const output = { status, headers, body: bodyOf(headers["content-type"] ?? "", body) };
  const size = measure(output);
  return typeof size === "number"
    ? output
    : `the response cannot be stored: ${size.path.slice(1, 200)} ${size.message}`;
}

/** JSON parsed, text as text, anything else as {base64}; null where there is nothing. */
function bodyOf(contentType: string, body: Buffer): Json {
  if (body.length === 0) return null;
  const text = textOf(contentType, body);
  if (text === undefined) return { base64: body.toString("base64") };
  return isJson(contentType) ? parsed(text) : text;
}

/** What says that it is JSON and is not, is text. */
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
    return undefined; // No such charset, or bytes that it does not have.
  }
}

/** `Retry-After` in milliseconds from `now`: seconds, or a date. */
export function retryAfterOf({ headers }: Pick<Incoming, "headers">, now: number): number | undefined {
  const text = headers["retry-after"]?.trim();
  if (text === undefined) return undefined;
  const ms = /^\d{1,9}$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now;
  return Number.isFinite(ms) ? Math.max(0, Math.ceil(ms)) : undefined;
}

export function isExpected(status: number, expected: readonly (number | string)[]): boolean {
  return expected.some((item) => item === status || item === `${Math.floor(status / 100)}xx`);
}

/** The body of a request as it is sent, and what it is unless its headers say. */
export function requestBody(body: Json | undefined): { readonly text: string; readonly type: string } | undefined {
  if (body === undefined) return undefined;
  if (typeof body === "string") return { text: body, type: "text/plain; charset=utf-8" };
  return { text: JSON.stringify(body), type: "application/json" };
}
