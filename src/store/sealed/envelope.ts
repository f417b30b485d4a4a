// How a sealed value stands in JSON, and how JSON is walked to seal and to open what is in it. Keys are keyring.ts.
//
// Invariants
// - An envelope says which value it is of: table, column, key of the row and the place in it. Both its key number and that are authenticated.
// - What was opened is not walked again: a value of a user that looks like an envelope stays what it is.
import type { SealedMembers, SealedPart } from "../../../machines/index.js";

/** The only member of an envelope, whose value is [key number, identity, form, text]. A storage format: it must never change. */
const MARK = "$sealed";
/** A text of JSON without it has no envelope. */
export const MARK_IN_TEXT = `"${MARK}"`;

/** What the value was, so that one that cannot be read is shown as the same: a text, a list, anything else. */
export type Form = "t" | "l" | "o";

export interface Envelope {
  readonly number: number;
  readonly identity: string;
  readonly form: Form;
  readonly text: string;
}

export const written = ({ number, identity, form, text }: Envelope): object => ({
  [MARK]: [number, identity, form, text],
});

export function formOf(value: unknown): Form {
  if (typeof value === "string") return "t";
  return Array.isArray(value) ? "l" : "o";
}

/** Undefined: it is none. */
function envelopeOf(value: object): Envelope | undefined {
  const parts = (value as Readonly<Record<string, unknown>>)[MARK];
  if (!Array.isArray(parts) || parts.length !== 4 || Object.keys(value).length !== 1) return undefined;
  const [number, identity, form, text] = parts as unknown[];
  const isForm = form === "t" || form === "l" || form === "o";
  if (!Number.isSafeInteger(number) || typeof identity !== "string" || !isForm || typeof text !== "string")
    return undefined;
  return { number: number as number, identity, form, text };
}

/** `open` gets each envelope, with the path to it: `/member/0`. The value is changed in place. */
export function opened(value: unknown, open: (envelope: Envelope, path: string) => unknown, path = ""): unknown {
  if (typeof value !== "object" || value === null) return value;
  const envelope = envelopeOf(value);
  if (envelope) return open(envelope, path);
  const members = value as Record<string, unknown>;
  for (const name of Object.keys(members)) {
    const member = members[name];
    if (typeof member === "object" && member !== null) define(members, name, opened(member, open, `${path}/${name}`));
  }
  return value;
}

/** The value with the sealed parts of it in envelopes. The value itself stays as it is. `seal` gets each, with the path to it. */
export function sealedIn(value: unknown, part: SealedPart, seal: (value: unknown, path: string) => unknown): unknown {
  if (part === true) return seal(value, "");
  if (typeof value !== "object" || value === null) return value;
  if (!isExclusion(part)) return sealedMembers(value, part, seal, "");
  const copy: Record<string, unknown> = {};
  for (const [name, member] of Object.entries(value)) {
    const isPlain = member === undefined || part.but.includes(name);
    define(copy, name, isPlain ? member : seal(member, `/${name}`));
  }
  return copy;
}

const isExclusion = (part: SealedPart): part is { readonly but: readonly string[] } =>
  typeof part === "object" && Array.isArray(part.but);

function sealedMembers(
  value: object,
  parts: SealedMembers,
  seal: (value: unknown, path: string) => unknown,
  path: string,
): unknown {
  const copy: Record<string, unknown> | unknown[] = Array.isArray(value) ? [...value] : { ...value };
  for (const [name, member] of Object.entries(value)) {
    const part = Object.hasOwn(parts, name) ? parts[name] : parts["*"];
    if (part === undefined || member === undefined) continue;
    const at = `${path}/${name}`;
    if (part === true) define(copy, name, seal(member, at));
    else if (typeof member === "object" && member !== null) define(copy, name, sealedMembers(member, part, seal, at));
  }
  return copy;
}

/** An assignment to `__proto__` would set the prototype. */
function define(target: object, name: string, value: unknown): void {
  if (name !== "__proto__") (target as Record<string, unknown>)[name] = value;
  else Object.defineProperty(target, name, { value, enumerable: true, configurable: true, writable: true });
}
