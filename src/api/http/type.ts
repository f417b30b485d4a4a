// Builders of JSON Schemas with TypeBox's types but without its code: a schema is a plain object, and TypeBox would be 370 of the 940
// modules that a node loads at its start, a fifth of the time (measured). Only the builders that routes use.
import type { TProperties, Type as TypeBox } from "typebox";

type Options = Readonly<Record<string, unknown>>;

type Builders = Pick<
  typeof TypeBox,
  | ("Array" | "Boolean" | "Integer" | "Null" | "Number" | "Object")
  | ("Optional" | "Partial" | "Record" | "String" | "Union" | "Unknown" | "Unsafe")
>;

/** Marks a member that may be absent. A symbol, so that it is in no document. */
const OPTIONAL = Symbol("optional");

const typed = (type: string) => (options?: Options) => ({ type, ...options });
const isRequired = ([, member]: [string, object]) => !(OPTIONAL in member);

function objectOf(properties: TProperties, options?: Options) {
  const required = Object.entries(properties)
    .filter(isRequired)
    .map(([name]) => name);
  return { type: "object", ...(required.length > 0 && { required }), properties, ...options };
}

const optional = (schema: object) => ({ ...schema, [OPTIONAL]: true });

function partial({
  properties,
  required: _,
  ...rest
}: {
  readonly properties: TProperties;
  readonly required?: unknown;
}) {
  const members = Object.entries(properties).map(([name, member]) => [name, optional(member)]);
  return { ...rest, properties: Object.fromEntries(members) };
}

const builders: Readonly<Record<keyof Builders, (...parameters: never[]) => unknown>> = {
  Array: (items: object, options?: Options) => ({ type: "array", items, ...options }),
  Boolean: typed("boolean"),
  Integer: typed("integer"),
  Null: typed("null"),
  Number: typed("number"),
  Object: objectOf,
  Optional: optional,
  Partial: partial,
  Record: (_key: object, value: object, options?: Options) => ({
    type: "object",
    patternProperties: { "^.*$": value },
    ...options,
  }),
  String: typed("string"),
  Union: (anyOf: readonly object[], options?: Options) => ({ anyOf, ...options }),
  Unknown: (options?: Options) => ({ ...options }),
  Unsafe: (schema: object) => schema,
};

export const Type = builders as unknown as Builders;
