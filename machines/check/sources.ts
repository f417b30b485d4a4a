// The expressions and templates of a step, each with its path in the document. They are found by what they are, not by the names of attributes.
import type { Expression, Template } from "../expression/index.js";
import type { StepPlan } from "../steps/step.js";
import { isObject, type JsonObject } from "../values/json.js";
import { jsonPath } from "../values/json-path.js";

export type Source = Expression | Template;
export type At = readonly (string | number)[];

export interface SourceAt {
  readonly at: At;
  readonly source: Source;
  /** Evaluated when the step is done, and sees its output. */
  readonly isUndo?: boolean;
}

/** A step at its place in the document. */
export interface PlacedStep {
  readonly plan: StepPlan;
  readonly path: string;
  /** As it was posted. */
  readonly raw: JsonObject;
}

export const isTemplate = (source: Source): source is Template => "render" in source;

export function sourcesOf({ when, attributes, compensation, retry }: StepPlan): readonly SourceAt[] {
  const found: SourceAt[] = when ? [{ at: ["when"], source: when }] : [];
  collect(attributes, [], found);
  if (retry) collect(retry, ["retry"], found);
  const undo: SourceAt[] = [];
  if (compensation) collect(compensation, ["compensation"], undo);
  return [...found, ...undo.map((one) => ({ ...one, isUndo: true }))];
}

/** Deeper than any attribute. */
const MAX_DEPTH = 6;

function collect(value: unknown, at: At, found: SourceAt[]): void {
  if (typeof value !== "object" || value === null || at.length > MAX_DEPTH) return;
  if ("references" in value && "weight" in value) found.push({ at, source: value as unknown as Source });
  else if (Array.isArray(value)) for (const [index, item] of value.entries()) collect(item, [...at, index], found);
  else if (isObject(value)) for (const [name, member] of Object.entries(value)) collect(member, [...at, name], found);
}

/** The path of a place in a step. An attribute may be written inside `inputs`. */
export function pathIn({ path, raw }: PlacedStep, at: At): string {
  const [name, ...below] = at;
  if (name === undefined) return path;
  const nested = (raw[name] ?? null) === null && isObject(raw.inputs) && Object.hasOwn(raw.inputs, name);
  return [...(nested ? ["inputs"] : []), name, ...below].reduce<string>(jsonPath, path);
}
