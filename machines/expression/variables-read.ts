// The variables that the expressions of a document read by name. Which strings are expressions depends on the step, so a string counts as a
// template and as an expression, whichever of them it is: a name too many is harmless here. analyse.ts knows what a read is.
import { isObject, type Json, type JsonObject } from "../values/json.js";
import { CelExpression } from "./compile.js";
import { ExpressionSyntaxError } from "./errors.js";
import { readTemplate } from "./template.js";

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
  if (typeof value !== "string" || !value.includes("vars")) return true;
  return expressionsIn(value).every((expression) => {
    const reads = readsOf(expression);
    for (const name of reads ?? []) names.add(name);
    return reads !== undefined;
  });
}

function expressionsIn(text: string): readonly CelExpression[] {
  const bare = new CelExpression(text);
  if (!text.includes("${")) return [bare];
  try {
    return [bare, ...readTemplate(text).found.map(({ expression }) => expression)];
  } catch (error) {
    if (error instanceof ExpressionSyntaxError) return [bare];
    throw error;
  }
}

const NONE: ReadonlySet<string> = new Set();

/** A text that is no expression reads nothing. */
function readsOf(expression: CelExpression): ReadonlySet<string> | undefined {
  try {
    return expression.reads;
  } catch (error) {
    if (error instanceof ExpressionSyntaxError) return NONE;
    throw error;
  }
}
