// JSON Schemas from outside (2020-12), compiled once and bounded: a hostile pattern, schema or value ends as a problem, never
// as a stalled node. Not a validator of requests: those schemas are ours (api/body.ts).
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import formats from "ajv-formats";
import { RE2JS } from "re2js";
import type { Json, JsonObject } from "../../machines/index.js";
import { burnFuel, isSpent, metered, spend } from "./schema-fuel.js";

const MAX_SCHEMA_CHARS = 262_144;
/** Objects in a schema. Compiling takes 0.3 ms for each (measured), so this is 300 ms, once. */
const MAX_SCHEMA_OBJECTS = 1_000;
const MAX_PATTERN_CHARS = 1_000;
const MAX_CACHED = 1_000;
const MAX_PROBLEMS = 20;

export class Schemas {
  private readonly compiled = new Map<string, ValidateFunction>();
  /** Most schemas come as the same object again and again; null: anything conforms. */
  private readonly known = new WeakMap<JsonObject, ValidateFunction | null>();

  /** Problems of the schema itself, empty if it is sound. */
  problems(schema: JsonObject): readonly string[] {
    try {
      this.validator(schema);
      return [];
    } catch (error) {
      return [`is no JSON Schema that can be used: ${reason(error)}`];
    }
  }

  /** Problems of the value under the schema, each with its place; empty if it conforms. */
  conforms(schema: JsonObject, value: Json): readonly string[] {
    const validate = this.check(schema);
    if (!validate) return [];
    try {
      if (burnFuel(() => validate(value))) return [];
    } catch (error) {
      if (isSpent(error)) return ["/ takes too long to be checked against its schema"];
      // A schema that refers to itself without looking deeper into the value.
      if (error instanceof RangeError) return ["/ cannot be checked: its schema refers to itself without an end"];
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
    refuseStrangeIds(schema);
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
 * Where its code is to be looked at (`process`), the library writes the $id into a comment of that code, as it is: one that ends
 * the comment would be code itself. The characters of a URI that can, no identifier needs.
 */
function refuseStrangeIds(value: Json): void {
  if (typeof value !== "object" || value === null) return;
  for (const [name, member] of Object.entries(value)) {
    if (name === "$id" && typeof member === "string" && !/^[\w:/?#.~%@+=&-]{0,1000}$/.test(member))
      throw new Error("an $id has only letters, digits and : / ? # . ~ % @ + = & - _");
    refuseStrangeIds(member as Json);
  }
}

const OPTIONS = { strict: false, allErrors: false, validateFormats: true, logger: false } as const;

/** Checks schemas against the specification's own. It takes 30 ms to compile (measured), so there is one. */
const specification = new Ajv2020(OPTIONS);
// The first check compiles the specification: now, and not when somebody waits.
specification.validateSchema({});

/** Each schema has a validator of its own: an $id in one cannot be referred to, or taken, by another. */
function validatorOf(schema: JsonObject): ValidateFunction {
  if (!specification.validateSchema(schema))
    throw new Error(specification.errorsText(specification.errors, { dataVar: "schema" }));
  const ajv = new Ajv2020({
    ...OPTIONS,
    validateSchema: false,
    // Inlined, a reference would be work without a call, and calls are what is counted.
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

/** By the text of each item: the library's own search takes quadratic time. */
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

/** Two values are equal where their members are, in whatever order. */
function canonical(value: Json): string {
  return JSON.stringify(value, (_, member: Json) =>
    typeof member === "object" && member !== null && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)))
      : member,
  );
}

/** `pattern` in linear time. Features that need backtracking (look-around, back references) are a problem of the schema. */
const linearRegExp = Object.assign(
  (pattern: string) => {
    if (pattern.length > MAX_PATTERN_CHARS) throw new Error(`a pattern has at most ${MAX_PATTERN_CHARS} characters`);
    const compiled = RE2JS.compile(pattern);
    const size = compiled.programSize();
    const test = (text: string) => {
      spend(4 + (text.length * size) / 32);
      return compiled.test(text);
    };
    // The library tells patterns apart by this text: with the standard one they would all be taken for the first.
    return { test, toString: () => `/${pattern}/` } as unknown as RegExp;
  },
  { code: "require('re2js')" },
);
