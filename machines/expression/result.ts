// CEL values written back as JSON, and the two things JSON results are asked: are they true, and what is their text. Not
// a serializer: JSON that came in through the scope goes out as the same object, uncopied.
import { type CelList, type CelMap, type CelValue, isCelList, isCelMap, isCelUint } from "@bufbuild/cel";
import { base64Encode } from "@bufbuild/protobuf/wire";
import { FORBIDDEN_NAMES, type Json, type JsonObject, measure } from "../json.js";
import { formatInstant } from "../time.js";
import { ExpressionError } from "./errors.js";
import { spend, takeRoom } from "./fuel.js";
import { asDuration, asTimestamp, Instant, JsonList, JsonMap } from "./values.js";

const MAX_DEPTH = 200;

/**
 * A result as JSON. `bounded` counts the size of values that came in through the scope too: needed wherever more than
 * one of them can end in one result, since a few characters of source can repeat a large variable a million times.
 */
export function toJson(value: CelValue, bounded: boolean, depth = 0): Json {
  switch (typeof value) {
    case "string":
      takeRoom(value.length + 2);
      return storable(value);
    case "boolean":
      takeRoom(5);
      return value;
    case "number":
      takeRoom(8);
      return double(value);
    case "bigint":
      takeRoom(8);
      return integer(value);
  }
  if (value === null) {
    takeRoom(4);
    return null;
  }
  if (depth > MAX_DEPTH) throw new ExpressionError("the result is nested too deeply");
  if (isCelList(value)) return list(value, bounded, depth);
  if (isCelMap(value)) return map(value, bounded, depth);
  return scalar(value);
}

/** An escape of CEL can write what Postgres cannot store; what came in through the scope was checked where it entered. */
function storable(text: string): string {
  const size = measure(text);
  if (typeof size === "number") return text;
  throw new ExpressionError(`the result ${size.message}`);
}

function scalar(value: CelValue): Json {
  takeRoom(26);
  const time = asTimestamp(value);
  if (time !== undefined) return formatInstant(milliseconds(time));
  const duration = asDuration(value);
  if (duration !== undefined) return milliseconds(duration);
  if (isCelUint(value)) return integer(value.value);
  if (value instanceof Uint8Array) {
    takeRoom(value.length * 2);
    return base64Encode(value);
  }
  throw new ExpressionError("the result is no JSON value");
}

/** Never later than it is: what is finer than a millisecond is cut. */
function milliseconds(time: { readonly seconds: bigint; readonly nanos: number }): number {
  return Number(time.seconds) * 1000 + Math.floor(time.nanos / 1_000_000);
}

function double(value: number): number {
  if (!Number.isFinite(value)) throw new ExpressionError("the result is no finite number");
  // Minus zero would read back from the database as zero.
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
  // A list may stand in itself a million times over; what is written is paid by the element.
  spend(value.size * 4 + 12);
  takeRoom(2);
  const items: Json[] = [];
  for (const item of value) items.push(toJson(item, bounded, depth + 1));
  return items;
}

function map(value: CelMap, bounded: boolean, depth: number): Json {
  const known: unknown = value;
  if (known instanceof JsonMap && !holdsInstant(known)) return sized(known.source as Json, bounded || depth > 0);
  spend(value.size * 4 + 12);
  takeRoom(2);
  const object: Record<string, Json> = {};
  for (const [key, item] of value) {
    const name = isCelUint(key) ? String(key.value) : String(key);
    if (FORBIDDEN_NAMES.has(name)) throw new ExpressionError(`"${name}" is no name for a member of an object`);
    takeRoom(name.length + 4);
    object[storable(name)] = toJson(item, bounded, depth + 1);
  }
  return object;
}

function holdsInstant(map: JsonMap): boolean {
  return map.mayHoldInstants && Object.values(map.source).some((member) => member instanceof Instant);
}

function sized(json: Json, count: boolean): Json {
  if (count) takeJsonRoom(json);
  return json;
}

function takeJsonRoom(json: Json): void {
  if (typeof json === "string") takeRoom(json.length + 2);
  else if (typeof json !== "object" || json === null) takeRoom(5);
  else if (Array.isArray(json)) {
    spend(2);
    takeRoom(2);
    for (const item of json) takeJsonRoom(item);
  } else takeObjectRoom(json as JsonObject);
}

function takeObjectRoom(object: JsonObject): void {
  spend(4);
  takeRoom(2);
  for (const key of Object.keys(object)) {
    takeRoom(key.length + 4);
    takeJsonRoom(object[key] as Json);
  }
}

/** True, a number that is not zero, a string, list or object that is not empty. Null is false. */
export function truthy(value: Json): boolean {
  if (typeof value !== "object" || value === null) return Boolean(value);
  return Array.isArray(value) ? value.length > 0 : Object.keys(value).length > 0;
}

/** How a value reads inside a text, and as the name of a branch: strings as they are, anything else as JSON. */
export function asText(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
