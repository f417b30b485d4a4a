// Arithmetic and order over CEL's three kinds of numbers and decimals. JSON numbers are doubles, so kinds mix: an operation with a
// decimal is on decimals, one with a double on doubles, int with uint is int. Two ints follow CEL (10 / 7 is 1).
import { type CelError, type CelUint, type CelValue, celError, isCelUint } from "@bufbuild/cel";
import { Decimal, MAX_DIGITS } from "./decimal.js";

export type Operator = "_+_" | "_-_" | "_*_" | "_/_" | "_%_";

const MAX_INT = 9_223_372_036_854_775_807n;
const MIN_INT = -9_223_372_036_854_775_808n;

export function isNumber(value: unknown): value is number | bigint | CelUint {
  return typeof value === "number" || typeof value === "bigint" || isCelUint(value) || isDecimal(value);
}

function isDecimal(value: unknown): boolean {
  return value instanceof Decimal;
}

function plain(value: unknown): number | bigint | undefined {
  if (typeof value === "number" || typeof value === "bigint") return value;
  return isCelUint(value) ? value.value : undefined;
}

/** Undefined: not two numbers, or two uints, whose overflow rules the library implements. */
export function arithmetic(operator: Operator, left: CelValue, right: CelValue): CelValue | CelError | undefined {
  if (typeof left === "number" && typeof right === "number") return onDoubles(operator, left, right);
  if (isCelUint(left) && isCelUint(right)) return undefined;
  if (left instanceof Decimal || right instanceof Decimal) return onDecimals(operator, left, right);
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

/** Undefined: it is no number, or not finite. */
export function toDecimal(value: CelValue): Decimal | undefined {
  if (value instanceof Decimal) return value;
  if (typeof value === "bigint") return Decimal.of(value);
  if (typeof value === "number") return Decimal.ofDouble(value);
  return isCelUint(value) ? Decimal.of(value.value) : undefined;
}

/** The value of a result, or the error that it has too many digits. */
export function decimalOrError(result: Decimal | undefined): CelValue | CelError {
  return (result as unknown as CelValue) ?? celError(`decimal(): a decimal has at most ${MAX_DIGITS} digits`);
}

function onDecimals(operator: Operator, left: CelValue, right: CelValue): CelValue | CelError | undefined {
  const [a, b] = [toDecimal(left), toDecimal(right)];
  if (!a || !b) return undefined;
  switch (operator) {
    case "_+_":
      return decimalOrError(a.plus(b));
    case "_-_":
      return decimalOrError(a.minus(b));
    case "_*_":
      return decimalOrError(a.times(b));
    case "_/_":
      return b.sign === 0 ? celError("decimal divide by zero") : decimalOrError(a.over(b));
    case "_%_":
      return b.sign === 0 ? celError("decimal modulus by zero") : decimalOrError(a.modulo(b));
  }
}

/** Less than, equal to or more than zero as `left` is to `right`; NaN if they have no order. Undefined: not two numbers. */
export function compareNumbers(left: CelValue, right: CelValue): number | undefined {
  if (typeof left === "number" && typeof right === "number") return difference(left, right);
  if (left instanceof Decimal || right instanceof Decimal) {
    const [a, b] = [toDecimal(left), toDecimal(right)];
    if (a && b) return a.compare(b);
    return typeof left === "number" || typeof right === "number" ? infinite(left, right) : undefined;
  }
  const a = plain(left);
  const b = plain(right);
  if (a === undefined || b === undefined) return undefined;
  return typeof a !== typeof b && (isLimit(a) || isLimit(b)) ? difference(Number(a), Number(b)) : difference(a, b);
}

/** The suite of CEL has the greatest int and the double 2^63 as one in order, although they are not equal. */
const isLimit = (value: number | bigint) => typeof value === "number" && Math.abs(value) === 2 ** 63;

/** JavaScript compares a bigint with a double exactly. */
function difference(left: number | bigint, right: number | bigint): number {
  if (left < right) return -1;
  // biome-ignore lint/suspicious/noDoubleEquals: it is exact for a bigint and a double.
  return left > right ? 1 : left == right ? 0 : Number.NaN;
}

/** A decimal compared with a double that is not finite. */
function infinite(left: CelValue, right: CelValue): number | undefined {
  const [a, b] = [left, right].map((side) => (side instanceof Decimal ? 0 : side));
  return typeof a === "number" && typeof b === "number" ? difference(a, b) : undefined;
}

/** CEL equality across kinds is exact: 2^53 + 1 as an int does not equal the double next to it. */
export function sameNumber(left: CelValue, right: CelValue): boolean {
  if (left instanceof Decimal || right instanceof Decimal) return compareNumbers(left, right) === 0;
  // biome-ignore lint/suspicious/noDoubleEquals: `==` is JavaScript's exact comparison of a bigint with a double.
  return plain(left) == plain(right);
}

/** A whole double or decimal as an int, for parameters that must be ints (an index, a count). Any other value is unchanged. */
export function whole(value: CelValue): CelValue {
  if (value instanceof Decimal) return value.whole ?? (value as unknown as CelValue);
  return typeof value === "number" && Number.isSafeInteger(value) ? BigInt(value) : value;
}
