// CEL values as JSON, and the truth and the text of JSON results. JSON from the scope is returned as the same object, not as a
// copy.
import { type CelList, type CelMap, type CelValue, isCelList, isCelMap, isCelUint } from "@bufbuild/cel";
import { base64Encode } from "@bufbuild/protobuf/wire";
import { FORBIDDEN_NAMES, type Json, type JsonObject, measure } from "../values/json.js";
import { holdsEncrypted, holdsSecret, revealed } from "../values/secret.js";
import { formatInstant } from "../values/time.js";
import { Decimal } from "./decimal.js";
import { ExpressionError } from "./errors.js";
import { spend, takeResultChars } from "./fuel.js";
import { Optional } from "./optional.js";
import { Encrypted, encryptedRead } from "./secrets.js";
import { asDuration, asTimestamp, Instant, JsonList, JsonMap } from "./values.js";

const MAX_DEPTH = 200;

/**
 * A result as JSON. `bounded` also counts the size of values from the scope. That is needed where several of them can become part
 * of one result: a few characters of source can repeat a large variable a million times.
 */
export function toJson(value: CelValue, bounded: boolean, depth = 0): Json {
  switch (typeof value) {
    case "string":
      takeResultChars(value.length + 2);
      return storable(value);
    case "boolean":
      takeResultChars(5);
      return value;
    case "number":
      takeResultChars(8);
      return double(value);
    case "bigint":
      takeResultChars(8);
      return integer(value);
  }
  if (value === null) {
    takeResultChars(4);
    return null;
  }
  if (depth > MAX_DEPTH) throw new ExpressionError("the result is nested too deeply");
  if (value instanceof Optional) return toJson(value.value ?? null, bounded, depth + 1);
  if (isCelList(value)) return list(value, bounded, depth);
  if (isCelMap(value)) return map(value, bounded, depth);
  return scalar(value);
}

/** A result where a number is asked for: a decimal is one there, not its text. */
export function numberOrJson(value: CelValue, bounded: boolean): Json {
  const given = value instanceof Optional ? (value.value ?? null) : value;
  return given instanceof Decimal ? double(Number(given.toString())) : toJson(given, bounded);
}

/** A CEL escape can produce text that cannot be stored. Values from the scope were checked where they entered. */
function storable(text: string): string {
  const size = measure(text);
  if (typeof size === "number") return text;
  throw new ExpressionError(`the result ${size.message}`);
}

function scalar(value: CelValue): Json {
  takeResultChars(26);
  const given: unknown = value;
  if (given instanceof Encrypted) return sized(given.source, true);
  const time = asTimestamp(value);
  if (time !== undefined) return formatInstant(milliseconds(time));
  const duration = asDuration(value);
  if (duration !== undefined) return milliseconds(duration);
  if (isCelUint(value)) return integer(value.value);
  if (value instanceof Decimal) return exact(value);
  if (value instanceof Uint8Array) {
    takeResultChars(value.length * 2);
    spend(value.length);
    return base64Encode(value);
  }
  throw new ExpressionError("the result is not a JSON value");
}

/** Its digits as a text, as JSON has no number for them; `double()` makes a number. */
function exact(value: Decimal): string {
  const text = value.toString();
  takeResultChars(text.length);
  return text;
}

/** Fractions of a millisecond are cut, so the result is never later than the time. */
function milliseconds(time: { readonly seconds: bigint; readonly nanos: number }): number {
  return Number(time.seconds) * 1000 + Math.floor(time.nanos / 1_000_000);
}

function double(value: number): number {
  if (!Number.isFinite(value)) throw new ExpressionError("the result is not a finite number");
  // The database returns minus zero as zero.
  return value === 0 ? 0 : value;
}

function integer(value: bigint): number {
  const number = Number(value);
  if (!Number.isSafeInteger(number) && Math.abs(number) !== 2 ** 53) throw unsafe();
  if (BigInt(number) !== value) throw unsafe();
  return number;
}

function unsafe(): ExpressionError {
  return new ExpressionError("the result is an integer beyond 2^53, which JSON cannot carry: use string()");
}

function list(value: CelList, bounded: boolean, depth: number): Json {
  const known: unknown = value;
  if (known instanceof JsonList) return sized(known.source, bounded || depth > 0);
  // A list may contain the same list a million times, so every element that is written is paid for.
  spend(value.size * 4 + 12);
  takeResultChars(2);
  const items: Json[] = [];
  for (const item of value) items.push(toJson(item, bounded, depth + 1));
  return items;
}

function map(value: CelMap, bounded: boolean, depth: number): Json {
  const known: unknown = value;
  if (known instanceof JsonMap && !holdsInstant(known)) return sized(known.source as Json, bounded || depth > 0);
  spend(value.size * 4 + 12);
  takeResultChars(2);
  const object: Record<string, Json> = {};
  for (const [key, item] of value) {
    const name = isCelUint(key) ? String(key.value) : String(key);
    if (FORBIDDEN_NAMES.has(name)) throw new ExpressionError(`"${name}" is not allowed as a member name in an object`);
    // The int 1 and the text "1" are two keys of a map, and one name of an object.
    if (Object.hasOwn(object, name)) throw new ExpressionError("duplicate map key");
    takeResultChars(name.length + 4);
    object[storable(name)] = toJson(item, bounded, depth + 1);
  }
  return object;
}

function holdsInstant(map: JsonMap): boolean {
  return map.mayHoldInstants && Object.values(map.source).some((member) => member instanceof Instant);
}

function sized(json: Json, count: boolean): Json {
  if (count) takeJsonChars(json);
  return json;
}

function takeJsonChars(json: Json): void {
  if (typeof json === "string") takeResultChars(json.length + 2);
  else if (typeof json !== "object" || json === null) takeResultChars(5);
  else if (Array.isArray(json)) {
    spend(2 + (json.length >>> 2));
    takeResultChars(2);
    for (const item of json) takeJsonChars(item);
  } else takeObjectChars(json as JsonObject);
}

function takeObjectChars(object: JsonObject): void {
  const names = Object.keys(object);
  spend(4 + names.length);
  takeResultChars(2);
  for (const key of names) {
    takeResultChars(key.length + 4);
    takeJsonChars(object[key] as Json);
  }
}

/** Whether a result passes a test. An optional value passes if it has a value that does. */
export function isTrue(value: CelValue): boolean {
  if (typeof value === "boolean") return value;
  if (value instanceof Optional) return value.value !== undefined && isTrue(value.value);
  if (value instanceof Decimal) return value.sign !== 0;
  if ((value as unknown) instanceof Encrypted) throw encryptedRead();
  if (isCelList(value) || isCelMap(value)) return value.size > 0;
  return truthy(toJson(value, false));
}

/** Truthy: true, non-zero numbers, non-empty strings, lists and objects. */
export function truthy(value: Json): boolean {
  if (typeof value !== "object" || value === null) return Boolean(value);
  return Array.isArray(value) ? value.length > 0 : Object.keys(value).length > 0;
}

/**
 * The text of a value inside a template, and as the name of a branch: a string as it is, any other value as JSON. The text of a value with secrets has
 * no mark: `isSecretText` says that it needs one. Throws ExpressionError for an encrypted value.
 */
export function asText(value: Json): string {
  if (typeof value === "string") return value;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (holdsEncrypted(value)) throw encryptedRead();
  const plain = revealed(value);
  return typeof plain === "string" ? plain : JSON.stringify(plain);
}

/** Whether the text of the value is secret. */
export const isSecretText = (value: Json): boolean => typeof value === "object" && holdsSecret(value);
