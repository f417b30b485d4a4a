// The keyword `x-secret`: which parts of a value a schema makes secret. It is an annotation of the schema, wherever that is applied to a value: every
// alternative counts, also one that the value does not fit, because a mark too many hides a value, and one too few shows it.
import { isObject, type Json, type JsonObject } from "../values/json.js";
import { keysOfPointer, pathElement } from "../values/json-path.js";
import { compilePattern, PatternError } from "../values/pattern.js";
import { isEncrypted, isSecret, secret } from "../values/secret.js";
import { re2Of } from "./pattern-text.js";
import { locate } from "./uri.js";

export const X_SECRET = "x-secret";

/** A schema, and the URI against which its references are read. */
interface At {
  readonly schema: JsonObject;
  readonly base: string;
}

/** The schemas of a document by URI and pointer, and those that have a name. */
interface Document {
  readonly resources: ReadonlyMap<string, At>;
  /** By anchor. An anchor of any resource counts. */
  readonly anchors: ReadonlyMap<string, readonly At[]>;
  /** What each schema applies to the value that it is applied to. */
  readonly applied: WeakMap<JsonObject, readonly At[]>;
}

const documents = new WeakMap<JsonObject, Document | null>();

/** The value with its secret parts marked. The same object if the schema has no `x-secret`. */
export function withSecrets<T extends Json>(schema: JsonObject | undefined, value: T): T {
  const document = schema && documentOf(schema);
  if (!schema || !document) return value;
  return new Marking(document).mark([{ schema, base: "" }], value) as T;
}

export const hasSecrets = (schema: JsonObject | undefined): boolean =>
  schema !== undefined && documentOf(schema) !== null;

/** JSON paths of the schemas below `not` and `propertyNames` that have `x-secret`: they are applied to no value that is kept. */
export function unusedSecrets(schema: JsonObject): readonly string[] {
  const found: string[] = [];
  const walk = (part: Json, path: string, isUnused: boolean): void => {
    if (typeof part !== "object" || part === null) return;
    if (isUnused && (part as JsonObject)[X_SECRET] === true) found.push(path);
    for (const [key, member] of Object.entries(part as JsonObject))
      walk(member, path + pathElement(Array.isArray(part) ? Number(key) : key), isUnused || UNUSED.has(key));
  };
  if (hasSecrets(schema)) walk(schema, "", false);
  return found;
}

const UNUSED: ReadonlySet<string> = new Set(["not", "propertyNames"]);

function documentOf(schema: JsonObject): Document | null {
  const known = documents.get(schema);
  if (known !== undefined) return known;
  const document = mentionsSecret(schema) ? read(schema) : null;
  documents.set(schema, document);
  return document;
}

/** Anywhere in it: what only looks like a schema in data costs a walk, and marks nothing. */
function mentionsSecret(part: Json): boolean {
  if (typeof part !== "object" || part === null) return false;
  if (Array.isArray(part)) return (part as readonly Json[]).some(mentionsSecret);
  const object = part as JsonObject;
  return object[X_SECRET] === true || Object.values(object).some(mentionsSecret);
}

function read(root: JsonObject): Document {
  const resources = new Map<string, At>([["", { schema: root, base: "" }]]);
  const anchors = new Map<string, At[]>();
  const walk = (part: Json, outer: string): void => {
    if (typeof part !== "object" || part === null) return;
    if (Array.isArray(part)) {
      for (const item of part as readonly Json[]) walk(item, outer);
      return;
    }
    const schema = part as JsonObject;
    const { $id, $anchor, $dynamicAnchor } = schema;
    const base = typeof $id === "string" ? locate($id, outer).uri : outer;
    if (base !== outer) resources.set(base, { schema, base });
    for (const anchor of [$anchor, $dynamicAnchor])
      if (typeof anchor === "string") anchors.set(anchor, [...(anchors.get(anchor) ?? []), { schema, base }]);
    for (const member of Object.values(schema)) walk(member, base);
  };
  walk(root, "");
  return { resources, anchors, applied: new WeakMap() };
}

