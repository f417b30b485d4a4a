// Makes the nodes of a schema, which check values. No code is generated, and nothing is fetched. It expects a schema that was weighed and
// compared with the meta-schema (read.ts).
import { isObject, type Json, type JsonObject } from "../values/json.js";
import { keysOfPointer, pointerElement } from "../values/json-path.js";
import { compilePattern, type Pattern } from "../values/pattern.js";
import * as applicators from "./applicators.js";
import * as assertions from "./assertions.js";
import type { Keyword, Node, Resource } from "./check.js";
import { META_SCHEMA } from "./meta-schema.js";
import { re2Of } from "./pattern-text.js";
import { X_SECRET } from "./secrets.js";
import { locate } from "./uri.js";

/** The schema is not usable. The message says why. */
export class SchemaFault extends Error {
  override readonly name = "SchemaFault";
}

const NODE_BYTES = 1_000;
const INSTRUCTION_BYTES = 250;

/** Where in the document a schema stands: a JSON pointer from its root. */
type Pointer = string;

/** A node while it is made: it may refer to nodes that are not there yet. */
type NodeDraft = { -readonly [K in keyof Node]: Node[K] } & { readonly resource: Home };

/** A resource, and where its root is found. */
export interface Home extends Resource {
  readonly reader: Reader;
  readonly pointer: Pointer;
}

interface SchemaAt {
  readonly schema: Members;
  readonly pointer: Pointer;
  readonly home: Home;
}

type Members = Readonly<Record<string, Json>>;

export class Reader {
  /** About the memory that it takes. */
  bytes = 0;
  private readonly nodes = new Map<Pointer, NodeDraft>();
  /** References, which are followed when everything else has been read. */
  private readonly open: (() => void)[] = [];

  constructor(
    private readonly document: Json,
    /** The resources by URI. Those of the document are added. */
    private readonly resources: Map<string, Home>,
    /** Throws SchemaFault for what is no schema. */
    private readonly inspect: (schema: Json) => void,
    /** Those that are compiled already. */
    private readonly patterns: ReadonlyMap<string, Pattern> = new Map(),
  ) {}

  readRoot(): Node {
    return this.node(this.document, "", this.home("", ""));
  }

  /** Finds what the schemas refer to. A target that is not at the place of a schema is read now, and may refer to others. */
  followReferences(): void {
    for (let next = 0; next < this.open.length; next++) this.open[next]?.();
    this.open.length = 0;
  }

  private home(uri: string, pointer: Pointer): Home {
    const home: Home = { uri, pointer, reader: this, anchors: new Map(), dynamicAnchors: new Map() };
    this.resources.set(uri, home);
    return home;
  }

  private node(schema: Json, pointer: Pointer, outer: Home): Node {
    const known = this.nodes.get(pointer);
    if (known) return known;
    this.bytes += NODE_BYTES;
    const members = isObject(schema) ? schema : {};
    const home = this.homeOf(members, pointer, outer);
    const draft: NodeDraft = {
      ...{ resource: home, keywords: [], unevaluated: [], isNever: schema === false },
      isSecret: isSecretSchema(members),
    };
    this.nodes.set(pointer, draft);
    this.name(members, home, draft);
    draft.keywords = schema === false ? [applicators.never] : this.keywords(members, pointer, home);
    draft.unevaluated = this.unevaluated(members, pointer, home);
    return draft;
  }

  /** A schema with an $id is a resource of its own. */
  private homeOf({ $id, $schema }: Members, pointer: Pointer, outer: Home): Home {
    // The `$schema` of the root is checked in schemas.ts.
    const fault = pointer !== "" && $id !== undefined ? otherDraft($schema) : undefined;
    if (fault !== undefined) throw new SchemaFault(fault);
    if (typeof $id !== "string") return outer;
    const { uri } = locate($id, outer.uri);
    // The root may say that its address is the one it has without an $id.
    if (pointer === "" && uri === outer.uri) return outer;
    if (this.resources.get(uri)?.reader === this) throw new SchemaFault(`two schemas in it have the $id ${uri}`);
    return this.home(uri, pointer);
  }

