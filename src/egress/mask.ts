// Masks secrets in what comes back from outside: a server that echoes a request, in an error page for instance, must not bring a
// secret into the outputs and audit rows of a run. What a server makes of a secret (a hash, another encoding) is not recognised.
import type { Json } from "../../machines/index.js";

const MASKED = "[secret]";
/**
 * Characters of a secret. A definition can make a server send back all guesses of a shorter one, and sees in the masked response which
 * of them is the secret.
 */
export const SHORTEST_SECRET = 16;

/** Undefined: nothing is hidden. */
interface Patterns {
  readonly texts: RegExp | undefined;
  readonly octets: RegExp | undefined;
}

export class Mask {
  private readonly needles = new Set<string>();
  /** Of all needles. Absent: not made yet, which takes long for many. */
  private patterns: Patterns | undefined;

  constructor(values: readonly string[] = []) {
    this.hide(values);
  }

  /** These too, from now on. */
  hide(values: readonly string[]): void {
    for (const needle of values.flatMap(withCredentials)) if (needle !== "") this.needles.add(needle);
    this.patterns = undefined;
  }

  /** Before they are decoded: what is no text at all may contain one, too. */
  bytes(bytes: Buffer): Buffer {
    const { octets } = this.made();
    if (!octets || bytes.length === 0) return bytes;
    const text = bytes.toString("latin1");
    const masked = text.replace(octets, MASKED);
    return masked === text ? bytes : Buffer.from(masked, "latin1");
  }

  /** After they are decoded: JSON may have escaped it. */
  json<T extends Json>(value: T): T {
    const { texts } = this.made();
    if (!texts || !new RegExp(texts, "").test(decodedText(value))) return value;
    return masked(value, texts) as T;
  }

  private made(): Patterns {
    this.patterns ??= patternsOf([...this.needles]);
    return this.patterns;
  }
}

function patternsOf(needles: readonly string[]): Patterns {
  const octets = needles.map((needle) => Buffer.from(needle, "utf8").toString("latin1"));
  return { texts: pattern(needles), octets: pattern(octets) };
}

/** The value, and its part after the space: a server may echo the second part of `Basic eA==` alone. */
function withCredentials(value: string): string[] {
  const part = value.slice(value.indexOf(" ") + 1);
  return part === value || part.length < SHORTEST_SECRET ? [value] : [value, part];
}

/** The longest first, so that no rest of it is left. */
function pattern(needles: readonly string[]): RegExp | undefined {
  const sources = [...new Set(needles)]
    .sort((left, right) => right.length - left.length)
    .map((needle) => needle.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&"));
  return sources.length === 0 ? undefined : new RegExp(sources.join("|"), "g");
}

/** All text of a value; looked through at once before each text is looked at alone. */
function decodedText(value: Json): string {
  const parts: string[] = [];
  collect(value, parts);
  return parts.join("\n");
}

function collect(value: Json, into: string[]): void {
  if (typeof value === "string") into.push(value);
  else if (Array.isArray(value)) for (const item of value) collect(item, into);
  else if (typeof value === "object" && value !== null) {
    for (const [name, member] of Object.entries(value)) {
      into.push(name);
      collect(member, into);
    }
  }
}

function masked(value: Json, texts: RegExp): Json {
  if (typeof value === "string") return value.replace(texts, MASKED);
  if (Array.isArray(value)) return value.map((item) => masked(item, texts));
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).map(([name, member]) => [name.replace(texts, MASKED), masked(member, texts)]);
  return Object.fromEntries(members) as Json;
}
