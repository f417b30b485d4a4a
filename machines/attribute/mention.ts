// Mentions: where the attributes of a step name something of the definition, as data. With it a document is searched without being compiled, faulty
// as it may be, and in a browser.
import { isObject } from "../values/json.js";

/** What an attribute may name. A `handler` is a step that follows an error or a timeout. */
export type Mentioned = "step" | "handler" | "variable" | "local" | "action" | "rule" | "workflow" | "secret";

/** An element of a path: every item of a list, or every member of an object. */
export const EACH = "*";
/** An element of a path: the names of the members themselves. */
export const NAMES = "{}";

export interface Mention {
  readonly what: Mentioned;
  /** The way from the attributes down to the name. */
  readonly path: readonly string[];
  /** The name that is meant where the attribute is absent. */
  readonly fallback?: string;
}

export interface NameAt {
  readonly name: string;
  readonly at: readonly (string | number)[];
}

/** The names at a path of a value. What is no text there is passed over. */
export function namesAt(value: unknown, [element, ...below]: readonly string[]): readonly NameAt[] {
  if (element === undefined) return typeof value === "string" ? [{ name: value, at: [] }] : [];
  if (element === NAMES) return isObject(value) ? Object.keys(value).map(named) : [];
  return membersAt(value, element).flatMap(([key, member]) =>
    namesAt(member, below).map(({ name, at }) => ({ name, at: [key, ...at] })),
  );
}

const named = (name: string): NameAt => ({ name, at: [name] });

function membersAt(value: unknown, element: string): readonly (readonly [key: string | number, member: unknown])[] {
  if (typeof value !== "object" || value === null) return [];
  if (element === EACH) return Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  return Object.hasOwn(value, element) ? [[element, (value as Readonly<Record<string, unknown>>)[element]]] : [];
}

/** The names of a mention in the attributes of a step, or the one that is meant where it is not given. */
export function namesIn(attributes: Readonly<Record<string, unknown>>, { path, fallback }: Mention): readonly string[] {
  if (fallback !== undefined && (attributes[path[0] ?? ""] ?? null) === null) return [fallback];
  return namesAt(attributes, path).map(({ name }) => name);
}

/** The attributes of a step as it is posted, where they may be written inside `inputs`. One written outside wins, unless it is null. */
export function attributesIn(step: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { inputs } = step;
  if (!isObject(inputs)) return step;
  const outside = Object.entries(step).filter(([, value]) => value !== null);
  return { ...inputs, ...Object.fromEntries(outside) };
}
