// The JSON Schema of a workflow document, made of the declarations of the document, of all steps and of each step type: for editors. What needs more
// than the shape (targets, expressions, rules between attributes) is left to the compiler.
import type { Attributes } from "../attribute/kinds.js";
import { writtenMembers, writtenObject } from "../attribute/written.js";
import { STEP_TYPES, type StepTypes } from "../steps/index.js";
import type { StepType } from "../steps/step.js";
import type { JsonObject } from "../values/json.js";
import { COMMON, retry } from "./step.js";
import { DOCUMENT } from "./workflow.js";

export function writtenWorkflow(types: StepTypes = STEP_TYPES): JsonObject {
  const document = writtenObject(DOCUMENT);
  const steps = { ...((document.properties as JsonObject).steps as JsonObject), items: { $ref: "#/definitions/step" } };
  const own = [...types.values()].map((type) => [definitionOf(type.name), writtenStep(type)] as const);
  return {
    ...document,
    properties: { ...(document.properties as JsonObject), steps },
    definitions: { step: anyStep(types), ...Object.fromEntries(own) },
  };
}

const definitionOf = (type: string): string => `step_${type}`;

/** A step is checked by its type. Editors ask for the type first, and then offer its attributes. */
function anyStep(types: StepTypes): JsonObject {
  const all = [...types.values()];
  const type = {
    type: "string",
    description: all.map(({ name, summary }) => `${name}: ${summary}`).join("\n"),
    enum: all.map(({ name }) => name),
  };
  return {
    type: "object",
    properties: { ...writtenMembers(COMMON), type },
    required: ["id", "type"],
    allOf: all.map(({ name }) => ({
      if: { properties: { type: { const: name } }, required: ["type"] },
      then: { $ref: `#/definitions/${definitionOf(name)}` },
    })),
  };
}

/** A client that has one class for all steps writes null for the attributes of other types. */
const OTHERS: JsonObject = { type: "null" };

function writtenStep({ name, summary, attributes, retries = false, last = false }: StepType): JsonObject {
  const nests = !Object.hasOwn(attributes, "inputs");
  return {
    description: summary,
    type: "object",
    properties: {
      ...writtenMembers({ ...COMMON, ...asOptional(attributes) }),
      type: { const: name },
      ...(last && { next: { type: "null", description: `A step of type ${name} has no next.` } }),
      ...(retries && {
        retry: { description: "How its attempts are repeated.", anyOf: [retry.written ?? {}, OTHERS] },
      }),
      ...(nests && { inputs: nested(attributes) }),
    },
    required: ["id", "type"],
    ...required(attributes, nests),
    additionalProperties: OTHERS,
  };
}

/** Null outside says nothing, so the attribute may be inside `inputs`. */
const asOptional = (attributes: Attributes): Attributes =>
  Object.fromEntries(Object.entries(attributes).map(([name, attribute]) => [name, { ...attribute, required: false }]));

function nested(attributes: Attributes): JsonObject {
  return {
    description: "The attributes of the type may also be written in here.",
    anyOf: [
      { type: "object", properties: writtenMembers(asOptional(attributes)), additionalProperties: false },
      OTHERS,
    ],
  };
}

/** A required attribute is given, in one of the two places. */
function required(attributes: Attributes, nests: boolean): JsonObject {
  const names = Object.keys(attributes).filter((name) => attributes[name]?.required);
  if (names.length === 0) return {};
  return {
    allOf: names.map((name) => {
      const given = {
        required: [name],
        ...(attributes[name]?.kind.takesNull ? {} : { properties: { [name]: { not: OTHERS } } }),
      };
      const inside = { required: ["inputs"], properties: { inputs: { type: "object", ...given } } };
      return nests ? { anyOf: [given, inside] } : given;
    }),
  };
}
