// When JSON values are equal: numbers by their value, objects whatever the order of their members. Each comparison pays for what it reads.
import { isObject, type Json, type JsonObject } from "../values/json.js";
import { type Check, UNKNOWN_TEXT } from "./check.js";

function areEqual(left: Json, right: Json, check: Check): boolean {
  if (typeof left === "string" && typeof right === "string") {
    if (left.length !== right.length) return false;
    check.spend(left.length >> 6);
    return left === right;
  }
  if (right === UNKNOWN_TEXT) return (left === UNKNOWN_TEXT || typeof left === "string") && check.guess();
  if (left === right) return true;
  if (typeof left !== "object" || typeof right !== "object" || left === null || right === null) return false;
  check.spend(1);
  if (isObject(left)) return isObject(right) && haveEqualMembers(left, right, check);
  if (isObject(right) || left.length !== right.length) return false;
  check.spend(left.length >> 1);
  return left.every((item, index) => areEqual(item, right[index] as Json, check));
}

function haveEqualMembers(left: JsonObject, right: JsonObject, check: Check): boolean {
  const names = Object.keys(left);
  const { length } = Object.keys(right);
  check.spend((names.length + length) >> 1);
  if (names.length !== length) return false;
  return names.every((name) => Object.hasOwn(right, name) && areEqual(left[name] as Json, right[name] as Json, check));
}

const isScalar = (value: Json): boolean => typeof value !== "object" || value === null;

/** The test for one of some values. Scalars are found at once, however many there are. */
export function oneOfValues(values: readonly Json[]): (value: Json, check: Check) => boolean {
  const scalars = new Set(values.filter(isScalar));
  const others = values.filter((value) => !isScalar(value));
  return (value, check) => {
    if (value === UNKNOWN_TEXT) return values.some((one) => typeof one === "string") && check.guess();
    if (typeof value === "string") check.spend(value.length >> 6);
    return isScalar(value) ? scalars.has(value) : others.some((one) => areEqual(one, value, check));
  };
}

/** Objects and lists are compared with those of the same hash only. Items that would be equal only through an unknown text count as different. */
export function areUnique(items: readonly Json[], check: Check): boolean {
  const scalars = new Set<Json>();
  const others = new Map<number, Json[]>();
  for (const item of items) {
    check.spend(3);
    if (item === UNKNOWN_TEXT) {
      check.guess();
      continue;
    }
    if (isScalar(item)) {
      if (typeof item === "string") check.spend(item.length >> 6);
      if (scalars.has(item)) return false;
      scalars.add(item);
      continue;
    }
    const hash = hashOf(item, check);
    const alike = others.get(hash);
    const { guesses } = check;
    if (alike?.some((other) => areEqual(other, item, check)) && check.guesses === guesses) return false;
    if (alike) alike.push(item);
    else others.set(hash, [item]);
  }
  return true;
}

/** Equal values have equal hashes. The order of members does not matter, so theirs are added. */
function hashOf(value: Json, check: Check): number {
  check.spend(1);
  if (typeof value === "string") return textHash(value, check);
  if (typeof value === "number") return textHash(String(value === 0 ? 0 : value), check) ^ 0x55;
  if (typeof value !== "object" || value === null) return value === null ? 3 : value ? 5 : 7;
  if (!isObject(value)) return value.reduce<number>((sum, item) => Math.imul(sum, 31) ^ hashOf(item, check), 11);
  let sum = 13;
  for (const name of Object.keys(value))
    sum = (sum + Math.imul(textHash(name, check), hashOf(value[name] as Json, check) | 1)) | 0;
  return sum;
}

/** FNV-1a. */
function textHash(text: string, check: Check): number {
  check.spend(1 + (text.length >> 4));
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return hash;
}
