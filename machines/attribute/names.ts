// The names that the expressions of a document may see. Only a run shows which scope has which of them, but a name that no scope
// has is a mistake.
import { isObject, type Json } from "../values/json.js";
import { own } from "./composite.js";

/** The names that scopes always have (docs/workflows.md, expressions). */
const NAMES = ["inputs", "vars", "run", "features", "now", "output", "error", "event", "iteration", "item", "index"];
/** Attributes that name something for the steps of a block. */
const NAMING = ["item_var", "index_var"];

/** Undefined if the document has no list of steps: it has other problems then. */
export function namesOf(document: unknown): ReadonlySet<string> | undefined {
  const steps = isObject(document) ? document.steps : undefined;
  if (!Array.isArray(steps)) return undefined;
  const given = (steps as readonly Json[]).flatMap((step) => {
    if (!isObject(step)) return [];
    return [step, step.inputs].flatMap((from) => (isObject(from) ? NAMING.map((naming) => own(from, naming)) : []));
  });
  return new Set([...NAMES, ...given.filter((name) => typeof name === "string")]);
}
