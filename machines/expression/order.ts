// Equality and order of CEL values, and a text that is the same for equal values.
import { type CelList, type CelMap, type CelValue, isCelList, isCelMap, isCelType, isCelUint } from "@bufbuild/cel";
import { Decimal } from "./decimal.js";
import { spend } from "./fuel.js";
import { library } from "./messages.js";
import { compareNumbers, isNumber, sameNumber } from "./numbers.js";
import { Optional } from "./optional.js";
import { paidSize, paySort } from "./prices.js";
import { asDuration, asTimestamp, JsonList, JsonMap } from "./values.js";

export type Relation = "_<_" | "_<=_" | "_>_" | "_>=_";

/** Undefined: the values have no order. */
export function order(relation: Relation, left: CelValue, right: CelValue): boolean | undefined {
  const compared = compare(left, right);
  if (compared === undefined) return undefined;
  switch (relation) {
    case "_<_":
      return compared < 0;
    case "_<=_":
      return compared <= 0;
    case "_>_":
      return compared > 0;
    case "_>=_":
      return compared >= 0;
  }
}

/** Less than, equal to or more than zero as `left` is to `right`; NaN for numbers without order. Undefined: they are of other types. */
export function compare(left: CelValue, right: CelValue): number | undefined {
  if (typeof left === "string") return typeof right === "string" ? compareTexts(left, right) : undefined;
  if (typeof left === "boolean") return typeof right === "boolean" ? Number(left) - Number(right) : undefined;
  const numbers = compareNumbers(left, right);
  if (numbers !== undefined) return numbers;
  if (left instanceof Uint8Array) return right instanceof Uint8Array ? compareBytes(left, right) : undefined;
  const [a, b] = asTimestamp(left) ? [asTimestamp(left), asTimestamp(right)] : [asDuration(left), asDuration(right)];
  if (!a || !b) return undefined;
  return a.seconds === b.seconds ? a.nanos - b.nanos : a.seconds < b.seconds ? -1 : 1;
}

/** Compares by code points. UTF-16 orders the characters beyond U+FFFF, which it writes as two surrogates, before U+E000 to U+FFFF. */
export function compareTexts(left: string, right: string): number {
  if (left === right) return 0;
  const end = Math.min(left.length, right.length);
  if (end > SHORT) {
    spend(end >>> 6);
    if (!SURROGATES.test(left) && !SURROGATES.test(right)) return left < right ? -1 : 1;
    spend(end >>> 4);
  }
  for (let index = 0; index < end; index++) {
    const a = left.charCodeAt(index);
    const b = right.charCodeAt(index);
    if (a !== b) return isSurrogate(a) === isSurrogate(b) || a < 0xd800 || b < 0xd800 ? a - b : b - a;
  }
  return left.length - right.length;
}

/** Up to here characters are compared one by one, as longer texts are only if they have surrogates. */
const SHORT = 64;
const SURROGATES = /[\ud800-\udfff]/;

function isSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdfff;
}

function compareBytes(left: Uint8Array, right: Uint8Array): number {
  const end = Math.min(left.length, right.length);
  for (let index = 0; index < end; index++) {
    const difference = (left[index] as number) - (right[index] as number);
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}

export function equal(left: CelValue, right: CelValue): boolean {
  spend(1);
  if (left === right) return true;
  if (isNumber(left) && isNumber(right)) return sameNumber(left, right);
  if (typeof left !== "object" || typeof right !== "object" || left === null || right === null) return false;
  if (left instanceof JsonList || left instanceof JsonMap) {
    const other: unknown = right;
    const source = other instanceof JsonList || other instanceof JsonMap ? other.source : undefined;
    if (left.source === source) return true;
  }
  if (isCelList(left)) return isCelList(right) && equalLists(left, right);
  if (isCelMap(left)) return isCelMap(right) && equalMaps(left, right);
  if (left instanceof Optional || right instanceof Optional) return equalOptionals(left, right);
  if (left instanceof Decimal || right instanceof Decimal) return false;
  return library.funcs.find("_==_")?.call(0, undefined, [left, right]) === true;
}

function equalOptionals(left: CelValue, right: CelValue): boolean {
  if (!(left instanceof Optional) || !(right instanceof Optional)) return false;
  if (left.value === undefined || right.value === undefined) return left.value === right.value;
  return equal(left.value, right.value);
}

function equalLists(left: CelList, right: CelList): boolean {
  if (left.size !== right.size) return false;
  for (let index = 0; index < left.size; index++) {
    if (!equal(left.get(index) as CelValue, right.get(index) as CelValue)) return false;
  }
  return true;
}

function equalMaps(left: CelMap, right: CelMap): boolean {
  const size = paidSize(left);
  if (size !== paidSize(right)) return false;
  for (const [key, value] of left) {
    const other = right.get(key);
    if (other === undefined || !equal(value, other)) return false;
  }
  return true;
}

/** Equal values have the same key, and no others. Pays for what it reads. Undefined: a message, which is compared only. */
export function keyOf(value: CelValue): string | undefined {
  spend(12);
  if (typeof value === "string") {
    spend(value.length >>> 5);
    return `s${value.length}:${value}`;
  }
  if (typeof value === "boolean" || value === null) return String(value);
  const number = numberKey(value);
  if (number !== undefined) return number;
  if (value instanceof Uint8Array) {
    spend(value.length >>> 1);
    return `b${value.join()}`;
  }
  if (isCelList(value)) {
    const keys = Array.from(value, keyOf);
    return keys.includes(undefined) ? undefined : `[${keys.join()}]`;
  }
  if (isCelMap(value)) return keyOfMap(value);
  if (value instanceof Optional) return value.value === undefined ? "none" : `o${keyOf(value.value)}`;
  if (isCelType(value)) return `y${value.name}`;
  const time = asTimestamp(value);
  const span = time ?? asDuration(value);
  return span && `${time ? "t" : "d"}${span.seconds}.${span.nanos}`;
}

function numberKey(value: CelValue): string | undefined {
  if (typeof value === "bigint") return `n${value}`;
  if (isCelUint(value)) return `n${value.value}`;
  if (value instanceof Decimal) return `n${value.key()}`;
  if (typeof value !== "number") return undefined;
  const text = String(value);
  if (!text.includes("e")) return `n${text}`;
  return Number.isInteger(value) ? `n${BigInt(value)}` : `n${Decimal.parse(text)?.key()}`;
}

function keyOfMap(map: CelMap): string | undefined {
  const members: string[] = [];
  for (const [key, value] of map) {
    const inner = keyOf(value);
    if (inner === undefined) return undefined;
    members.push(`${keyOf(key)}:${inner}`);
  }
  paySort(members.length);
  return `{${members.sort().join()}}`;
}
