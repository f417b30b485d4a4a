// The JSON Schema of a document, made of the declarations of its members: for editors, which complete and check while one writes. It says what can be
// said of the shape alone; the compiler checks the rest.
import type { JsonObject } from "../values/json.js";
import type { Attribute, Attributes } from "./kinds.js";

const NULL: JsonObject = { type: "null" };

/** The members that the declarations name; others are refused, or must conform to `others`. */
export function writtenObject(attributes: Attributes, others: JsonObject | false = false): JsonObject {
  const required = Object.keys(attributes).filter((name) => attributes[name]?.required);
  return {
    type: "object",
    properties: writtenMembers(attributes),
    ...(required.length > 0 && { required }),
    additionalProperties: others,
  };
}

export function writtenMembers(attributes: Attributes): JsonObject {
  return Object.fromEntries(Object.entries(attributes).map(([name, attribute]) => [name, written(attribute)]));
}

function written({ kind, doc, required, fallback }: Attribute<unknown>): JsonObject {
  const { written: schema = {}, note } = kind;
  const description = note === undefined ? doc : `${doc} ${note}`;
  const about = { description, ...(fallback !== undefined && { default: fallback }) };
  // Null says nothing, so it may be written wherever a member may be left out.
  const takesAny = Object.keys(schema).length === 0 || schema.type === "null";
  if (required || kind.takesNull || takesAny) return { ...about, ...schema };
  if (typeof schema.type === "string" && schema.enum === undefined)
    return { ...about, ...schema, type: [schema.type, "null"] };
  if (schema.enum !== undefined) return { ...about, ...schema, enum: [...(schema.enum as readonly string[]), null] };
  return { ...about, anyOf: [schema, NULL] };
}
