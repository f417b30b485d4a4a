// Signatures by the Standard Webhooks specification: a receiver that has the secret can verify that a message comes
// from this service, is complete and is recent.
import { Webhook } from "standardwebhooks";

/**
 * The headers of a message: its id, which is the same for every attempt, the time it is sent, and a signature over id, time and body by
 * each secret, so that a receiver with any of them can verify it. Without a secret there is no signature. `sentAt` is epoch milliseconds.
 */
export function signedHeaders(
  secrets: readonly string[],
  id: string,
  sentAt: number,
  body: string,
): Record<string, string> {
  const at = new Date(sentAt);
  const headers = { "webhook-id": id, "webhook-timestamp": String(Math.floor(sentAt / 1000)) };
  if (secrets.length === 0) return headers;
  return { ...headers, "webhook-signature": secrets.map((secret) => webhookOf(secret).sign(id, at, body)).join(" ") };
}

function webhookOf(secret: string): Webhook {
  const key = keyOf(secret);
  if (key === undefined) throw new Error("the signing secret is malformed: its check at start is missing");
  return new Webhook(key, { format: "raw" });
}

/**
 * The key of a secret: the Base64 after `whsec_`, or the bytes of the text itself. Undefined: no valid Base64 after
 * `whsec_`.
 */
export function keyOf(secret: string): Uint8Array | undefined {
  if (!secret.startsWith("whsec_")) return new TextEncoder().encode(secret);
  const encoded = secret.slice("whsec_".length);
  const isBase64 = encoded.length % 4 === 0 && /^[A-Za-z0-9+/]+={0,2}$/.test(encoded);
  return isBase64 ? new Uint8Array(Buffer.from(encoded, "base64")) : undefined;
}
