// Members of lists, maps, optional values and messages: `a.b`, `a[b]`, `a.?b`, `a[?b]` and `has(a.b)`.
import {
  type CelError,
  type CelResult,
  type CelValue,
  celError,
  isCelError,
  isCelList,
  isCelMap,
  isCelUint,
} from "@bufbuild/cel";
import { isReflectMessage } from "@bufbuild/protobuf/reflect";
import { Decimal } from "./decimal.js";
import { fieldOf } from "./messages.js";
import { whole } from "./numbers.js";
import { Optional } from "./optional.js";
import { refuseEncrypted } from "./secrets.js";

export function member(value: CelValue, name: string): CelResult {
  const found = read(value, name);
  return found === undefined ? missing(name) : found;
}

export function indexed(value: CelValue, key: CelValue): CelResult {
  const found = read(value, key);
  if (found !== undefined) return found;
  return isCelList(value) ? celError("index out of bounds") : missing(key);
}

export function optionalMember(value: CelValue, name: CelValue): CelResult {
  if (value instanceof Optional) return throughOptional(value, name);
  const found = isReflectMessage(value) && fieldOf(value, String(name), true) !== true ? undefined : read(value, name);
  if (found === undefined && !holdsMembers(value)) return missing(name);
  return isCelError(found) ? found : Optional.of(found);
}

export function isPresent(value: CelValue, name: string): CelResult {
  if (value instanceof Optional) return value.value !== undefined && isPresent(value.value, name);
  if (isCelMap(value)) return value.get(name) !== undefined;
  if (isReflectMessage(value)) return fieldOf(value, name, true);
  refuseEncrypted([value]);
  return false;
}

/** Undefined: there is no such member. A whole decimal is the key that it equals. */
function read(value: CelValue, given: CelValue): CelResult | undefined {
  const key = given instanceof Decimal ? whole(given) : given;
  if (isCelMap(value)) return isKey(key) ? value.get(key) : celError("unsupported key type");
  if (isCelList(value)) {
    const index = indexOf(key);
    return index === undefined ? celError(keyed(key)) : value.get(index);
  }
  if (value instanceof Optional) return throughOptional(value, key);
  if (isReflectMessage(value) && typeof key === "string") return fieldOf(value, key);
  refuseEncrypted([value]);
  return isKey(key) ? undefined : celError("unsupported key type");
}

/** A missing member of a value that may have members is none; a member of a number or a text is an error. */
function throughOptional({ value }: Optional, key: CelValue): CelResult {
  if (value === undefined) return Optional.none;
  if (value instanceof Optional || !holdsMembers(value)) return missing(key);
  return optionalMember(value, key);
}

function holdsMembers(value: CelValue): boolean {
  return isCelMap(value) || isCelList(value) || isReflectMessage(value);
}

function missing(key: CelValue): CelError {
  return celError(`field not found: ${typeof key === "string" ? key : ""}`);
}

function keyed(key: CelValue): string {
  return typeof key === "string"
    ? `field not found: ${key}`
    : isKey(key)
      ? "index out of bounds"
      : "unsupported key type";
}

function isKey(key: CelValue): key is string | boolean | number | bigint {
  return (typeof key !== "object" && typeof key !== "undefined") || isCelUint(key);
}

/** Undefined: it is no whole number. A number outside of every list stays outside. */
function indexOf(key: CelValue): number | undefined {
  const index = typeof key === "bigint" ? Number(key) : isCelUint(key) ? Number(key.value) : key;
  return typeof index === "number" && Number.isInteger(index) ? index : undefined;
}