  private name({ $anchor, $dynamicAnchor }: Members, { uri, anchors, dynamicAnchors }: Home, node: Node): void {
    for (const anchor of [$anchor, $dynamicAnchor]) {
      if (typeof anchor !== "string") continue;
      if (anchors.has(anchor) && anchors.get(anchor) !== node)
        throw new SchemaFault(`two schemas in it have the anchor ${uri}#${anchor}`);
      anchors.set(anchor, node);
    }
    if (typeof $dynamicAnchor === "string") dynamicAnchors.set($dynamicAnchor, node);
  }

  private keywords(schema: Members, pointer: Pointer, home: Home): Keyword[] {
    const keywords: Keyword[] = [];
    for (const [name, wanted] of Object.entries(schema)) {
      const make = assertions.ASSERTIONS.get(name);
      if (make) keywords.push(make(wanted as never));
    }
    if (typeof schema.pattern === "string")
      keywords.push(assertions.pattern(schema.pattern, this.pattern(schema.pattern)));
    const format = typeof schema.format === "string" ? assertions.format(schema.format) : undefined;
    if (format) keywords.push(format);
    if (schema.uniqueItems === true) keywords.push(assertions.uniqueItems(true));
    const place = { schema, pointer, home };
    keywords.push(...this.ofParts(place), ...this.inPlace(place));
    return keywords;
  }

  /** Keywords that apply schemas to members and items. */
  private ofParts(place: SchemaAt): Keyword[] {
    const { schema } = place;
    const keywords: Keyword[] = [];
    const [prefix, items, contains] = [
      this.list(place, "prefixItems"),
      this.one(place, "items"),
      this.one(place, "contains"),
    ];
    if (prefix || items) keywords.push(applicators.items(prefix ?? [], items));
    const { minContains: least = 1, maxContains: most = Number.POSITIVE_INFINITY } = schema;
    if (contains) keywords.push(applicators.contains(contains, least as number, most as number));
    const properties = this.map(place, "properties");
    const patterns = [...(this.map(place, "patternProperties") ?? [])].map(([source, node]) => ({
      pattern: this.pattern(source),
      node,
    }));
    const additional = this.one(place, "additionalProperties");
    if (properties || patterns.length > 0 || additional)
      keywords.push(applicators.members({ properties: properties ?? new Map(), patterns, additional }));
    const names = this.one(place, "propertyNames");
    if (names) keywords.push(applicators.propertyNames(names));
    return keywords;
  }

  /** Keywords that apply schemas to the value itself. */
  private inPlace(place: SchemaAt): Keyword[] {
    const { schema, home } = place;
    const keywords: Keyword[] = [];
    const condition = this.one(place, "if");
    const [then, otherwise, not] = [this.one(place, "then"), this.one(place, "else"), this.one(place, "not")];
    const dependent = this.map(place, "dependentSchemas");
    for (const name of ["$defs", "definitions"]) this.map(place, name);
    if (typeof schema.$ref === "string") keywords.push(applicators.reference(this.reference(schema.$ref, home)));
    if (typeof schema.$dynamicRef === "string") keywords.push(this.dynamicReference(schema.$dynamicRef, home));
    const [allOf, anyOf, oneOf] = [this.list(place, "allOf"), this.list(place, "anyOf"), this.list(place, "oneOf")];
    if (allOf) keywords.push(applicators.allOf(allOf));
    if (anyOf) keywords.push(applicators.anyOf(anyOf));
    if (oneOf) keywords.push(applicators.oneOf(oneOf));
    if (not) keywords.push(applicators.not(not));
    if (condition) keywords.push(applicators.conditional(condition, then, otherwise));
    if (dependent) keywords.push(applicators.dependentSchemas(dependent));
    if (isObject(schema.dependencies)) keywords.push(...this.dependencies(schema.dependencies, place));
    return keywords;
  }

  /** The keyword of earlier drafts: names or a schema. */
  private dependencies(dependencies: JsonObject, { pointer, home }: SchemaAt): Keyword[] {
    const entries = Object.entries(dependencies);
    const names = entries.filter(([, one]) => Array.isArray(one));
    const schemas = entries.filter(([, one]) => !Array.isArray(one));
    const at = (name: string) => `${pointer}/dependencies${pointerElement(name)}`;
    const nodes = new Map(schemas.map(([name, one]) => [name, this.node(one, at(name), home)]));
    return [
      assertions.dependentRequired(Object.fromEntries(names) as Record<string, readonly string[]>),
      applicators.dependentSchemas(nodes),
    ];
  }

