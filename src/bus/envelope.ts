// Envelopes: node messages as they are sent, as JSON text. A wire format: nodes of two versions exchange it during a rolling update,
// so members may be added, never changed.
import type { JsonObject } from "../../machines/index.js";
import { MAX_MESSAGE_BYTES } from "./bus.js";

export type Envelope<Body> =
  | { readonly kind: "ask" | "answer"; readonly id: string; readonly from: string; readonly body: Body }
  | { readonly kind: "tell"; readonly from: string; readonly body: Body };

export function encodeEnvelope(envelope: Envelope<object>): string | "malformed" | "too large" {
  try {
    const text = JSON.stringify(envelope);
    return fits(text) ? text : "too large";
  } catch {
    // A cycle or a bigint, past the types: a hint must not fail its sender.
    return "malformed";
  }
}

export function decodeEnvelope(text: string): Envelope<JsonObject> | "malformed" | "too large" {
  if (!fits(text)) return "too large";
  const value = parsedObject(text);
  return value !== undefined && isEnvelope(value) ? value : "malformed";
}

export function fits(text: string): boolean {
  return text.length <= MAX_MESSAGE_BYTES && Buffer.byteLength(text) <= MAX_MESSAGE_BYTES;
}

export function parsedObject(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isEnvelope(value: Readonly<Record<string, unknown>>): value is Envelope<JsonObject> {
  const { kind, id, from, body } = value;
  if (typeof from !== "string" || !isObject(body)) return false;
  return kind === "tell" || ((kind === "ask" || kind === "answer") && typeof id === "string");
}
