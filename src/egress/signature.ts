// Signatures of what is sent, by the Standard Webhooks specification. Not who may be sent what: a receiver that has the secret
// can tell that a message is ours, whole and new.
import { Webhook } from "standardwebhooks";

/**
 * The headers of a message: its id, the same for every attempt, when it is sent (epoch milliseconds), and the signature of
 * both with the body; without a secret there is none.
 */
export function signedHeaders(
  secret: string | undefined,
  id: string,
  sentAt: number,
  body: string,
): Record<string, string> {
  const at = new Date(sentAt);
  const headers = { "webhook-id": id, "webhook-timestamp": String(Math.floor(sentAt / 1000)) };
  if (secret === undefined) return headers;
  const key = keyOf(secret);
  if (key === undefined) throw new Error("a signing secret is malformed, which the start has to find out");
  return { ...headers, "webhook-signature": new Webhook(key, { format: "raw" }).sign(id, at, body) };
}

/** `whsec_` and Base64, else the bytes of the text itself. Undefined: what follows `whsec_` is no Base64. */
export function keyOf(secret: string): Uint8Array | undefined {
  if (!secret.startsWith("whsec_")) return new TextEncoder().encode(secret);
  const encoded = secret.slice("whsec_".length);
  const isBase64 = encoded.length % 4 === 0 && /^[A-Za-z0-9+/]+={0,2}$/.test(encoded);
  return isBase64 ? new Uint8Array(Buffer.from(encoded, "base64")) : undefined;
}