/** Keywords that apply a schema, or several, to the value itself. */
const IN_PLACE = ["allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "dependencies"];
/** Keywords whose schema is that of any member, or of any item. */
const OF_MEMBERS = ["additionalProperties", "unevaluatedProperties"];
const OF_ITEMS = ["items", "contains", "unevaluatedItems", "additionalItems"];

/** What a reference leads to that is not followed here may be secret. */
const NOT_FOLLOWED: readonly At[] = [{ schema: { [X_SECRET]: true }, base: "" }];

class Marking {
  constructor(private readonly document: Document) {}

  mark(schemas: readonly At[], value: Json): Json {
    if (isSecret(value) || isEncrypted(value)) return value;
    const applied = this.applied(schemas);
    if (applied.length === 0) return value;
    if (applied.some(({ schema }) => schema[X_SECRET] === true)) return secret(value);
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value))
      return changed(
        value,
        (value as readonly Json[]).map((item, index) => this.mark(itemsOf(applied, index), item)),
      );
    const members = Object.entries(value as JsonObject);
    const marked = members.map(([name, member]) => this.mark(membersOf(applied, name), member));
    return marked.every((member, index) => member === members[index]?.[1])
      ? value
      : Object.fromEntries(members.map(([name], index) => [name, marked[index] as Json]));
  }

  /** The schemas with all that they apply to the same value. */
  private applied(schemas: readonly At[]): readonly At[] {
    const [first] = schemas;
    if (!first || schemas.length > 1) return this.appliedBy(schemas);
    const known = this.document.applied.get(first.schema) ?? this.appliedBy(schemas);
    this.document.applied.set(first.schema, known);
    return known;
  }

  private appliedBy(schemas: readonly At[]): readonly At[] {
    const found = new Map<JsonObject, At>();
    const open = [...schemas];
    for (let at = open.pop(); at; at = open.pop()) {
      if (found.has(at.schema)) continue;
      const base = typeof at.schema.$id === "string" ? locate(at.schema.$id, at.base).uri : at.base;
      const here = { schema: at.schema, base };
      found.set(at.schema, here);
      for (const keyword of IN_PLACE) open.push(...below(here, keyword, at.schema[keyword]));
      for (const keyword of ["$ref", "$dynamicRef"]) open.push(...this.referred(at.schema[keyword], base));
    }
    return [...found.values()];
  }

  private referred(reference: Json | undefined, base: string): readonly At[] {
    if (typeof reference !== "string") return [];
    const { uri, fragment } = locate(reference, base);
    const name = plainText(fragment);
    if (name !== "" && !name.startsWith("/")) return this.document.anchors.get(name) ?? NOT_FOLLOWED;
    const resource = this.document.resources.get(uri);
    let target: Json | undefined = resource?.schema;
    for (const key of keysOfPointer(name)) {
      const isIn: boolean = typeof target === "object" && target !== null && Object.hasOwn(target, key);
      target = isIn ? (target as JsonObject)[key] : undefined;
    }
    if (typeof target === "boolean") return [];
    return resource && isObject(target) ? [{ schema: target, base: resource.base }] : NOT_FOLLOWED;
  }
}

/** The schemas of one keyword: one, a list, or a map. */
function below({ base }: At, keyword: string, value: Json | undefined): readonly At[] {
  const isMap = keyword === "dependentSchemas" || keyword === "dependencies";
  const all = Array.isArray(value)
    ? (value as readonly Json[])
    : isMap && isObject(value)
      ? Object.values(value)
      : [value];
  return all.filter((one) => isObject(one)).map((schema) => ({ schema, base }));
}

function itemsOf(schemas: readonly At[], index: number): readonly At[] {
  return schemas.flatMap((at) => {
    const { prefixItems, items } = at.schema;
    const prefix = Array.isArray(prefixItems) ? prefixItems : Array.isArray(items) ? items : [];
    const own = index < prefix.length ? below(at, "", (prefix as readonly Json[])[index]) : [];
    return [
      ...own,
      ...OF_ITEMS.flatMap((keyword) =>
        Array.isArray(at.schema[keyword]) ? [] : below(at, keyword, at.schema[keyword]),
      ),
    ];
  });
}

function membersOf(schemas: readonly At[], name: string): readonly At[] {
  return schemas.flatMap((at) => {
    const { properties, patternProperties } = at.schema;
    const own = isObject(properties) && Object.hasOwn(properties, name) ? below(at, "", properties[name]) : [];
    const patterns = isObject(patternProperties) ? Object.entries(patternProperties) : [];
    const matched = patterns.filter(([source]) => matches(source, name)).flatMap(([, schema]) => below(at, "", schema));
    if (own.length > 0 || matched.length > 0)
      return [...own, ...matched, ...below(at, "", at.schema.unevaluatedProperties)];
    return OF_MEMBERS.flatMap((keyword) => below(at, keyword, at.schema[keyword]));
  });
}

/** A pattern that cannot be read matches: its schema marks too much rather than too little. */
function matches(source: string, name: string): boolean {
  try {
    return compilePattern(re2Of(source)).test(name, () => {}, true);
  } catch (error) {
    if (error instanceof PatternError) return true;
    throw error;
  }
}

function changed(before: readonly Json[], after: readonly Json[]): Json {
  return after.every((item, index) => item === before[index]) ? before : after;
}

function plainText(fragment: string): string {
  try {
    return decodeURIComponent(fragment);
  } catch {
    return fragment;
  }
}
