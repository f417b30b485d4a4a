// Whether what a template gives can conform to a JSON Schema: the one difference that rules it out, if there is any. In doubt it fits: a template
// whose type is not known has no finding.
import type { JsonType, Outline } from "../expression/index.js";
import { Schemas } from "../schema/schemas.js";
import { beginningOf, isObject, type Json, type JsonObject } from "../values/json.js";
import {
  isClosed,
  listAt,
  mayMeet,
  memberOf,
  objectAt,
  requiredOf,
  resolved,
  typeOf,
  typesOf,
  type View,
  within,
} from "./schema-view.js";

export interface Misfit {
  /** From the template down. */
  readonly at: readonly (string | number)[];
  readonly message: string;
}

/** The schema of what a reference leads to. Undefined: not known. */
export type Resolve = (path: readonly [root: string, ...below: (string | number)[]]) => View | undefined;

/** Deeper parts are not compared. */
const MAX_DEPTH = 12;

/** Comparisons of one document. When they are used up, everything fits. */
export class Comparisons {
  private left = 500_000;
  readonly schemas = new Schemas();

  spend(): boolean {
    return --this.left >= 0;
  }
}

export class Fitting {
  constructor(
    private readonly resolve: Resolve,
    private readonly comparisons: Comparisons,
  ) {}

  misfit(given: Outline, asked: View, depth = 0): Misfit | undefined {
    const target = resolved(asked);
    if (!target || depth > MAX_DEPTH || !this.comparisons.spend()) return undefined;
    const { schema } = target;
    return (
      this.kindOf(given, target, depth) ??
      first(listAt(schema, "allOf"), (part) => this.misfit(given, within(target, part), depth + 1)) ??
      this.ofNone(given, target, listAt(schema, "anyOf"), depth) ??
      this.ofNone(given, target, listAt(schema, "oneOf"), depth)
    );
  }

  /** It fits none of the alternatives. */
  private ofNone(given: Outline, target: View, parts: readonly Json[], depth: number): Misfit | undefined {
    if (parts.length === 0) return undefined;
    const misfits = parts.map((part) => this.misfit(given, within(target, part), depth + 1));
    if (misfits.some((misfit) => misfit === undefined)) return undefined;
    return misfits.length === 1 ? misfits[0] : { at: [], message: "fits none of the alternatives" };
  }

  private kindOf(given: Outline, target: View & { readonly schema: JsonObject }, depth: number): Misfit | undefined {
    switch (given.kind) {
      case "value":
        return this.value(given.value, target);
      case "type":
        return wrongType(new Set([given.type]), target);
      case "object":
        return wrongType(new Set<JsonType>(["object"]), target) ?? this.object(given.members, target, depth);
      case "list":
        return wrongType(new Set<JsonType>(["array"]), target) ?? this.list(given.items, target, depth);
      case "either": {
        const misfits = given.of.map((one) => this.misfit(one, target, depth + 1));
        return misfits.every((misfit) => misfit !== undefined) ? misfits[0] : undefined;
      }
      case "reference": {
        const source = this.resolve(given.path);
        return source && this.schema(source, target, depth);
      }
      default:
        return undefined;
    }
  }

  private value(value: Json, target: View & { readonly schema: JsonObject }): Misfit | undefined {
    const wrong = wrongType(new Set([typeOf(value)]), target);
    if (wrong || typeof value === "object") return wrong;
    // A part with references cannot be read by itself.
    if (hasReference(target.schema)) return undefined;
    const [problem] = this.comparisons.schemas.conforms(target.schema, value);
    return problem === undefined || problem.includes("cannot be checked")
      ? undefined
      : { at: [], message: problem.replace(/^\/\s*/, "") };
  }

  private object(
    members: ReadonlyMap<string, Outline>,
    target: View & { readonly schema: JsonObject },
    depth: number,
  ): Misfit | undefined {
    const { schema } = target;
    const missing = requiredOf(schema).find((name) => !members.has(name));
    if (missing !== undefined) return { at: [], message: `lacks ${named(missing)}, which is required` };
    const properties = objectAt(schema, "properties") ?? {};
    for (const [name, member] of members) {
      const known = Object.hasOwn(properties, name);
      if (!known && isClosed(schema)) return { at: [name], message: "is not a member that the schema has" };
      const found = known ? this.misfit(member, within(target, properties[name] as Json), depth + 1) : undefined;
      if (found) return { ...found, at: [name, ...found.at] };
    }
    return undefined;
  }

