// JSON Schemas from outside (2020-12), compiled once and bounded: a hostile pattern, schema or value ends as a problem, never
// as a stalled node (a 28-character string stalled the validator's own regular expressions for 19 s: measured).
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import formats from "ajv-formats";
import { RE2JS } from "re2js";
import type { Json, JsonObject } from "../../machines/index.js";

const MAX_SCHEMA_CHARS = 262_144;
const MAX_CACHED = 1_000;
/** Lists longer than this are not searched for duplicates: it takes quadratic time. */
const MAX_UNIQUE_ITEMS = 1_000;
const MAX_PROBLEMS = 20;

interface Check {
  /** Absent where anything conforms. */
  readonly validate?: ValidateFunction;
  readonly unique: boolean;
}

export class Schemas {
  private readonly compiled = new Map<string, ValidateFunction>();
  /** Most schemas come as the same object again and again. */
  private readonly known = new WeakMap<JsonObject, Check>();

  /** Problems of the schema itself, empty if it is sound. */
  problems(schema: JsonObject): readonly string[] {
    try {
      this.validator(schema);
      return [];
    } catch (error) {
      return [`is no JSON Schema that can be used: ${error instanceof Error ? error.message : "unknown"}`];
    }
  }

  /** Problems of the value under the schema, each with its place; empty if it conforms. */
  conforms(schema: JsonObject, value: Json): readonly string[] {
    const { validate, unique } = this.check(schema);
    if (!validate) return [];
    const long = unique ? longList(value) : undefined;
    if (long) return [long];
    if (validate(value)) return [];
    return (validate.errors ?? [])
      .slice(0, MAX_PROBLEMS)
      .map(({ instancePath, message }) => `${instancePath || "/"} ${message}`);
  }

  private check(schema: JsonObject): Check {
    const known = this.known.get(schema);
    if (known) return known;
    const empty = Object.keys(schema).length === 0;
    const check = empty
      ? { unique: false }
      : { validate: this.validator(schema), unique: JSON.stringify(schema).includes('"uniqueItems"') };
    this.known.set(schema, check);
    return check;
  }

  private validator(schema: JsonObject): ValidateFunction {
    const text = JSON.stringify(schema);
    if (text.length > MAX_SCHEMA_CHARS) throw new Error(`it is over ${MAX_SCHEMA_CHARS} characters`);
    const known = this.compiled.get(text);
    if (known) return known;
    if (this.compiled.size >= MAX_CACHED) this.compiled.clear();
    // Each schema has a validator of its own: an $id in one cannot be referred to, or taken, by another.
    const validate = validatorOf(schema);
    this.compiled.set(text, validate);
    return validate;
  }
}

function validatorOf(schema: JsonObject): ValidateFunction {
  const ajv = new Ajv2020({ strict: false, allErrors: false, validateFormats: true, code: { regExp: linearRegExp } });
  (formats as unknown as (instance: Ajv2020) => void)(ajv);
  return ajv.compile(schema);
}

/** `pattern` in linear time. Features that need backtracking (look-around, back references) are a problem of the schema. */
const linearRegExp = Object.assign(
  (pattern: string) => {
    const compiled = RE2JS.compile(pattern);
    return { test: (text: string) => compiled.matcher(text).find() } as unknown as RegExp;
  },
  { code: "require('re2js')" },
);

function longList(value: Json): string | undefined {
  const open: Json[] = [value];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (Array.isArray(next)) {
      if (next.length > MAX_UNIQUE_ITEMS)
        return `a list of over ${MAX_UNIQUE_ITEMS} items cannot be searched for duplicates`;
      open.push(...(next as Json[]));
    } else if (typeof next === "object" && next !== null) open.push(...(Object.values(next) as Json[]));
  }
  return undefined;
}
