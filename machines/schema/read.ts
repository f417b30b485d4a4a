// Reads a schema, or says why it is not usable: it is weighed before anything of it is read, compared with the meta-schema, and made into
// nodes. Values are checked in schemas.ts.
import { isObject, type Json, type JsonObject } from "../values/json.js";
import { compilePattern, type Pattern, PatternError } from "../values/pattern.js";
import { programSize } from "../values/pattern-size.js";
import type { Slices } from "../values/slices.js";
import { flat } from "./applicators.js";
import { Check, type Node, Unfinished, type Violation, Violations } from "./check.js";
import { META_SCHEMA, META_SCHEMAS } from "./meta-schema.js";
import { re2Of } from "./pattern-text.js";
import { type Home, Reader, SchemaFault } from "./reader.js";
import { SchemaSize } from "./size.js";

/** A schema that was read. */
export interface Reading {
  readonly root: Node;
  /** About the memory that it takes. */
  readonly bytes: number;
}

const MAX_FAULTS = 3;
/** Instructions of all patterns of a schema. Compiling takes 1 to 4 µs for each (measured), and the first run that needs a stored schema waits for all of them. */
const MAX_PROGRAMS = 30_000;
/** What a pattern counts besides its instructions: compiling the smallest takes 0.4 ms in a cold process (measured), so that 480 are the most. */
const PATTERN = 50;

/** What a schema may refer to besides itself, by URI: the meta-schema and its vocabularies. */
const known = new Map<string, Home>();

/** The node that schemas are compared with, made when it is first needed. */
let meta: Node | undefined;

/** A process makes it at its start, so that no request waits for it. */
export function metaSchema(): Node {
  if (meta) return meta;
  const readers = META_SCHEMAS.map((document) => new Reader(document, known, () => undefined));
  for (const reader of readers) reader.readRoot();
  for (const reader of readers) reader.followReferences();
  const reader = new Reader(inOne(META_SCHEMAS), new Map(known), () => undefined);
  meta = reader.readRoot();
  reader.followReferences();
  return meta;
}

/** The vocabularies as one schema: they are applied to each object of a schema, and that takes an eighth of the time. */
function inOne(vocabularies: readonly JsonObject[]): JsonObject {
  const [first] = vocabularies;
  const merged = (name: string) => Object.assign({}, ...vocabularies.map((one) => one[name])) as JsonObject;
  return {
    $id: META_SCHEMA,
    $dynamicAnchor: "meta",
    type: first?.type ?? true,
    $defs: merged("$defs"),
    properties: merged("properties"),
  };
}

/** A slice is a pattern. Throws SchemaFault or PatternError. */
export function* readSlices(schema: JsonObject): Slices<Reading> {
  const size = new SchemaSize(schema);
  if (size.fault !== undefined) throw new SchemaFault(size.fault);
  inspect(schema);
  const patterns = new Map<string, Pattern>();
  for (const source of patternsIn(schema)) {
    compileInto(patterns, source);
    yield;
  }
  const reader = new Reader(schema, new Map(known), inspect, patterns);
  const root = reader.readRoot();
  reader.followReferences();
  return { root, bytes: reader.bytes + size.chars };
}

/** A text that is no pattern is a fault only if a keyword has it: the reader compiles it again there. */
function compileInto(patterns: Map<string, Pattern>, source: string): void {
  try {
    patterns.set(source, compilePattern(re2Of(source)));
  } catch (error) {
    if (!(error instanceof PatternError)) throw error;
  }
}

/** The sources of all patterns, also of what only looks like a schema in data. Throws SchemaFault if their programs are too large together. */
function patternsIn(schema: JsonObject): ReadonlySet<string> {
  const found = new Set<string>();
  let size = 0;
  const add = (source: string): void => {
    if (found.has(source)) return;
    found.add(source);
    // One that is too large by itself is refused when it is compiled.
    size += PATTERN + Math.min(programSize(source), MAX_PROGRAMS / 3);
    if (size > MAX_PROGRAMS)
      throw new SchemaFault(
        `its patterns make programs of over ${MAX_PROGRAMS} instructions together, where each pattern counts ${PATTERN} more`,
      );
  };
  const walk = (value: Json, name: string): void => {
    if (typeof value === "string" && name === "pattern") add(value);
    else if (Array.isArray(value)) for (const item of value) walk(item as Json, "");
    else if (isObject(value)) {
      for (const [key, member] of Object.entries(value)) {
        if (name === "patternProperties") add(key);
        walk(member, key);
      }
    }
  };
  walk(schema, "");
  return found;
}

function inspect(schema: Json): void {
  const faults = draftFaults(schema);
  if (faults.length > 0)
    throw new SchemaFault(faults.map(({ pointer, message }) => `schema${pointer} ${message}`).join(", "));
}

/** Why an object is no JSON Schema of the draft. Nothing else of it is read. */
export function draftFault(schema: JsonObject): string | undefined {
  const [first] = draftFaults(schema);
  return first && `${first.pointer || "/"} ${first.message}`;
}

function draftFaults(schema: Json): readonly Violation[] {
  const found = new Violations();
  try {
    if (new Check().apply(metaSchema(), schema, found)) return [];
  } catch (error) {
    if (!(error instanceof Unfinished)) throw error;
    if (found.list.length === 0) return [{ pointer: "", message: "takes too long to check" }];
  }
  return flat(found.list).slice(0, MAX_FAULTS);
}

/** Why a schema is not read, whatever it says. */
export const sizeFault = (schema: JsonObject): string | undefined => new SchemaSize(schema).fault;

/** Objects, and schemas that are `true` or `false`. It stops counting at the limit. */
export const schemaSize = (schema: JsonObject): number => new SchemaSize(schema).weight;
