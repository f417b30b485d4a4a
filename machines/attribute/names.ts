// The names that expressions of a document may see. Which scope has which of them is known when a run is there; a name that
// none has is a slip of the pen.
import { isObject, type Json } from "../json.js";
import { own } from "./attribute.js";

/** What scopes have by themselves (docs/workflows.md, expressions). */
const NAMES = ["inputs", "vars", "run", "features", "now", "output", "error", "event", "iteration", "item", "index"];
/** Attributes that give a name to what a block's steps see. */
const NAMING = ["item_var", "index_var"];

/** Undefined where the document is none: its faults are others. */
export function namesOf(document: unknown): ReadonlySet<string> | undefined {
  const steps = isObject(document) ? document.steps : undefined;
  if (!Array.isArray(steps)) return undefined;
  const given = (steps as readonly Json[]).flatMap((step) => {
    if (!isObject(step)) return [];
    return [step, step.inputs].flatMap((from) => (isObject(from) ? NAMING.map((naming) => own(from, naming)) : []));
  });
  return new Set([...NAMES, ...given.filter((name) => typeof name === "string")]);
}
