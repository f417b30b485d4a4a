// The variables that the expressions of a document read by name, found in its text: a name too many is harmless here. It warns of nothing;
// analyse.ts does.
import { isObject, type Json, type JsonObject } from "../values/json.js";

/** `vars.name`, `vars["name"]`, `"name" in vars`; without a name, `vars` is read as a whole. */
const READ =
  /(?:"([^"\\]*)"|'([^'\\]*)')\s+in\s+vars\b|(?<![\w.])vars\b(?:\s*\.\s*\??\s*([A-Za-z_]\w*)|\s*\[\s*\??\s*(?:"([^"\\]*)"|'([^'\\]*)')\s*\])?/g;

const known = new WeakMap<JsonObject, ReadonlySet<string> | null>();

/** Undefined: some expression reads all variables, or computes a name. */
export function variablesRead(document: JsonObject): ReadonlySet<string> | undefined {
  const before = known.get(document);
  if (before !== undefined) return before ?? undefined;
  const names = new Set<string>();
  const found = collect(document, names) ? names : null;
  known.set(document, found);
  return found ?? undefined;
}

/** False: `vars` is read as a whole. */
function collect(value: Json, names: Set<string>): boolean {
  if (Array.isArray(value)) return (value as readonly Json[]).every((item) => collect(item, names));
  if (isObject(value)) return Object.values(value).every((member) => collect(member, names));
  if (typeof value !== "string") return true;
  for (const [, ...groups] of value.matchAll(READ)) {
    const name = groups.find((group) => group !== undefined);
    if (name === undefined) return false;
    names.add(name);
  }
  return true;
}
