// Arithmetic and order over CEL's three kinds of numbers. JSON numbers are doubles, so kinds mix: an operation with a double is on
// doubles, int with uint is int. Two ints follow CEL (10 / 7 is 1).
import { type CelError, type CelUint, type CelValue, celError, isCelUint } from "@bufbuild/cel";

export type Operator = "_+_" | "_-_" | "_*_" | "_/_" | "_%_";
export type Relation = "_<_" | "_<=_" | "_>_" | "_>=_";

const MAX_INT = 9_223_372_036_854_775_807n;
const MIN_INT = -9_223_372_036_854_775_808n;

export function isNumber(value: unknown): value is number | bigint | CelUint {
  return typeof value === "number" || typeof value === "bigint" || isCelUint(value);
}

function plain(value: unknown): number | bigint | undefined {
  if (typeof value === "number" || typeof value === "bigint") return value;
  return isCelUint(value) ? value.value : undefined;
}

/** Undefined: not two numbers, or two uints, whose overflow rules the library implements. */
export function arithmetic(operator: Operator, left: CelValue, right: CelValue): CelValue | CelError | undefined {
  if (typeof left === "number" && typeof right === "number") return onDoubles(operator, left, right);
  if (isCelUint(left) && isCelUint(right)) return undefined;
  const a = plain(left);
  const b = plain(right);
  if (a === undefined || b === undefined) return undefined;
  if (typeof a === "bigint" && typeof b === "bigint") return onInts(operator, a, b);
  return onDoubles(operator, Number(a), Number(b));
}

function onDoubles(operator: Operator, left: number, right: number): number | CelError {
  switch (operator) {
    case "_+_":
      return left + right;
    case "_-_":
      return left - right;
    case "_*_":
      return left * right;
    case "_/_":
      return left / right;
    case "_%_":
      // CEL has no `%` on doubles. As an extension it follows the ints and does not return NaN.
      return right === 0 ? celError("modulus by zero") : left % right;
  }
}

function onInts(operator: Operator, left: bigint, right: bigint): bigint | CelError {
  switch (operator) {
    case "_+_":
      return int(left + right, operator);
    case "_-_":
      return int(left - right, operator);
    case "_*_":
      return int(left * right, operator);
    case "_/_":
      return right === 0n ? celError("divide by zero") : int(left / right, operator);
    case "_%_":
      return right === 0n ? celError("modulus by zero") : left % right;
  }
}

function int(value: bigint, operator: Operator): bigint | CelError {
  return value >= MIN_INT && value <= MAX_INT ? value : celError(`int overflow during ${operator}`);
}

/** Undefined: not two numbers. The library compares strings. */
export function order(relation: Relation, left: CelValue, right: CelValue): boolean | undefined {
  if (typeof left === "string" && typeof right === "string") return undefined;
  const a = plain(left);
  const b = plain(right);
  if (a === undefined || b === undefined) return undefined;
  return typeof a === typeof b ? holds(relation, a, b) : holds(relation, Number(a), Number(b));
}

function holds(relation: Relation, left: number | bigint, right: number | bigint): boolean {
  switch (relation) {
    case "_<_":
      return left < right;
    case "_<=_":
      return left <= right;
    case "_>_":
      return left > right;
    case "_>=_":
      return left >= right;
  }
}

/** CEL equality across kinds is exact: 2^53 + 1 as an int does not equal the double next to it. */
export function sameNumber(left: CelValue, right: CelValue): boolean {
  // biome-ignore lint/suspicious/noDoubleEquals: `==` is JavaScript's exact comparison of a bigint with a double.
  return plain(left) == plain(right);
}

/** A whole double as an int, for parameters that must be ints (an index, a count). Any other value is unchanged. */
export function whole(value: CelValue): CelValue {
  return typeof value === "number" && Number.isSafeInteger(value) ? BigInt(value) : value;
}
