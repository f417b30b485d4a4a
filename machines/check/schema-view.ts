// What a JSON Schema certainly says about a value and its members, without a value: the types that it allows, and what it rules out. Keywords that are
// not understood here allow everything, so nothing is ruled out by mistake. machines/schema checks values.
import type { JsonType } from "../expression/index.js";
import { isObject, type Json, type JsonObject } from "../values/json.js";
import { keysOfPointer } from "../values/json-path.js";

/** A schema within its document, to which its references lead. */
export interface View {
  readonly schema: Json;
  readonly root: Json;
}

const ALL: readonly JsonType[] = ["null", "boolean", "number", "string", "array", "object"];
/** Longer chains of references and alternatives are not followed. */
const MAX_DEPTH = 16;

export const viewOf = (schema: JsonObject): View => ({ schema, root: schema });

/** A part of it. */
export const within = ({ root }: View, schema: Json): View => ({ schema, root });

/** The object behind local references. Undefined: it says nothing that is understood here. */
export function resolved(view: View, depth = 0): (View & { readonly schema: JsonObject }) | undefined {
  const { schema, root } = view;
  if (!isObject(schema) || depth > MAX_DEPTH) return undefined;
  const { $ref } = schema;
  // With an id of its own, or beside other keywords, a reference may lead elsewhere or say less than all.
  if ($ref === undefined) return isRooted(schema, root) ? { schema, root } : undefined;
  if (typeof $ref !== "string" || !/^#(\/|$)/.test($ref) || !isRooted(root as JsonObject, root)) return undefined;
  let target: Json | undefined = root;
  for (const key of keysOfPointer(decodeURIComponent($ref.slice(1)))) {
    const isIn: boolean = typeof target === "object" && target !== null && Object.hasOwn(target, key);
    target = isIn ? (target as JsonObject)[key] : undefined;
  }
  return target === undefined ? undefined : resolved({ schema: target, root }, depth + 1);
}

/** A schema inside that has an id is a document of its own. */
const isRooted = (schema: JsonObject, root: Json): boolean =>
  isObject(root) && (schema === root || schema.$id === undefined) && schema.$dynamicRef === undefined;

/** The types that it allows. `number` has `integer`. */
export function typesOf(view: View, depth = 0): ReadonlySet<JsonType> {
  const found = depth > MAX_DEPTH ? undefined : resolved(view);
  if (!found) return new Set(ALL);
  const { schema } = found;
  let types = new Set<JsonType>(ALL);
  const keep = (others: ReadonlySet<JsonType>) => {
    types = meet(types, others);
  };
  if (schema.type !== undefined) keep(new Set([schema.type].flat() as JsonType[]));
  if (Array.isArray(schema.enum)) keep(new Set((schema.enum as readonly Json[]).map(typeOf)));
  if (schema.const !== undefined) keep(new Set([typeOf(schema.const)]));
  for (const part of listAt(schema, "allOf")) keep(typesOf(within(found, part), depth + 1));
  for (const keyword of ["anyOf", "oneOf"]) {
    const parts = listAt(schema, keyword);
    if (parts.length > 0) keep(new Set(parts.flatMap((part) => [...typesOf(within(found, part), depth + 1)])));
  }
  return types;
}

/** Two sets of types as one: an integer is a number. */
function meet(left: ReadonlySet<JsonType>, right: ReadonlySet<JsonType>): Set<JsonType> {
  const both = new Set<JsonType>();
  for (const type of left) {
    if (right.has(type)) both.add(type);
    else if (type === "number" && right.has("integer")) both.add("integer");
    else if (type === "integer" && right.has("number")) both.add("integer");
  }
  return both;
}

/** Whether a value may be of both. A number may be whole. */
export function mayMeet(left: ReadonlySet<JsonType>, right: ReadonlySet<JsonType>): boolean {
  return meet(left, right).size > 0;
}

export function typeOf(value: Json): JsonType {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  return typeof value as JsonType;
}

/** The member of an object that conforms to it. `missing`: it has none of this name. Undefined: any value. */
export function memberOf(view: View, key: string | number): View | "missing" | undefined {
  const found = resolved(view);
  if (!found) return undefined;
  const { schema } = found;
  const types = typesOf(found);
  const holder: JsonType = typeof key === "number" ? "array" : "object";
  if (!types.has(holder)) return types.size > 0 ? "missing" : undefined;
  if (typeof key === "number") return listAt(schema, "prefixItems").length > 0 ? undefined : viewAt(found, "items");
  const own = objectAt(schema, "properties");
  if (own && Object.hasOwn(own, key)) return within(found, own[key] as Json);
  return isClosed(schema) ? "missing" : undefined;
}

export function isClosed(schema: JsonObject): boolean {
  const patterns = objectAt(schema, "patternProperties");
  return schema.additionalProperties === false && (!patterns || Object.keys(patterns).length === 0);
}

export function viewAt(view: View & { readonly schema: JsonObject }, keyword: string): View | undefined {
  const part = view.schema[keyword];
  return isObject(part) ? within(view, part) : undefined;
}

export function listAt(schema: JsonObject, keyword: string): readonly Json[] {
  const part = schema[keyword];
  return Array.isArray(part) ? (part as readonly Json[]) : [];
}

export function objectAt(schema: JsonObject, keyword: string): JsonObject | undefined {
  const part = schema[keyword];
  return isObject(part) ? part : undefined;
}

/** The members that a value must have, if it is an object. */
export function requiredOf(schema: JsonObject): readonly string[] {
  return listAt(schema, "required").filter((name) => typeof name === "string");
}
