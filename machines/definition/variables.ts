// The variables that the steps of a document set, read from the document itself: a faulty step sets its variables, too. Variables that
// come with the start of a run are not known here.
import { own } from "../attribute/composite.js";
import { STEP_TYPES } from "../steps/index.js";
import { isObject, type Json, type JsonObject } from "../values/json.js";

/** Undefined if the document has no list of steps: it has other problems then. */
export function variablesOf(document: unknown): ReadonlySet<string> | undefined {
  const steps = isObject(document) ? own(document, "steps") : undefined;
  if (!Array.isArray(steps)) return undefined;
  const names = (steps as readonly Json[]).flatMap((step) => (isObject(step) ? setBy(step) : []));
  return new Set(names.filter((name) => typeof name === "string"));
}

function setBy(step: JsonObject): readonly (Json | undefined)[] {
  const inputs = own(step, "inputs");
  // Attributes may be written inside `inputs`.
  const places = isObject(inputs) ? [step, inputs] : [step];
  const all = (name: string) => places.map((place) => own(place, name));
  switch (own(step, "type")) {
    case "set_var":
      return [...all("name"), ...all("variables").flatMap((map) => (isObject(map) ? Object.keys(map) : []))];
    case "try_catch":
      return [...all("error_var"), all("error_var").every((name) => (name ?? null) === null) ? "error" : undefined];
    default:
      return hasOutput(step) ? [own(step, "save_as") === undefined ? own(step, "id") : own(step, "save_as")] : [];
  }
}

/** A step that goes on after an error has the error as its output. A step of an unknown type may have any. */
function hasOutput(step: JsonObject): boolean {
  const type = STEP_TYPES.get(String(own(step, "type")));
  return !type || type.output !== undefined || (own(step, "on_error") ?? "fail") !== "fail";
}
