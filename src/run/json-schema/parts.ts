// A large JSON Schema in parts, each a schema of its own that the library compiles by itself. The library nests the check of each member
// in that of the one before: 900 members took 0.6 s of computing in one piece, and take a third of it in parts, with a pause after each.
import { isObject, type Json, type JsonObject } from "../../../machines/index.js";

/** Objects and members of a part, more or less. */
const PART = 25;

/** A schema with one of these is not taken apart: what they refer to, or see, would be elsewhere. */
const BOUND: ReadonlySet<string> = new Set([
  ...["$ref", "$dynamicRef", "$id", "$anchor", "$dynamicAnchor", "unevaluatedProperties", "unevaluatedItems"],
]);

export interface Part {
  readonly key: string;
  readonly schema: JsonObject;
}

export interface Parted {
  /** Each refers to earlier ones by their keys. */
  readonly parts: readonly Part[];
  readonly schema: JsonObject;
}

export function partsOf(schema: JsonObject): Parted {
  if (sizeOf(schema) <= PART || isBound(schema)) return { parts: [], schema };
  const parting = new Parting();
  return { parts: parting.parts, schema: parting.withoutParts(schema) };
}

class Parting {
  readonly parts: Part[] = [];

  /** A value conforms to it if it conforms to the schema. What a value is told first may differ. */
  withoutParts(schema: JsonObject): JsonObject {
    const { properties, allOf, ...rest } = schema;
    const members = isObject(properties) ? this.properties(properties) : [];
    const all = [...(isList(allOf) ? allOf.map((one) => this.small(one)) : []), ...members];
    return {
      ...rest,
      // `additionalProperties` looks at the names beside it.
      ...(isObject(properties) && {
        properties: Object.fromEntries(Object.keys(properties).map((name) => [name, true])),
      }),
      ...(isObject(rest.items) && { items: this.small(rest.items) }),
      ...(isObject(rest.additionalProperties) && { additionalProperties: this.small(rest.additionalProperties) }),
      ...(isList(rest.anyOf) && { anyOf: rest.anyOf.map((one) => this.small(one)) }),
      ...(isList(rest.oneOf) && { oneOf: rest.oneOf.map((one) => this.small(one)) }),
      ...(all.length > 0 && { allOf: this.bundles(all) }),
    };
  }

  /** The schema, or where it is found if it is large. */
  private small(schema: Json): Json {
    if (!isObject(schema) || sizeOf(schema) <= PART) return schema;
    return this.part(this.withoutParts(schema));
  }

  private part(schema: JsonObject): JsonObject {
    const key = `part:${this.parts.length}`;
    this.parts.push({ key, schema });
    return { $ref: key };
  }

  private properties(properties: JsonObject): Json[] {
    const groups = groupsOf(
      Object.entries(properties).map(([name, schema]) => [name, this.small(schema)] as const),
      ([, schema]) => schema,
    );
    return groups.map((group) => this.part({ properties: Object.fromEntries(group) }));
  }

  private bundles(all: readonly Json[]): readonly Json[] {
    return all.length <= PART ? all : groupsOf(all, (one) => one).map((group) => this.part({ allOf: group }));
  }
}

function groupsOf<Item>(items: readonly Item[], schemaIn: (item: Item) => Json): Item[][] {
  const groups: Item[][] = [];
  let room = 0;
  for (const item of items) {
    const size = sizeOf(schemaIn(item));
    if (room < size || groups.length === 0) {
      groups.push([]);
      room = PART;
    }
    groups.at(-1)?.push(item);
    room -= size;
  }
  return groups;
}

const isList = (value: Json | undefined): value is readonly Json[] => Array.isArray(value);

/** Objects, lists, and boolean schemas. A pattern that counts may have a large program. */
function sizeOf(value: Json, name = ""): number {
  if (typeof value === "string") return name === "pattern" && value.includes("{") ? PART : 0;
  if (typeof value !== "object" || value === null) return 0;
  return Object.entries(value).reduce<number>((sum, [key, member]) => sum + sizeOf(member as Json, key), 1);
}

function isBound(value: Json): boolean {
  if (typeof value !== "object" || value === null) return false;
  return Object.entries(value).some(([name, member]) => BOUND.has(name) || isBound(member as Json));
}
