// CEL and templates as they are written by the importers: literals, members and text. Nothing is evaluated here.
import type { Json } from "../values/json.js";

/** Words that CEL does not take behind a dot. */
const RESERVED = new Set(["in", "true", "false", "null"]);

export const quoted = (text: string): string =>
  // JSON's escapes are CEL's, too. A lone surrogate is refused by the checker with its place.
  JSON.stringify(text);

export function member(of: string, name: string | number): string {
  if (typeof name === "number") return `${of}[${name}]`;
  return /^[A-Za-z_]\w*$/.test(name) && !RESERVED.has(name) ? `${of}.${name}` : `${of}[${quoted(name)}]`;
}

/** A JSON value as CEL. */
export function literal(value: Json): string {
  if (value === null || typeof value !== "object") return typeof value === "string" ? quoted(value) : numeral(value);
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  return `{${Object.entries(value)
    .map(([name, each]) => `${quoted(name)}: ${literal(each)}`)
    .join(", ")}}`;
}

/** A whole number beyond 2^53 would be an int that no JSON can give: such a one is written as a double. */
function numeral(value: number | boolean | null): string {
  if (typeof value !== "number" || Number.isSafeInteger(value)) return String(value);
  const text = String(value);
  return /[.e]/.test(text) ? text : `${text}.0`;
}

/** The text in a template that means itself. */
export const escaped = (text: string): string => text.replaceAll("${", "$$${");

/** A JSON value in a template that means itself. */
export function escapedJson(value: Json): Json {
  if (typeof value === "string") return escaped(value);
  if (Array.isArray(value)) return value.map(escapedJson);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, escapedJson(each)]));
}

/** One whole template, which keeps the type of its value. */
export const template = (cel: string): string => `\${${cel}}`;

/** Expressions and texts in turn, as one template that gives text. */
export function textTemplate(parts: readonly (string | { readonly cel: string })[]): string {
  const written = parts.map((part) => (typeof part === "string" ? escaped(part) : template(part.cel))).join("");
  // One whole template would keep the type of its value.
  return parts.length === 1 && typeof parts[0] !== "string" ? `${written}${template("''")}` : written;
}
