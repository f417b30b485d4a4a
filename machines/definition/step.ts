// Reads one step of a definition into its plan: the attributes of every step, and those of its type.

import { list, own, type PartOf, readAttributes, shape } from "../attribute/composite.js";
import {
  type Attributes,
  defaulted,
  expression,
  flag,
  given,
  handler,
  id,
  type Kind,
  number,
  object,
  oneOf,
  optional,
  type Parsed,
  plainText,
  required,
  schema,
  stepId,
  text,
  variableName,
} from "../attribute/kinds.js";
import type { Place } from "../attribute/problem.js";
import type { Template } from "../expression/index.js";
import { ACTION_NAME_RULE, parseActionName } from "../steps/action.js";
import type { StepTypes } from "../steps/index.js";
import { blocksOf, type RetrySource, type StepPlan, type StepType, stepType } from "../steps/step.js";
import { isObject, type Json, type JsonObject } from "../values/json.js";
import * as misfit from "../values/misfit.js";
import { inSlices, type Slices } from "../values/slices.js";
import { LONGEST_WAIT_MS } from "../values/time.js";
import { warnOfUnused } from "./secrets.js";

const undoAction: Kind<Template> = {
  ...text,
  parse(raw, place) {
    const action = text.parse(raw, place);
    if (!action?.constant || parseActionName(String(action.render({})))) return action;
    return place.problem(ACTION_NAME_RULE);
  },
};

const compensation = shape("compensation", {
  action: required(undoAction, "The action that undoes the step."),
  inputs: optional(object, "Sees `output`; {inputs, output} if absent."),
});

export const retry: Kind<RetrySource> = shape("RetryPolicy", {
  max_attempts: required(number({ min: -1, whole: true, not: 0 }), "Counts the first attempt; -1: unlimited."),
  initial_backoff_ms: required(number({ min: 0, max: LONGEST_WAIT_MS }), "Milliseconds before the second attempt."),
  max_backoff_ms: optional(number({ min: 0, max: LONGEST_WAIT_MS }), "60000"),
  multiplier: optional(number({ min: 1 }), "2"),
  jitter: optional(flag, "true"),
  non_retryable_codes: optional(list(plainText, { max: 100 }), "Codes that end the retries."),
}) as Kind<RetrySource>;

const saveAs: Kind<string | false> = {
  name: "variable name | null",
  written: { ...variableName.written, type: ["string", "null"] },
  takesNull: true,
  parse: (raw, place) => (raw === null ? false : variableName.parse(raw, place)),
};

/** The attributes of every step. */
export const COMMON = {
  id: required(id, "Unique in the definition."),
  type: required(plainText, "The step's type."),
  next: optional(stepId, "The step that follows; without it the innermost block, or the run, is done."),
  title: optional(plainText, "Display name; the state chart shows it."),
  description: optional(plainText, "The state chart shows it."),
  when: optional(expression, "Falsy: the step is skipped."),
  save_as: optional(saveAs, "The variable of its output; the step's id if absent; null discards the output."),
  on_error: defaulted(handler, "fail", "`fail`, `continue`, or the step to go to."),
  on_failure: optional(
    oneOf("rollback", "incident"),
    "What an error that nothing in the run takes leads to; as the workflow says if absent.",
  ),
  compensation: optional(compensation, "Undoes the step when the run rolls back."),
  on_undo_failure: optional(
    oneOf("continue", "incident"),
    "What follows when its undo fails for good; as the workflow says if absent.",
  ),
} satisfies Attributes;

/** The problems of a JSON Schema itself. Only the shell has the validator, which may take slices for a large one. */
export type SchemaProblems = (schema: JsonObject) => readonly string[] | Slices<readonly string[]>;

/** A step as it was read. */
export interface ReadStep {
  readonly plan: StepPlan;
  readonly place: Place;
  /** Its problems are reported. The plan has what is left of it: its edges that are known, and blank expressions. */
  readonly faulty: boolean;
}

/** The type of a step whose type is not known. */
export const UNKNOWN_TYPE = stepType({
  name: "unknown",
  summary: "",
  attributes: {},
  enter: () => {
    throw new Error("a step of an unknown type was entered");
  },
});

export interface StepOptions {
  readonly types: StepTypes;
  readonly schemaProblems?: SchemaProblems;
}

export function* readStep(raw: JsonObject, place: Place, { types, schemaProblems }: StepOptions): Slices<ReadStep> {
  const problems = place.problemCount;
  const { parsed: common } = readAttributes(COMMON, (name) => ({ raw: own(raw, name), place: place.at(name) }));
  const type = stepTypeOf(raw, place, types) ?? UNKNOWN_TYPE;
  if (type !== UNKNOWN_TYPE) refuseUnknownMembers(raw, type, place, types);
  const policy = type.retries ? ownRetry(raw, place) : undefined;
  yield* place.checks();
  const { attributes, valid, complete } = yield* ownAttributes(raw, type, place);
  if (valid) type.check?.(attributes, place);
  if (valid && schemaProblems) yield* checkSchemas(raw, type, place, schemaProblems);
  const edges = (complete && type.edges?.(attributes)) || [];
  const blocks = complete ? blocksOf(type, attributes) : [];
  const plan = { ...commonPlan(common), type, retry: policy, attributes, edges, blocks };
  return { plan, place, faulty: place.problemCount > problems };
}

