// The members of a body that count as absent: those that are null, because clients in many languages write `null` for a member without a value,
// and those that equal their default. body.ts checks whether the rest is valid.
import { isDeepStrictEqual } from "node:util";
import { isObject } from "../../../machines/index.js";

/** The keywords of a JSON Schema that say where members are. */
export interface SchemaNode {
  readonly properties?: Readonly<Record<string, SchemaNode>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: unknown;
  readonly maxProperties?: number;
  readonly items?: SchemaNode;
  readonly maxItems?: number;
  readonly default?: unknown;
}

/**
 * The body without the optional members that are null. Only members that the schema names: what is inside inputs, variables, payloads and
 * outputs is a value. Nothing is copied unless something is left out.
 */
export function withoutNulls(schema: object, body: unknown): unknown {
  const { properties, items, required, maxItems }: SchemaNode = schema;
  if (Array.isArray(body)) return items ? eachWithoutNulls(items, body, maxItems) : body;
  if (!properties || !isObject(body)) return body;
  let kept: Record<string, unknown> | undefined;
  for (const [name, member] of Object.entries(properties)) {
    if (!Object.hasOwn(body, name)) continue;
    const given = body[name];
    const left = given === null && !required?.includes(name) ? undefined : withoutNulls(member, given);
    if (left === given) continue;
    kept ??= { ...body };
    if (left === undefined) delete kept[name];
    else kept[name] = left;
  }
  return kept ?? body;
}

/** A list that is too long is refused, and is not looked through before that. */
function eachWithoutNulls(items: SchemaNode, list: readonly unknown[], most = list.length): readonly unknown[] {
  if (list.length > most) return list;
  const kept = list.map((item) => withoutNulls(items, item));
  return kept.some((item, index) => item !== list[index]) ? kept : list;
}

/** A valid body without the members that equal their default: it asks for the same. */
export function withoutDefaults(schema: object, body: object): object {
  const { properties = {} }: SchemaNode = schema;
  const isDefault = ([name, value]: [string, unknown]) => {
    const member = Object.hasOwn(properties, name) ? properties[name] : undefined;
    return member !== undefined && "default" in member && isDeepStrictEqual(value, member.default);
  };
  return Object.fromEntries(Object.entries(body).filter((member) => !isDefault(member)));
}
