// Equality and order of CEL values, and a text that is the same for equal values.
import { type CelList, type CelMap, type CelValue, isCelList, isCelMap, isCelType, isCelUint } from "@bufbuild/cel";
import { spend } from "./fuel.js";
import { library } from "./messages.js";
import { compareNumbers, isNumber, sameNumber, toDecimal } from "./numbers.js";
import { Optional } from "./optional.js";
import { paidSize, paySort } from "./prices.js";
import { refuseEncrypted } from "./secrets.js";
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
  spend(end >>> 5);
  for (let index = 0; index < end; index++) {
    const difference = (left[index] as number) - (right[index] as number);
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}

/** What comparing two messages in the library costs. */
const MESSAGE = 100;

/** Pays for what it reads: the values may be parts of lists and maps, which nothing has paid for yet. */
export function equal(left: CelValue, right: CelValue): boolean {
  spend(1);
  if (typeof left === "string") {
    if (typeof right !== "string" || left.length !== right.length) return false;
    spend(left.length >>> 6);
    return left === right;
  }
  if (isNumber(left)) return isNumber(right) && sameNumber(left, right);
  if (typeof left !== "object" || typeof right !== "object" || left === null || right === null) return left === right;
  refuseEncrypted([left, right]);
  if (isCelList(left)) return isCelList(right) && (haveSameSource(left, right) || equalLists(left, right));
  if (isCelMap(left)) return isCelMap(right) && (haveSameSource(left, right) || equalMaps(left, right));
  if (left instanceof Optional || right instanceof Optional) return equalOptionals(left, right);
  if (isNumber(right)) return false;
  if (left instanceof Uint8Array) {
    return right instanceof Uint8Array && left.length === right.length && compareBytes(left, right) === 0;
  }
  if (isCelType(left)) return isCelType(right) && left.name === right.name;
  const time = asTimestamp(left);
  const [a, b] = time ? [time, asTimestamp(right)] : [asDuration(left), asDuration(right)];
  if (a) return b !== undefined && a.seconds === b.seconds && a.nanos === b.nanos;
  spend(MESSAGE);
  return library.funcs.find("_==_")?.call(0, undefined, [left, right]) === true;
}

/** JSON has no NaN, so it equals itself. */
function haveSameSource(left: unknown, right: unknown): boolean {
  const [one, other] = [left, right].map((side) =>
    side instanceof JsonList || side instanceof JsonMap ? side.source : undefined,
  );
  return one !== undefined && one === other;
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

/** Equal values have the same key, and no others. Pays for what it reads. Undefined: a message or NaN is in it, which are compared only. */
export function keyOf(value: CelValue): string | undefined {
  spend(12);
  if (typeof value === "string") {
    spend(value.length >>> 5);
    return `s${value.length}:${value}`;
  }
  if (typeof value === "boolean" || value === null) return String(value);
  if (isNumber(value)) return numberKey(value);
  if (value instanceof Uint8Array) {
    spend(value.length >>> 1);
    return `b${value.join()}`;
  }
  if (isCelList(value)) {
    const keys = Array.from(value, keyOf);
    return keys.includes(undefined) ? undefined : `[${keys.join()}]`;
  }
  if (isCelMap(value)) return keyOfMap(value);
  if (value instanceof Optional) {
    const inner = value.value === undefined ? "" : keyOf(value.value);
    return inner === undefined ? undefined : `o${inner}`;
  }
  if (isCelType(value)) return `y${value.name}`;
  const time = asTimestamp(value);
  const span = time ?? asDuration(value);
  return span && `${time ? "t" : "d"}${span.seconds}.${span.nanos}`;
}

/** The digits, without an exponent. Undefined: NaN, which equals nothing. */
function numberKey(value: CelValue): string | undefined {
  if (typeof value === "bigint" || Number.isSafeInteger(value)) return `n${value}`;
  if (isCelUint(value)) return `n${value.value}`;
  const decimal = toDecimal(value);
  if (decimal) return `n${decimal.key()}`;
  return Number.isNaN(value) ? undefined : `n${value}`;
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

/** Values that equality tells apart. Those without a key are compared one by one. */
export class DistinctValues {
  private readonly keys = new Set<string>();
  private readonly others: CelValue[] = [];

  static of(values: Iterable<CelValue>): DistinctValues {
    const all = new DistinctValues();
    for (const value of values) all.add(value);
    return all;
  }

  has(value: CelValue): boolean {
    return this.known(value, keyOf(value));
  }

  /** False: an equal value is there. */
  add(value: CelValue): boolean {
    const key = keyOf(value);
    if (this.known(value, key)) return false;
    if (key === undefined) this.others.push(value);
    else this.keys.add(key);
    return true;
  }

  private known(value: CelValue, key: string | undefined): boolean {
    return key === undefined ? this.others.some((other) => equal(other, value)) : this.keys.has(key);
  }
}
