// The hash of a request: a repeat with the same idempotency key must have the same one. It is stored beside the key, so it must
// never change. It is not a secret and not an id.
import { hash } from "node:crypto";

/** The hash of a body without members that only spell out a default. The order of an object's members does not matter. */
export function requestHash(body: unknown): string {
  return hash("sha256", canonical(body), "base64url");
}

function canonical(value: unknown): string {
  if (isPlain(value) || (Array.isArray(value) && value.every(isPlain))) return JSON.stringify(value) ?? "null";
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  let members = "";
  for (const name of orderedNames(value as object)) {
    const member = (value as Readonly<Record<string, unknown>>)[name];
    if (member !== undefined) members += `${members && ","}${JSON.stringify(name)}:${canonical(member)}`;
  }
  return `{${members}}`;
}

const isPlain = (value: unknown): boolean => typeof value !== "object" || value === null;

/** The names that are indexes by their numbers, then the others by their characters: as in an object whose members were sorted once. */
function orderedNames(object: object): string[] {
  const names = Object.keys(object);
  // Every object has its indexes first, in order.
  const indexes = names.findIndex((name) => !isIndex(name));
  return indexes < 0 ? names : [...names.slice(0, indexes), ...names.slice(indexes).sort()];
}

const isIndex = (name: string): boolean => /^(0|[1-9]\d{0,9})$/.test(name) && Number(name) < 4_294_967_295;
