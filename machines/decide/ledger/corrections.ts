// What an operator corrects before a step is tried again: variables that the workflow reads, and the item of a foreach by its own name. A
// correction that no expression would ever see is refused, because the retry would fail as before.
import { variablesRead } from "../../expression/variables-read.js";
import { CORRECTED_ITEM, correctedItem, keptCorrection } from "../../state/corrected-item.js";
import { beginningOf, type Json, type JsonObject } from "../../values/json.js";
import { inPlaceOf } from "../../values/secret.js";
import type { Draft } from "../draft.js";

/** Names that a refusal lists. */
const LISTED = 100;

/** The variables to be stored; or why one of the names corrects nothing. */
export function correctionsOf(draft: Draft, given: JsonObject): JsonObject | string {
  const { run, variables } = draft.context;
  const { items, indexes } = foreachNames(draft);
  const read = variablesRead(draft.workflow.document);
  const stored: Record<string, Json> = {};
  const corrected: Record<string, Json> = {};
  const seen: JsonObject = { ...run.locals, ...correctedItem(run, variables) };
  for (const [name, written] of Object.entries(given)) {
    // What an operator has seen of a secret value is its mask.
    const original = items.has(name) ? seen[name] : variables[name];
    const value = original === undefined ? written : inPlaceOf(written, original);
    const shown = beginningOf(name, 128);
    if (items.has(name)) for (const alias of aliasesOf(draft, name)) corrected[alias] = value;
    else if (indexes.has(name)) return `${shown} is the index of the item, which cannot be corrected`;
    else if (name === CORRECTED_ITEM || (read && !read.has(name))) return unread(shown, [...items, ...(read ?? [])]);
    else stored[name] = value;
  }
  if (Object.keys(corrected).length === 0) return stored;
  return { ...stored, ...keptCorrection(run, { ...correctedItem(run, variables), ...corrected }) };
}

function unread(name: string, names: readonly string[]): string {
  const quoted = names
    .toSorted()
    .slice(0, LISTED)
    .map((each) => JSON.stringify(each));
  const known = names.length === 0 ? "none" : quoted.join(", ");
  return `nothing in the workflow reads the variable ${JSON.stringify(name)}: those that a retry may correct are ${known}`;
}

/** The names of items and indexes that the expressions of this run see. */
function foreachNames({ workflow, context: { run } }: Draft) {
  const items = new Set<string>();
  const indexes = new Set<string>();
  const locals = run.locals ?? {};
  for (const { type, attributes } of workflow.steps.values()) {
    const own = type.block?.locals?.(attributes);
    if (!own) continue;
    for (const name of ["item", own.item]) if (Object.hasOwn(locals, name)) items.add(name);
    for (const name of ["index", own.index]) if (Object.hasOwn(locals, name)) indexes.add(name);
  }
  return { items, indexes };
}

/** An item has the name `item` and, if its foreach says so, one of its own. */
function aliasesOf({ workflow, context: { run } }: Draft, name: string): readonly string[] {
  const parent = workflow.steps.get(run.parentStepId ?? "");
  const own = parent?.type.block?.locals?.(parent.attributes);
  return own && (name === "item" || name === own.item) ? ["item", own.item] : [name];
}
