// JSON Schemas from outside (2020-12), compiled once and bounded: a hostile pattern, schema or value ends as a problem, never
// as a stalled node. Requests are not validated here: their schemas are the service's own (api/http/body.ts).
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import formats from "ajv-formats";
import {
  compilePattern,
  inOnePiece,
  type Json,
  type JsonObject,
  parseInstant,
  type Slices,
  WeightedCache,
} from "../../../machines/index.js";
import { isOutOfFuel, metered, spend, withFuel } from "./fuel.js";
import { meterReading } from "./keywords.js";
import { partsOf } from "./parts.js";

const MAX_SCHEMA_CHARS = 262_144;
/** Objects, and schemas that are `true` or `false`. Compiling takes 0.1 ms for each (measured), once, when the schema is first used. */
const MAX_SCHEMA_WEIGHT = 1_000;
/** The compiled schemas of a process, by the objects in them: about 10 KB each. */
const MAX_CACHED_WEIGHT = 12_000;
const MAX_PROBLEMS = 20;

export class Schemas {
  private readonly compiled = new WeightedCache<string, ValidateFunction>(MAX_CACHED_WEIGHT);
  /** Most schemas arrive as the same object again and again. Null: every value conforms. */
  private readonly known = new WeakMap<JsonObject, ValidateFunction | null>();

  /** Problems of the schema itself, empty if it is valid. */
  problems(schema: JsonObject): readonly string[] {
    return inOnePiece(this.problemSlices(schema));
  }

  /** A slice is a part of the schema. */
  *problemSlices(schema: JsonObject): Slices<readonly string[]> {
    try {
      yield* this.validatorSlices(schema);
      return [];
    } catch (error) {
      return [`is not a usable JSON Schema: ${reason(error)}`];
    }
  }

  /** Problems of the value under the schema, each with its path; empty if it conforms. */
  conforms(schema: JsonObject, value: Json): readonly string[] {
    let validate: ValidateFunction | null;
    try {
      validate = this.check(schema);
      if (!validate || withFuel(() => validate?.(value))) return [];
    } catch (error) {
      if (isOutOfFuel(error)) return ["/ takes too long to check against its schema"];
      // The schema refers to itself without descending into the value.
      if (error instanceof RangeError) return ["/ cannot be checked: its schema refers to itself endlessly"];
      // A registered schema is compiled when it is first used.
      return [`/ cannot be checked: its schema is not usable: ${reason(error)}`];
    }
    return (validate.errors ?? [])
      .slice(0, MAX_PROBLEMS)
      .map(({ instancePath, message }) => `${instancePath || "/"} ${message}`);
  }

  private check(schema: JsonObject): ValidateFunction | null {
    const known = this.known.get(schema);
    if (known !== undefined) return known;
    const check = Object.keys(schema).length === 0 ? null : inOnePiece(this.validatorSlices(schema));
    this.known.set(schema, check);
    return check;
  }

  private *validatorSlices(schema: JsonObject): Slices<ValidateFunction> {
    const text = JSON.stringify(schema);
    if (text.length > MAX_SCHEMA_CHARS) throw new Error(`it is over ${MAX_SCHEMA_CHARS} characters`);
    const known = this.compiled.get(text);
    if (known) return known;
    const weight = weightOf(schema);
    if (weight > MAX_SCHEMA_WEIGHT) throw new Error(`it has over ${MAX_SCHEMA_WEIGHT} objects and boolean schemas`);
    refuseUnsafeIds(schema);
    const validate = yield* validatorOf(schema);
    this.compiled.set(text, validate, 1 + weight);
    return validate;
  }
}

/** Why an object is no JSON Schema of the draft. Nothing is compiled. */
export function draftFault(schema: JsonObject): string | undefined {
  if (metaSchema.validateSchema(schema) === true) return undefined;
  const [error] = metaSchema.errors ?? [];
  return `${error?.instancePath || "/"} ${error?.message ?? ""}`.trimEnd();
}

/** Why a schema would not be compiled, whatever it says. */
export function sizeFault(schema: JsonObject): string | undefined {
  if (JSON.stringify(schema).length > MAX_SCHEMA_CHARS) return `it is over ${MAX_SCHEMA_CHARS} characters`;
  if (weightOf(schema) <= MAX_SCHEMA_WEIGHT) return undefined;
  return `it has over ${MAX_SCHEMA_WEIGHT} objects and boolean schemas`;
}

/** Objects, and schemas that are `true` or `false`. */
export const schemaSize = (schema: JsonObject): number => weightOf(schema);

function reason(error: unknown): string {
  if (error instanceof RangeError) return "it is nested too deeply";
  return error instanceof Error ? error.message : "unknown";
}

/** Members of objects that are `true` or `false` count where they may be schemas: thirty thousand of them fit into the text. */
function weightOf(value: Json, name = ""): number {
  if (typeof value === "boolean") return FLAGS.has(name) ? 0 : 1;
  if (typeof value !== "object" || value === null) return 0;
  if (Array.isArray(value)) return value.reduce<number>((sum, item) => sum + weightOf(item, name), 0);
  return Object.entries(value).reduce((sum, [key, member]) => sum + weightOf(member, key), 1);
}

/** Keywords whose value is a flag or data. */
const FLAGS: ReadonlySet<string> = new Set([
  ...["uniqueItems", "deprecated", "readOnly", "writeOnly", "default", "const", "enum", "examples"],
]);

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

/** Checks schemas against the meta-schema. Every process compiles it: 80 ms with the library's optimiser and inlining, 55 without (measured). */
const metaSchema = new Ajv2020({ ...OPTIONS, inlineRefs: false, code: { optimize: false } });
// The first check compiles the meta-schema: at the start, so that no request waits for it.
metaSchema.validateSchema({});

/** Each schema has a validator instance of its own, so that an $id in one cannot be referred to, or taken, by another. */
function* validatorOf(whole: JsonObject): Slices<ValidateFunction> {
  if (!metaSchema.validateSchema(whole))
    throw new Error(metaSchema.errorsText(metaSchema.errors, { dataVar: "schema" }));
  const ajv = new Ajv2020({
    ...OPTIONS,
    validateSchema: false,
    // An inlined reference would be work without a call, and fuel counts calls.
    inlineRefs: false,
    // The optimiser takes four fifths of the time, and makes little of code that runs a few times.
    code: { regExp: linearRegExp, process: metered, optimize: false },
  });
  (formats as unknown as (instance: Ajv2020) => void)(ajv);
  ajv.addFormat("date-time", (text: string) => parseInstant(text) !== undefined);
  meterReading(ajv);
  const { parts, schema } = partsOf(whole);
  // Nothing in it asks which members were evaluated, and keeping account of them would be a fifth of the work.
  if (parts.length > 0) ajv.opts.unevaluated = false;
  for (const part of parts) {
    yield;
    ajv.addSchema(part.schema, part.key).getSchema(part.key);
  }
  yield;
  return ajv.compile(schema);
}

/** `pattern` in linear time. Features that need backtracking (look-around, back references) are reported as problems of the schema. */
const linearRegExp = Object.assign(
  (pattern: string) => {
    const compiled = compilePattern(pattern);
    const test = (text: string) => compiled.test(text, spend, true);
    // The library tells patterns apart by this text; with the default text all of them would be one.
    return { test, toString: () => `/${pattern}/` } as unknown as RegExp;
  },
  { code: "require('re2js')" },
);
