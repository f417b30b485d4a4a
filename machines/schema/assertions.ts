// The keywords that judge a value by themselves. Those that apply other schemas are in applicators.ts.
import { beginningOf, isObject, type Json, type JsonObject } from "../values/json.js";
import * as misfit from "../values/misfit.js";
import type { Pattern } from "../values/pattern.js";
import { codePoints } from "../values/text.js";
import { type Check, type Keyword, UNKNOWN_TEXT, type Violations } from "./check.js";
import { areUnique, oneOfValues } from "./equality.js";
import { FORMATS, NUMBER_FORMATS } from "./formats.js";
import { multiplesOf } from "./multiples.js";

/** What a keyword makes of its value in a schema. */
type Assertion<Value> = (wanted: Value) => Keyword;

const IS: Readonly<Record<string, (value: Json) => boolean>> = {
  null: (value) => value === null,
  boolean: (value) => typeof value === "boolean",
  string: (value) => typeof value === "string" || value === UNKNOWN_TEXT,
  number: (value) => typeof value === "number",
  integer: (value) => Number.isInteger(value),
  array: (value) => Array.isArray(value),
  object: isObject,
};

const type: Assertion<string | readonly string[]> = (wanted) => {
  const types = typeof wanted === "string" ? [wanted] : wanted;
  const tests = types.map((name) => IS[name] as (value: Json) => boolean);
  const message = misfit.wrongType(...types);
  return (value, check, found) => tests.some((test) => test(value)) || check.violation(found, message);
};

const enumeration: Assertion<readonly Json[]> = (values) => {
  const isOneOf = oneOfValues(values);
  let message: string | undefined;
  return (value, check, found) => {
    if (isOneOf(value, check)) return true;
    message ??= misfit.noneOf(values);
    return check.violation(found, message);
  };
};

const constant: Assertion<Json> = (wanted) => enumeration([wanted]);

const ofNumber = (message: string, test: (value: number) => boolean): Keyword => {
  return (value, check, found) => typeof value !== "number" || test(value) || check.violation(found, message);
};

const minimum: Assertion<number> = (bound) => ofNumber(misfit.below(bound), (value) => value >= bound);
const maximum: Assertion<number> = (bound) => ofNumber(misfit.above(bound), (value) => value <= bound);
const exclusiveMinimum: Assertion<number> = (bound) => ofNumber(misfit.notAbove(bound), (value) => value > bound);
const exclusiveMaximum: Assertion<number> = (bound) => ofNumber(misfit.notBelow(bound), (value) => value < bound);

const multipleOf: Assertion<number> = (divisor) => {
  const isMultiple = multiplesOf(divisor);
  return (value, check, found) => {
    if (typeof value !== "number") return true;
    return isMultiple(value, check.spend) || check.violation(found, misfit.noMultiple(divisor));
  };
};

type TextTest = (text: string, check: Check) => boolean;

const ofText = (message: string, test: TextTest): Keyword => {
  return (value, check, found) => {
    if (value === UNKNOWN_TEXT) return check.guess();
    return typeof value !== "string" || test(value, check) || check.violation(found, message);
  };
};

const maxLength: Assertion<number> = (most) =>
  ofText(
    misfit.tooLong(most),
    (text, check) => text.length <= most || (text.length <= 2 * most && lengthOf(text, check) <= most),
  );
const minLength: Assertion<number> = (least) =>
  ofText(
    misfit.tooShort(least),
    (text, check) => text.length >= least && (text.length >= 2 * least || lengthOf(text, check) >= least),
  );

/** The length as JSON Schema counts it. A character is one or two units of a text, so it is seldom needed. */
function lengthOf(text: string, check: Check): number {
  check.spend(text.length >> 4);
  return codePoints(text);
}

export const pattern = (source: string, compiled: Pattern): Keyword =>
  ofText(misfit.unlike(source), (text, check) => compiled.test(text, check.spend, true));

/** Undefined: a format that is not known is an annotation. */
export function format(name: string): Keyword | undefined {
  const message = misfit.notOfFormat(name);
  const number = Object.hasOwn(NUMBER_FORMATS, name) ? NUMBER_FORMATS[name] : undefined;
  if (number) return ofNumber(message, number);
  const test = Object.hasOwn(FORMATS, name) ? FORMATS[name] : undefined;
  return (
    test &&
    ofText(message, (text, check) => {
      check.spend(8 + (text.length >> 2));
      return test(text, check.spend);
    })
  );
}

const ofList = (message: string, test: (items: readonly Json[], check: Check) => boolean): Keyword => {
  return (value, check, found) => !Array.isArray(value) || test(value, check) || check.violation(found, message);
};

const maxItems: Assertion<number> = (most) => ofList(misfit.tooManyItems(most), ({ length }) => length <= most);
const minItems: Assertion<number> = (least) => ofList(misfit.tooFewItems(least), ({ length }) => length >= least);
export const uniqueItems: Assertion<true> = () => ofList(misfit.DUPLICATE_ITEMS, areUnique);

type ObjectTest = (object: JsonObject, check: Check, found: Violations | undefined) => boolean;

const ofObject = (test: ObjectTest): Keyword => {
  return (value, check, found) => !isObject(value) || test(value, check, found);
};

const maxProperties: Assertion<number> = (most) =>
  ofObject((object, check, found) => {
    const names = namesOf(object, check);
    const counted = names.length - (names.some((name) => check.grants(name)) ? 1 : 0);
    return counted <= most || check.violation(found, misfit.tooManyMembers(most));
  });
const minProperties: Assertion<number> = (least) =>
  ofObject(
    (object, check, found) =>
      namesOf(object, check).length >= least || check.violation(found, misfit.tooFewMembers(least)),
  );

/** Reading the names of an object takes time. */
export function namesOf(object: JsonObject, check: Check): readonly string[] {
  const names = Object.keys(object);
  check.spend((names.length * 3) >> 1);
  return names;
}

const required: Assertion<readonly string[]> = (names) =>
  ofObject((object, check, found) => hasAll(object, names, "", check, found));

/** The names that must be there beside another. */
export const dependentRequired: Assertion<Readonly<Record<string, readonly string[]>>> = (dependent) => {
  const entries = Object.entries(dependent);
  return ofObject((object, check, found) => {
    check.spend(entries.length >> 2);
    let fits = true;
    for (const [name, names] of entries) {
      if (!Object.hasOwn(object, name)) continue;
      if (!hasAll(object, names, ` beside ${quoted(name)}`, check, found)) fits = false;
    }
    return fits;
  });
};

function hasAll(
  object: JsonObject,
  names: readonly string[],
  reason: string,
  check: Check,
  found: Violations | undefined,
): boolean {
  check.spend(names.length >> 2);
  let fits = true;
  for (const name of names) {
    if (Object.hasOwn(object, name)) continue;
    fits = check.violation(found, `${misfit.REQUIRED}${reason}`, { member: name });
    if (!found || found.isFull) return false;
  }
  return fits;
}

/** A name in a message. */
export const quoted = (name: string): string => `"${beginningOf(name, 200)}"`;

/** Assertions by keyword. The reader makes those of which a schema keeps more than their value. */
export const ASSERTIONS: ReadonlyMap<string, (wanted: never) => Keyword> = new Map(
  Object.entries({
    type,
    const: constant,
    enum: enumeration,
    minimum,
    maximum,
    exclusiveMinimum,
    exclusiveMaximum,
    multipleOf,
    minLength,
    maxLength,
    minItems,
    maxItems,
    minProperties,
    maxProperties,
    required,
    dependentRequired,
  }),
);
