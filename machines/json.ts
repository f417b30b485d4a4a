// JSON values as the machine sees them, and what makes one storable. Not a parser: values arrive parsed.

export type Json = null | boolean | number | string | readonly Json[] | JsonObject;

export interface JsonObject {
  readonly [key: string]: Json;
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Names that would reach an object's prototype. They are refused as ids and as variable names. */
export const FORBIDDEN_NAMES: ReadonlySet<string> = new Set(["__proto__", "constructor", "prototype"]);

/** Why Postgres could not store a value. `path` is a JSON path below the value, empty for the value itself. */
export interface Unstorable {
  readonly path: string;
  readonly message: string;
}

/**
 * The size of `value` as JSON text, in characters, or why it cannot be stored (law 12: such a value is refused where it
 * enters, so that it never reaches a batch). Nothing is allocated: this runs on every output.
 */
export function measure(value: unknown, path = ""): number | Unstorable {
  switch (typeof value) {
    case "string":
      return measureString(value, path);
    case "number":
      return Number.isFinite(value) ? 8 : { path, message: "is no finite number" };
    case "boolean":
      return 5;
    case "object":
      if (value === null) return 4;
      return Array.isArray(value) ? measureList(value, path) : measureObject(value as Record<string, unknown>, path);
    default:
      return { path, message: `is no JSON value (${typeof value})` };
  }
}

function measureString(text: string, path: string): number | Unstorable {
  if (text.includes("\u0000")) return { path, message: "contains U+0000" };
  if (!isWellFormed(text)) return { path, message: "contains a lone surrogate" };
  return text.length + 2;
}

function measureList(list: readonly unknown[], path: string): number | Unstorable {
  let size = 2;
  for (let index = 0; index < list.length; index++) {
    const item = measure(list[index], `${path}[${index}]`);
    if (typeof item !== "number") return item;
    size += item + 1;
  }
  return size;
}

function measureObject(object: Record<string, unknown>, path: string): number | Unstorable {
  let size = 2;
  for (const key of Object.keys(object)) {
    if (object[key] === undefined) continue;
    const name = measureString(key, path);
    if (typeof name !== "number") return name;
    const item = measure(object[key], `${path}.${key}`);
    if (typeof item !== "number") return item;
    size += name + item + 2;
  }
  return size;
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
