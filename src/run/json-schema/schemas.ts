// JSON Schemas from outside (2020-12), compiled once and bounded: a hostile pattern, schema or value ends as a problem, never
// as a stalled node. Requests are not validated here: their schemas are the service's own (api/http/body.ts).
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import formats from "ajv-formats";
import { RE2JS } from "re2js";
import type { Json, JsonObject } from "../../../machines/index.js";
import { isOutOfFuel, metered, spend, withFuel } from "./fuel.js";

const MAX_SCHEMA_CHARS = 262_144;
/** Objects in a schema. Compiling takes 0.3 ms for each (measured), so at most 300 ms, once. */
const MAX_SCHEMA_OBJECTS = 1_000;
const MAX_PATTERN_CHARS = 1_000;
const MAX_CACHED = 1_000;
const MAX_PROBLEMS = 20;

export class Schemas {
  private readonly compiled = new Map<string, ValidateFunction>();
  /** Most schemas arrive as the same object again and again. Null: every value conforms. */
  private readonly known = new WeakMap<JsonObject, ValidateFunction | null>();

  /** Problems of the schema itself, empty if it is valid. */
  problems(schema: JsonObject): readonly string[] {
    try {
      this.validator(schema);
      return [];
    } catch (error) {
      return [`is not a usable JSON Schema: ${reason(error)}`];
    }
  }

  /** Problems of the value under the schema, each with its path; empty if it conforms. */
  conforms(schema: JsonObject, value: Json): readonly string[] {
    const validate = this.check(schema);
    if (!validate) return [];
    try {
      if (withFuel(() => validate(value))) return [];
    } catch (error) {
      if (isOutOfFuel(error)) return ["/ takes too long to check against its schema"];
      // The schema refers to itself without descending into the value.
      if (error instanceof RangeError) return ["/ cannot be checked: its schema refers to itself endlessly"];
      throw error;
    }
    return (validate.errors ?? [])
      .slice(0, MAX_PROBLEMS)
      .map(({ instancePath, message }) => `${instancePath || "/"} ${message}`);
  }

  private check(schema: JsonObject): ValidateFunction | null {
    const known = this.known.get(schema);
    if (known !== undefined) return known;
    const check = Object.keys(schema).length === 0 ? null : this.validator(schema);
    this.known.set(schema, check);
    return check;
  }

  private validator(schema: JsonObject): ValidateFunction {
    const text = JSON.stringify(schema);
    if (text.length > MAX_SCHEMA_CHARS) throw new Error(`it is over ${MAX_SCHEMA_CHARS} characters`);
    const known = this.compiled.get(text);
    if (known) return known;
    if (countObjects(schema) > MAX_SCHEMA_OBJECTS) throw new Error(`it has over ${MAX_SCHEMA_OBJECTS} objects`);
    refuseUnsafeIds(schema);
    if (this.compiled.size >= MAX_CACHED) this.compiled.clear();
    const validate = validatorOf(schema);
    this.compiled.set(text, validate);
    return validate;
  }
}

function reason(error: unknown): string {
  if (error instanceof RangeError) return "it is nested too deeply";
  return error instanceof Error ? error.message : "unknown";
}

function countObjects(value: Json): number {
  if (typeof value !== "object" || value === null) return 0;
  let count = Array.isArray(value) ? 0 : 1;
  for (const member of Object.values(value)) count += countObjects(member as Json);
  return count;
}

/**
 * With the option `process` the library writes the $id unescaped into a comment of its generated code, so an $id that ends the
 * comment would be code. Only characters that cannot do so are allowed; identifiers need no others.
 */
function refuseUnsafeIds(value: Json): void {
  if (typeof value !== "object" || value === null) return;
  for (const [name, member] of Object.entries(value)) {
    if (name === "$id" && typeof member === "string" && !/^[\w:/?#.~%@+=&-]{0,1000}$/.test(member))
      throw new Error("an $id may contain only letters, digits and : / ? # . ~ % @ + = & - _");
    refuseUnsafeIds(member as Json);
  }
}

const OPTIONS = { strict: false, allErrors: false, validateFormats: true, logger: false } as const;

/** Checks schemas against the meta-schema. It takes 30 ms to compile (measured), so there is one. */
const metaSchema = new Ajv2020(OPTIONS);
// The first check compiles the meta-schema: at the start, so that no request waits for it.
metaSchema.validateSchema({});

/** Each schema has a validator instance of its own, so that an $id in one cannot be referred to, or taken, by another. */
function validatorOf(schema: JsonObject): ValidateFunction {
  if (!metaSchema.validateSchema(schema))
    throw new Error(metaSchema.errorsText(metaSchema.errors, { dataVar: "schema" }));
  const ajv = new Ajv2020({
    ...OPTIONS,
    validateSchema: false,
    // An inlined reference would be work without a call, and fuel counts calls.
    inlineRefs: false,
    code: { regExp: linearRegExp, process: metered },
  });
  (formats as unknown as (instance: Ajv2020) => void)(ajv);
  ajv.removeKeyword("uniqueItems");
  ajv.addKeyword({
    keyword: "uniqueItems",
    type: "array",
    schemaType: "boolean",
    error: { message: "must NOT have duplicate items" },
    validate: (wanted: boolean, items: readonly Json[]) => !wanted || areUnique(items),
  });
  return ajv.compile(schema);
}

/** Compares the texts of items: the library's own search takes quadratic time. */
function areUnique(items: readonly Json[]): boolean {
  const seen = new Set<string>();
  for (const item of items) {
    const text = canonical(item);
    spend(1 + (text.length >>> 4));
    if (seen.has(text)) return false;
    seen.add(text);
  }
  return true;
}

/** The order of an object's members does not matter. */
function canonical(value: Json): string {
  return JSON.stringify(value, (_, member: Json) =>
    typeof member === "object" && member !== null && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)))
      : member,
  );
}

/** `pattern` in linear time. Features that need backtracking (look-around, back references) are reported as problems of the schema. */
const linearRegExp = Object.assign(
  (pattern: string) => {
    if (pattern.length > MAX_PATTERN_CHARS) throw new Error(`a pattern has at most ${MAX_PATTERN_CHARS} characters`);
    const compiled = RE2JS.compile(pattern);
    const size = compiled.programSize();
    const test = (text: string) => {
      spend(4 + (text.length * size) / 32);
      return compiled.test(text);
    };
    // The library tells patterns apart by this text; with the default text all of them would be one.
    return { test, toString: () => `/${pattern}/` } as unknown as RegExp;
  },
  { code: "require('re2js')" },
);
