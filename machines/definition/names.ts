// The names that the expressions of a document may see, read from the document itself: a faulty step sets its variables, too. Only a run shows which
// scope has which name, and the start of a run may bring more variables; but a name that no scope has is a mistake.
import { own } from "../attribute/composite.js";
import { attributesIn, type Mentioned, namesIn } from "../attribute/mention.js";
import type { StepTypes } from "../steps/index.js";
import type { StepType } from "../steps/step.js";
import { isObject, type Json, type JsonObject } from "../values/json.js";

/** The names that scopes always have (docs/workflows.md, expressions). */
const NAMES = ["inputs", "vars", "run", "features", "now", "output", "error", "event", "iteration", "item", "index"];

/** Undefined if the document has no list of steps: it has other problems then. */
export function scopeNames(document: unknown, types: StepTypes): ReadonlySet<string> | undefined {
  const given = stepsIn(document)?.flatMap((step) => namesBy(step, "local", typesOf(step, types)));
  return given && new Set([...NAMES, ...given]);
}

/** The type of the step; any, where that is what is wrong with it. */
function typesOf(step: JsonObject, types: StepTypes): Iterable<StepType> {
  const type = types.get(String(own(step, "type")));
  return type ? [type] : types.values();
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
  const saveAs = own(step, "save_as");
  const output = hasOutput(step, type) ? [saveAs === undefined ? own(step, "id") : saveAs] : [];
  return type?.variables ? [...output, ...namesBy(step, "variable", [type])] : output;
}

/** A step that goes on after an error has the error as its output. A step of an unknown type may have any. */
function hasOutput(step: JsonObject, type: StepType | undefined): boolean {
  return !type || type.output !== undefined || (own(step, "on_error") ?? "fail") !== "fail";
}

function namesBy(step: JsonObject, what: Mentioned, types: Iterable<StepType>): readonly string[] {
  const attributes = attributesIn(step);
  const mentions = [...types].flatMap((type) => type.mentions).filter((mention) => mention.what === what);
  return mentions.flatMap((mention) => namesIn(attributes, mention));
}