  private list(
    items: readonly Outline[],
    target: View & { readonly schema: JsonObject },
    depth: number,
  ): Misfit | undefined {
    const { minItems, maxItems, items: each } = target.schema;
    if (typeof minItems === "number" && items.length < minItems)
      return { at: [], message: `must have at least ${minItems} items` };
    if (typeof maxItems === "number" && items.length > maxItems)
      return { at: [], message: `must have at most ${maxItems} items` };
    if (!isObject(each) || listAt(target.schema, "prefixItems").length > 0) return undefined;
    return first([...items.entries()], ([index, item]) => {
      const found = this.misfit(item, within(target, each), depth + 1);
      return found && { ...found, at: [index, ...found.at] };
    });
  }

  /** No value that conforms to the one conforms to the other. */
  private schema(source: View, target: View & { readonly schema: JsonObject }, depth: number): Misfit | undefined {
    const given = resolved(source);
    if (!given || depth > MAX_DEPTH || !this.comparisons.spend()) return undefined;
    const types = typesOf(given);
    const wrong = types.size > 0 ? wrongType(types, target) : undefined;
    if (wrong) return wrong;
    const other = this.otherValues(given.schema, target);
    if (other) return other;
    if (![...types].every((type) => type === "object")) return undefined;
    for (const name of requiredOf(target.schema))
      if (memberOf(given, name) === "missing") return { at: [], message: `lacks ${named(name)}, which is required` };
    const required = new Set([...requiredOf(target.schema), ...requiredOf(given.schema)]);
    for (const name of required) {
      const [left, right] = [memberOf(given, name), memberOf(target, name)];
      if (right === "missing" && typesOf(target).has("object"))
        return { at: [], message: `has ${named(name)}, which is not a member that the schema has` };
      if (!left || !right || left === "missing" || right === "missing") continue;
      const asked = resolved(right);
      const found = asked && this.schema(left, asked, depth + 1);
      if (found) return { at: [], message: `${named(name)} ${found.message}` };
    }
    return undefined;
  }

  /** All its values are listed, and none of them conforms. */
  private otherValues(given: JsonObject, target: View & { readonly schema: JsonObject }): Misfit | undefined {
    const values = given.const === undefined ? listAt(given, "enum") : [given.const];
    if (values.length === 0 || values.length > 100) return undefined;
    return values.map((value) => this.value(value, target)).every((misfit) => misfit !== undefined)
      ? { at: [], message: "has none of the values that are allowed" }
      : undefined;
  }
}

function wrongType(given: ReadonlySet<JsonType>, target: View): Misfit | undefined {
  const asked = typesOf(target);
  if (asked.size === 0 || mayMeet(given, asked)) return undefined;
  return { at: [], message: `is ${listed(given)}, and must be ${listed(asked)}` };
}

const listed = (types: ReadonlySet<JsonType>): string => [...types].map(withArticle).join(" or ");
const withArticle = (type: JsonType): string =>
  type === "null" ? type : `${/^[aio]/.test(type) ? "an" : "a"} ${type}`;
const named = (name: string): string => JSON.stringify(beginningOf(name, 64));

const REFERENCES: ReadonlySet<string> = new Set(["$ref", "$dynamicRef", "$id"]);

const searched = new WeakMap<JsonObject, boolean>();

function hasReference(schema: JsonObject): boolean {
  const known = searched.get(schema) ?? findReference(schema);
  searched.set(schema, known);
  return known;
}

function findReference(schema: Json): boolean {
  const open: Json[] = [schema];
  for (let part = open.pop(); part !== undefined; part = open.pop()) {
    if (typeof part !== "object" || part === null) continue;
    if (Object.keys(part).some((key) => REFERENCES.has(key))) return true;
    open.push(...Object.values(part as JsonObject));
  }
  return false;
}

function first<Item>(items: readonly Item[], find: (item: Item) => Misfit | undefined): Misfit | undefined {
  for (const item of items) {
    const found = find(item);
    if (found) return found;
  }
  return undefined;
}
