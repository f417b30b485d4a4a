// Secret values as the service holds them. The mark is in the value itself: `{"$secret": v}` is the secret value v, so whatever copies a value
// copies its mark, and no list of places beside it can be lost. `{"$enc": {…}}` is a value that only workers can read: it counts as secret.
// secret-text.ts does to JSON text what this file does to values.
import { isObject, type Json, type JsonObject } from "./json.js";

/** Names of a stored format: they must never change. */
export const SECRET = "$secret";
export const ENCRYPTED = "$enc";

/** What a view shows in the place of a secret value: neither its kind nor its length. */
export const MASK = "***";

/** Shorter texts are too common to be looked for in a message. */
const SHORTEST_HIDDEN = 4;
/** What a step was given may be a megabyte of secrets; a message is short. */
const MOST_HIDDEN = 10_000;

export interface Secret {
  readonly [SECRET]: Json;
}

/** A text that a run holds: plain, or secret. */
export type SecretText = string | { readonly [SECRET]: string };

/** The only member of an object is a mark. */
export function isSecret(value: Json | undefined): value is JsonObject & Secret {
  return isObject(value) && value[SECRET] !== undefined && Object.keys(value).length === 1;
}

export function isEncrypted(value: Json | undefined): value is JsonObject & { readonly [ENCRYPTED]: JsonObject } {
  return isObject(value) && isObject(value[ENCRYPTED]) && Object.keys(value).length === 1;
}

/** The value as a secret one. */
export function secret<T extends Json>(value: T): T | { readonly [SECRET]: T } {
  return isSecret(value) || isEncrypted(value) ? value : { [SECRET]: value };
}

/** Whether it is, or has anywhere, a secret or an encrypted value. */
export function holdsSecret(value: Json): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (Array.isArray(value)) return (value as readonly Json[]).some(holdsSecret);
  return isSecret(value) || isEncrypted(value) || Object.values(value as JsonObject).some(holdsSecret);
}

/** Whether it is, or has anywhere, an encrypted value. */
export function holdsEncrypted(value: Json): boolean {
  if (typeof value !== "object" || value === null) return false;
  return isEncrypted(value) || Object.values(value as JsonObject).some(holdsEncrypted);
}

/** Without marks: as workers get it. The same object if there are none. Encrypted values stay. */
export function revealed(value: Json): Json {
  return rewritten(value, (found) => (isSecret(found) ? revealed(found[SECRET]) : found));
}

/** As views show it. The same object if nothing in it is secret. */
export function masked(value: Json): Json {
  return rewritten(value, () => MASK);
}

export const maskedObject = (value: JsonObject): JsonObject => masked(value) as JsonObject;

/** Only what differs is copied. */
function rewritten(value: Json, of: (found: Json) => Json): Json {
  if (typeof value !== "object" || value === null) return value;
  if (isSecret(value) || isEncrypted(value)) return of(value);
  if (Array.isArray(value)) {
    const items = (value as readonly Json[]).map((item) => rewritten(item, of));
    return items.every((item, index) => item === value[index]) ? value : items;
  }
  const object = value as JsonObject;
  let copy: Record<string, Json> | undefined;
  for (const name of Object.keys(object)) {
    const before = object[name] as Json;
    const after = rewritten(before, of);
    if (after !== before) copy ??= { ...object };
    if (copy && after !== before) copy[name] = after;
  }
  return copy ?? object;
}

/** A secret list or object as one of secret items or members. */
export function spread(value: Json): Json {
  if (!isSecret(value)) return value;
  const inner = value[SECRET];
  if (Array.isArray(inner)) return (inner as readonly Json[]).map((item) => secret(item));
  if (!isObject(inner)) return value;
  return Object.fromEntries(Object.entries(inner).map(([name, member]) => [name, secret(member)]));
}

/** The text of an error without the secret texts and numbers that `given` has, where it repeats them. */
export function withoutSecrets(text: string, given: Json): string {
  const hidden = secretTexts(given);
  if (hidden.size === 0) return text;
  // The longest first: one may be a part of another.
  const ordered = [...hidden].sort((left, right) => right.length - left.length);
  return ordered.reduce((shown, one) => (shown.includes(one) ? shown.replaceAll(one, MASK) : shown), text);
}

/** The texts and numbers that are secret in it, also as JSON writes them. */
function secretTexts(given: Json): ReadonlySet<string> {
  const found = new Set<string>();
  const add = (text: string) => {
    if (text.length >= SHORTEST_HIDDEN && found.size < MOST_HIDDEN) found.add(text);
  };
  const walk = (value: Json, inside: boolean): void => {
    if (typeof value === "string" && inside) {
      add(value);
      add(JSON.stringify(value).slice(1, -1));
    } else if (typeof value === "number" && inside) add(String(value));
    else if (isSecret(value)) walk(value[SECRET], true);
    else if (typeof value === "object" && value !== null && !isEncrypted(value))
      for (const part of Object.values(value as JsonObject)) walk(part, inside);
  };
  walk(given, false);
  return found;
}

/**
 * What a client gives in the place of `original`, of which it has seen a masked view. A mask in the place of a secret value means that value, and
 * what replaces a secret value is secret. A value of another shape than the original, where that has secrets, is secret as a whole.
 */
export function inPlaceOf(given: Json, original: Json): Json {
  if (isSecret(original) || isEncrypted(original)) return given === MASK ? original : secret(given);
  if (!holdsSecret(original)) return given;
  if (isObject(given) && isObject(original)) {
    const before: JsonObject = original;
    return Object.fromEntries(
      Object.entries(given).map(([name, member]) => [
        name,
        Object.hasOwn(before, name) ? inPlaceOf(member, before[name] as Json) : member,
      ]),
    );
  }
  if (Array.isArray(given) && Array.isArray(original) && given.length === original.length)
    return (given as readonly Json[]).map((item, index) => inPlaceOf(item, original[index] as Json));
  return secret(given);
}
