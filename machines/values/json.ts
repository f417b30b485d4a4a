// JSON values, and whether they can be stored. Values arrive parsed.

import { pathElement } from "./json-path.js";

export type Json = null | boolean | number | string | readonly Json[] | JsonObject;

export interface JsonObject {
  readonly [key: string]: Json;
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Names that would reach the prototype of an object. They are refused as ids and as variable names. */
export const FORBIDDEN_NAMES: ReadonlySet<string> = new Set(["__proto__", "constructor", "prototype"]);

/** Why a value cannot be stored. `path` is a JSON path below the value, empty for the value itself. */
export interface Unstorable {
  readonly path: string;
  readonly message: string;
}

/** Code that walks a value needs a stack frame for each level. */
const MAX_DEPTH = 200;

interface Measured {
  readonly size: number;
  /** Levels of objects and lists inside it. */
  readonly levels: number;
  readonly hasMark: boolean;
}

/** Large values, which are measured once: values never change. */
const LARGE = new WeakMap<object, Measured>();
const LARGE_CHARS = 65_536;
/** The deepest object or list that the measuring under way has met. */
let deepest = 0;
/** Whether it has met a name that begins as the marks of secret.ts do. */
let metMark = false;
const DOLLAR = 36;

/** Whether the object or list that was measured last may have a secret value: `measure` finds it on its way. */
export const mayHoldMark = (): boolean => metMark;

/**
 * The size of `value` in characters of JSON, or why it cannot be stored: such a value is refused where it enters (law 12). Runs on
 * every output, so it allocates nothing for a value that can be stored.
 */
export function measure(value: unknown, depth = 0): number | Unstorable {
  switch (typeof value) {
    case "string":
      return measureString(value);
    case "number":
      return Number.isFinite(value) ? 8 : { path: "", message: "is not a finite number" };
    case "boolean":
      return 5;
    case "object":
      if (value === null) return 4;
      if (depth >= MAX_DEPTH) return { path: "", message: `is nested deeper than ${MAX_DEPTH} levels` };
      return measured(value, depth);
    default:
      return { path: "", message: `is not a JSON value (${typeof value})` };
  }
}

function measured(value: object, depth: number): number | Unstorable {
  const known = LARGE.get(value);
  if (known && depth + known.levels < MAX_DEPTH) {
    deepest = Math.max(deepest, depth + known.levels);
    metMark = (depth > 0 && metMark) || known.hasMark;
    return known.size;
  }
  const outside = depth === 0 ? 0 : deepest;
  deepest = depth;
  const outsideMark = depth > 0 && metMark;
  metMark = false;
  const size = Array.isArray(value) ? measureList(value, depth + 1) : measureObject(value, depth + 1);
  if (typeof size === "number" && size > LARGE_CHARS)
    LARGE.set(value, { size, levels: deepest - depth, hasMark: metMark });
  metMark ||= outsideMark;
  deepest = Math.max(outside, deepest);
  return size;
}

function measureString(text: string): number | Unstorable {
  if (text.includes("\u0000")) return { path: "", message: "contains U+0000" };
  if (!isWellFormed(text)) return { path: "", message: "contains a lone surrogate" };
  return text.length + 2;
}

function measureList(list: readonly unknown[], depth: number): number | Unstorable {
  let size = 2;
  for (let index = 0; index < list.length; index++) {
    const item = measure(list[index], depth);
    if (typeof item !== "number") return { path: pathElement(index) + item.path, message: item.message };
    size += item + 1;
  }
  return size;
}

function measureObject(object: object, depth: number): number | Unstorable {
  let size = 2;
  // Not by entries: in an object of 100,000 members they take twice as long.
  for (const key of Object.keys(object)) {
    const member = (object as Readonly<Record<string, unknown>>)[key];
    if (member === undefined) continue;
    if (key.charCodeAt(0) === DOLLAR) metMark = true;
    const name = measureString(key);
    const item = typeof name === "number" ? measure(member, depth) : name;
    if (typeof item !== "number") return { path: pathElement(key) + item.path, message: item.message };
    size += key.length + item + 4;
  }
  return size;
}

/** The beginning of a text, without the half of a surrogate pair that a cut may leave. */
export function beginningOf(text: string, chars: number): string {
  return text.length <= chars ? text : text.slice(0, chars).replace(/[\ud800-\udbff]$/, "");
}

/** The beginning of what JSON.stringify writes, of which the rest is not written. */
export function beginningOfJson(value: Json, chars: number): string {
  if (typeof value !== "object" || value === null) return beginningOf(JSON.stringify(value), chars);
  const isList = Array.isArray(value);
  let text = isList ? "[" : "{";
  for (const name of isList ? value.keys() : Object.keys(value)) {
    const member = (value as Readonly<Record<PropertyKey, Json | undefined>>)[name];
    if (member === undefined && !isList) continue;
    if (text.length > chars) return beginningOf(text, chars);
    const label = isList ? "" : `${JSON.stringify(name)}:`;
    text += `${text.length > 1 ? "," : ""}${label}${beginningOfJson(member ?? null, chars)}`;
  }
  return beginningOf(`${text}${isList ? "]" : "}"}`, chars);
}

function isWellFormed(text: string): boolean {
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    if (unit < 0xd800 || unit > 0xdfff) continue;
    const next = text.charCodeAt(index + 1);
    if (unit > 0xdbff || !(next >= 0xdc00 && next <= 0xdfff)) return false;
    index++;
  }
  return true;
}