/** The attributes of the step's type. A faulty expression counts as a problem of them. */
function* ownAttributes(raw: JsonObject, type: StepType, place: Place) {
  const problems = place.problemCount;
  const { parsed, valid, complete } = readAttributes(type.attributes, (name) => memberOf(raw, name, type, place));
  yield* place.checks();
  const attributes = parsed as Parsed<Attributes>;
  return { attributes, valid: valid && place.problemCount === problems, complete };
}

type CommonPlan = Omit<StepPlan, "type" | "retry" | "attributes" | "edges" | "blocks">;

function commonPlan({
  id = "",
  save_as: saved,
  on_error: onError = "fail",
  ...common
}: PartOf<typeof COMMON>): CommonPlan {
  const {
    title,
    description,
    next,
    when,
    compensation,
    on_failure: onFailure,
    on_undo_failure: onUndoFailure,
  } = common;
  const saveAs = saved === false ? null : (saved ?? id);
  return { id, title, description, next, when, saveAs, onError, onFailure, compensation, onUndoFailure };
}

function* checkSchemas(raw: JsonObject, type: StepType, place: Place, schemaProblems: SchemaProblems): Slices<void> {
  for (const [name, { kind }] of Object.entries(type.attributes)) {
    const { raw: given, place: at } = memberOf(raw, name, type, place);
    if (kind !== schema || !isObject(given)) continue;
    warnOfUnused(given, at);
    for (const problem of yield* inSlices(schemaProblems(given))) at.problem(problem);
    yield;
  }
}

function stepTypeOf(raw: JsonObject, place: Place, types: StepTypes): StepType | undefined {
  const name = own(raw, "type");
  if (typeof name !== "string") return undefined;
  return (
    types.get(name) ??
    place
      .at("type")
      .problem(`there is no step type "${name.slice(0, 64)}" in this release${place.suggest(name, types.keys())}`)
  );
}

function ownRetry(raw: JsonObject, place: Place): RetrySource | undefined {
  const policy = own(raw, "retry");
  return (policy ?? null) === null ? undefined : retry.parse(policy as Json, place.at("retry"));
}

/** The attributes of a type without `inputs` may also be written inside `inputs`. One written outside wins. */
function memberOf(
  raw: JsonObject,
  name: string,
  type: StepType,
  place: Place,
): { raw: Json | undefined; place: Place } {
  const attribute = type.attributes[name];
  const flat = attribute && given(own(raw, name), attribute);
  const nested = nestedAttributes(raw, type);
  if (flat !== undefined || !nested || !Object.hasOwn(nested, name)) return { raw: flat, place: place.at(name) };
  return { raw: nested[name], place: place.at("inputs").at(name) };
}

function nestedAttributes(raw: JsonObject, type: StepType): JsonObject | undefined {
  if (Object.hasOwn(type.attributes, "inputs")) return undefined;
  const inputs = own(raw, "inputs");
  return typeof inputs === "object" && inputs !== null && !Array.isArray(inputs) ? (inputs as JsonObject) : undefined;
}

function refuseUnknownMembers(raw: JsonObject, type: StepType, place: Place, types: StepTypes): void {
  const takesNested = !Object.hasOwn(type.attributes, "inputs");
  const known = (key: string) =>
    Object.hasOwn(COMMON, key) ||
    Object.hasOwn(type.attributes, key) ||
    (key === "retry" && type.retries) ||
    (raw[key] === null && isOfSomeType(key, types));
  const unknown = Object.keys(raw).filter((key) => !known(key));
  place.problems(unknown, (key) => {
    if (key === "inputs" && takesNested) refuseUnknownNested(raw, type, place.at("inputs"));
    else refuseMember(key, type, place, Object.keys(COMMON));
  });
  if (type.last && given(own(raw, "next"), COMMON.next) !== undefined)
    place.at("next").problem(`a step of type ${type.name} has no next`);
}

/** A client that has one class for all steps writes null for the attributes of the other types. */
const isOfSomeType = (key: string, types: StepTypes): boolean =>
  key === "retry" || [...types.values()].some(({ attributes }) => Object.hasOwn(attributes, key));

function refuseUnknownNested(raw: JsonObject, type: StepType, place: Place): void {
  const nested = nestedAttributes(raw, type);
  if (!nested) return place.problem(misfit.wrongType("object"));
  const unknown = Object.keys(nested).filter((key) => !Object.hasOwn(type.attributes, key));
  place.problems(unknown, (key) => refuseMember(key, type, place));
}

function refuseMember(key: string, type: StepType, place: Place, others: readonly string[] = []): void {
  const known = [...Object.keys(type.attributes), ...others, ...(type.retries ? ["retry"] : [])];
  place.at(key).problem(`is not an attribute of the step type ${type.name}${place.suggest(key, known)}`);
}