  private unevaluated(schema: Members, pointer: Pointer, home: Home): Keyword[] {
    const place = { schema, pointer, home };
    const [items, properties] = [this.one(place, "unevaluatedItems"), this.one(place, "unevaluatedProperties")];
    return [
      ...(items ? [applicators.unevaluatedItems(items)] : []),
      ...(properties ? [applicators.unevaluatedProperties(properties)] : []),
    ];
  }

  private one({ schema, pointer, home }: SchemaAt, name: string): Node | undefined {
    const one = schema[name];
    return one === undefined ? undefined : this.node(one, `${pointer}/${name}`, home);
  }

  private list({ schema, pointer, home }: SchemaAt, name: string): Node[] | undefined {
    const list = schema[name];
    if (!Array.isArray(list)) return undefined;
    return list.map((one, index) => this.node(one as Json, `${pointer}/${name}/${index}`, home));
  }

  private map({ schema, pointer, home }: SchemaAt, name: string): Map<string, Node> | undefined {
    const map = schema[name];
    if (!isObject(map)) return undefined;
    const at = `${pointer}/${name}`;
    return new Map(Object.entries(map).map(([key, one]) => [key, this.node(one, at + pointerElement(key), home)]));
  }

  private pattern(source: string): Pattern {
    const compiled = this.patterns.get(source) ?? compilePattern(re2Of(source));
    this.bytes += compiled.size * INSTRUCTION_BYTES;
    return compiled;
  }

  private reference(reference: string, home: Home): () => Node {
    let target: Node | undefined;
    this.open.push(() => {
      target = this.find(reference, home);
    });
    return () => target as Node;
  }

  /** Without a dynamic anchor at its target it is a plain reference. */
  private dynamicReference(reference: string, home: Home): Keyword {
    const target = this.reference(reference, home);
    const { fragment } = locate(reference, home.uri);
    const plain = applicators.reference(target);
    const dynamic = applicators.dynamicReference(fragment, target);
    let keyword: Keyword | undefined;
    return (value, check, found, evaluated) => {
      keyword ??= target().resource.dynamicAnchors.get(fragment) === target() ? dynamic : plain;
      return keyword(value, check, found, evaluated);
    };
  }

  private find(reference: string, home: Home): Node {
    const { uri, fragment } = locate(reference, home.uri);
    const resource = this.resources.get(uri);
    const node = resource?.reader.named(resource, fragment);
    if (node) return node;
    const why = resource ? "there is no such schema in it" : "references to other documents are not followed";
    throw new SchemaFault(`can't resolve reference ${reference}: ${why}`);
  }

  private named(home: Home, fragment: string): Node | undefined {
    const name = plainText(fragment);
    return name === "" || name.startsWith("/") ? this.at(`${home.pointer}${name}`) : home.anchors.get(name);
  }

  /** The schema at a place, also where no keyword of this draft has one. */
  private at(pointer: Pointer): Node | undefined {
    let [value, home, place]: [Json | undefined, Home | undefined, Pointer] = [this.document, undefined, ""];
    for (const key of keysOfPointer(pointer)) {
      home = this.nodes.get(place)?.resource ?? home;
      place += pointerElement(key);
      value = memberOf(value, key);
      if (value === undefined) return undefined;
    }
    const known = this.nodes.get(place);
    if (known || !home || !(isObject(value) || typeof value === "boolean")) return known;
    this.inspect(value);
    return this.node(value, place, home);
  }
}

function isSecretSchema({ [X_SECRET]: mark = false }: Members): boolean {
  if (typeof mark !== "boolean") throw new SchemaFault(`${X_SECRET} must be true or false`);
  return mark;
}

/** Why a schema is not of this draft, by what it says itself. */
export function otherDraft($schema: Json | undefined): string | undefined {
  const isOther = typeof $schema === "string" && $schema.replace(/#$/, "") !== META_SCHEMA;
  return isOther ? `its $schema is not ${META_SCHEMA}` : undefined;
}

function memberOf(value: Json, key: string): Json | undefined {
  return typeof value === "object" && value !== null && Object.hasOwn(value, key)
    ? (value as JsonObject)[key]
    : undefined;
}

/** The fragment without the escapes of a URI. */
function plainText(fragment: string): string {
  try {
    return decodeURIComponent(fragment);
  } catch {
    return fragment;
  }
}
