// The names that the expressions of a document may see, read from the document itself: a faulty step sets its variables, too. Only a run shows which
// scope has which name, and the start of a run may bring more variables; but a name that no scope has is a mistake.
import { own } from "../attribute/composite.js";
import { attributesIn, type Mention, type Mentioned, namesIn } from "../attribute/mention.js";
import type { StepTypes } from "../steps/index.js";
import type { StepType } from "../steps/step.js";
import { isObject, type Json, type JsonObject } from "../values/json.js";

/** The names that scopes always have (docs/workflows.md, expressions). */
const NAMES = ["inputs", "vars", "run", "features", "now", "output", "error", "event", "iteration", "item", "index"];

/** Undefined if the document has no list of steps: it has other problems then. */
export function scopeNames(document: unknown, types: StepTypes): ReadonlySet<string> | undefined {
  // Whatever the type of the step: that may be what is wrong with it.
  const locals = [...types.values()].flatMap((type) => mentionsOf(type, "local"));
  const given = stepsIn(document)?.flatMap((step) => {
    const attributes = attributesIn(step);
    return locals.flatMap((mention) => namesIn(attributes, mention));
  });
  return given && new Set([...NAMES, ...given]);
}

/** The variables that some step sets. Undefined if the document has no list of steps. */
export function variablesOf(document: unknown, types: StepTypes): ReadonlySet<string> | undefined {
  const names = stepsIn(document)?.flatMap((step) => setBy(step, types.get(String(own(step, "type")))));
  return names && new Set(names.filter((name) => typeof name === "string"));
}

function stepsIn(document: unknown): readonly JsonObject[] | undefined {
  const steps = isObject(document) ? own(document, "steps") : undefined;
  return Array.isArray(steps) ? (steps as readonly Json[]).filter(isObject) : undefined;
}

function setBy(step: JsonObject, type: StepType | undefined): readonly (Json | undefined)[] {
  if (type?.variables) {
    const attributes = attributesIn(step);
    return mentionsOf(type, "variable").flatMap((mention) => namesIn(attributes, mention));
  }
  const saveAs = own(step, "save_as");
  return hasOutput(step, type) ? [saveAs === undefined ? own(step, "id") : saveAs] : [];
}

/** A step that goes on after an error has the error as its output. A step of an unknown type may have any. */
function hasOutput(step: JsonObject, type: StepType | undefined): boolean {
  return !type || type.output !== undefined || (own(step, "on_error") ?? "fail") !== "fail";
}

const mentionsOf = ({ mentions }: StepType, what: Mentioned): readonly Mention[] =>
  mentions.filter((mention) => mention.what === what);
