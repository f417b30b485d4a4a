// The hash of a request: a repeat with the same idempotency key must have the same one. It is stored beside the key, so it must
// never change. It is not a secret and not an id.
import { hash } from "node:crypto";
import { isObject } from "../../machines/index.js";

/** What a repeat must have in common with the first request, which may have been stored by an earlier release. */
export interface RequestHash {
  /** The hash of the request without members that only spell out a default. It is what is stored. */
  readonly hash: string;
  /** The hash of the request as it was given, if that differs: releases up to 0.6 stored this one. */
  readonly earlier?: string;
}

/** A large request is hashed once, unless a default is left out of it: both forms share the members that are the same. */
export function requestHashes(normal: unknown, given: unknown): RequestHash {
  const hash = requestHash(normal);
  if (haveSameMembers(normal, given)) return { hash };
  const earlier = requestHash(given);
  return { hash, ...(earlier !== hash && { earlier }) };
}

/** Compares no further than by identity. A member that is undefined counts as absent. */
function haveSameMembers(one: unknown, other: unknown): boolean {
  if (!isObject(one) || !isObject(other)) return one === other;
  const [left, right]: Readonly<Record<string, unknown>>[] = [one, other];
  return [...Object.keys(one), ...Object.keys(other)].every((name) => left?.[name] === right?.[name]);
}

export function isRepeat(first: string | null, { hash, earlier }: RequestHash): boolean {
  return first === hash || (earlier !== undefined && first === earlier);
}

/** The order of an object's members does not matter. */
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
