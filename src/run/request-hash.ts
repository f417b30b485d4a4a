// The hash of a request: a repeat with the same idempotency key must have the same one. It is stored beside the key, so it must
// never change. It is not a secret and not an id.
import { hash } from "node:crypto";

/** The order of an object's members does not matter. */
export function requestHash(body: unknown): string {
  return hash("sha256", canonical(body), "base64url");
}

function canonical(value: unknown): string {
  return JSON.stringify(value, (_, member: unknown) =>
    typeof member === "object" && member !== null && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort(([left], [right]) => (left < right ? -1 : 1)))
      : member,
  );
}
