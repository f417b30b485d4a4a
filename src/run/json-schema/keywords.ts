// The keywords of JSON Schema that read a whole text or value, so that a check pays for what it reads: the library's own read a text of a
// megabyte a thousand times for the price of a thousand calls. Everything else is the library's.
import type { Ajv2020, FormatDefinition, FuncKeywordDefinition } from "ajv/dist/2020.js";
import { fullFormats } from "ajv-formats/dist/formats.js";
import type { Json } from "../../../machines/index.js";
import { spend } from "./fuel.js";

type Test = (wanted: never, value: never) => boolean;

const KEYWORDS: readonly (Pick<FuncKeywordDefinition, "keyword" | "type" | "schemaType"> & {
  readonly message: (wanted: never) => string;
  readonly test: Test;
})[] = [
  {
    keyword: "maxLength",
    type: "string",
    schemaType: "number",
    message: (wanted: number) => `must NOT have more than ${wanted} characters`,
    test: (wanted: number, text: string) => text.length <= wanted || codePoints(text) <= wanted,
  },
  {
    keyword: "minLength",
    type: "string",
    schemaType: "number",
    message: (wanted: number) => `must NOT have fewer than ${wanted} characters`,
    test: (wanted: number, text: string) => text.length >= wanted && codePoints(text) >= wanted,
  },
  {
    keyword: "const",
    message: () => "must be equal to constant",
    test: (wanted: Json, value: Json) => areEqual(wanted, value),
  },
  {
    keyword: "enum",
    schemaType: "array",
    message: () => "must be equal to one of the allowed values",
    test: (wanted: readonly Json[], value: Json) => wanted.some((one) => areEqual(one, value)),
  },
  {
    keyword: "maxProperties",
    type: "object",
    schemaType: "number",
    message: (wanted: number) => `must NOT have more than ${wanted} properties`,
    test: (wanted: number, value: object) => members(value) <= wanted,
  },
  {
    keyword: "minProperties",
    type: "object",
    schemaType: "number",
    message: (wanted: number) => `must NOT have fewer than ${wanted} properties`,
    test: (wanted: number, value: object) => members(value) >= wanted,
  },
  {
    keyword: "uniqueItems",
    type: "array",
    schemaType: "boolean",
    message: () => "must NOT have duplicate items",
    test: (wanted: boolean, items: readonly Json[]) => !wanted || areUnique(items),
  },
];

/** Replaces the keywords of the validator, and makes its formats pay for the text. */
export function meterReading(ajv: Ajv2020): void {
  for (const { test, message, ...definition } of KEYWORDS) {
    ajv.removeKeyword(definition.keyword as string);
    const validate: NonNullable<Exclude<FuncKeywordDefinition["validate"], undefined>> & { errors?: object[] } = (
      wanted: unknown,
      value: unknown,
    ) => {
      if (test(wanted as never, value as never)) return true;
      validate.errors = [{ keyword: definition.keyword as string, message: message(wanted as never), params: {} }];
      return false;
    };
    ajv.addKeyword({ ...definition, validate, errors: true } as FuncKeywordDefinition);
  }
  for (const name of Object.keys(fullFormats)) meterFormat(ajv, name);
}

/** A unit is 64 characters of a regular expression without backtracking, or of a copy. */
function meterFormat(ajv: Ajv2020, name: string): void {
  const format = ajv.formats[name] as Exclude<FormatDefinition<string>, string> | RegExp | true | undefined;
  const test = format instanceof RegExp ? format : typeof format === "object" ? format.validate : format;
  if (typeof test !== "function" && !(test instanceof RegExp)) return;
  if (typeof format === "object" && !(format instanceof RegExp) && (format.type as string) === "number") return;
  ajv.addFormat(name, (text: string) => {
    spend(1 + (text.length >>> 4));
    return test instanceof RegExp ? test.test(text) : (test as (text: string) => boolean)(text);
  });
}

/** The length as JSON Schema counts it. */
function codePoints(text: string): number {
  spend(1 + (text.length >>> 5));
  let pairs = 0;
  for (let index = 0; index < text.length - 1; index++) {
    const unit = text.charCodeAt(index);
    if (unit < 0xd800 || unit > 0xdbff) continue;
    const next = text.charCodeAt(index + 1);
    if (next >= 0xdc00 && next <= 0xdfff) pairs++;
  }
  return text.length - pairs;
}

function members(value: object): number {
  const { length } = Object.keys(value);
  spend(1 + (length >>> 1));
  return length;
}

function areEqual(left: Json, right: Json): boolean {
  if (typeof left === "string" && typeof right === "string" && left.length === right.length) spend(left.length >>> 6);
  if (left === right) return true;
  if (typeof left !== "object" || typeof right !== "object" || left === null || right === null) return false;
  spend(1);
  if (Array.isArray(left) !== Array.isArray(right)) return false;
  const keys = Object.keys(left);
  if (keys.length !== members(right)) return false;
  return keys.every(
    (key) => Object.hasOwn(right, key) && areEqual((left as never)[key] as Json, (right as never)[key] as Json),
  );
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
