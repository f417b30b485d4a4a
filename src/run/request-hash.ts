// The hash of a request: what a repeat with the same idempotency key must have in common with the first. Stored beside the key,
// so it must never change. Not a secret, and not an id.
import { createHash } from "node:crypto";

/** The same for the same JSON, in whatever order its members stand. */
export function requestHash(body: unknown): string {
  return createHash("sha256").update(canonical(body)).digest("base64url");
}

function canonical(value: unknown): string {
  return JSON.stringify(value, (_, member: unknown) =>
    typeof member === "object" && member !== null && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort(([left], [right]) => (left < right ? -1 : 1)))
      : member,
  );
}
