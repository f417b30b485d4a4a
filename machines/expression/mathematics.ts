// The functions of the namespace `math`, as cel-go's extension has them, for decimals too.
import { type CelError, type CelResult, type CelValue, celError, celUint, isCelList, isCelUint } from "@bufbuild/cel";
import { Decimal, type Rounding } from "./decimal.js";
import { spend } from "./fuel.js";
import { decimalOrError, isNumber, whole } from "./numbers.js";
import { compare } from "./order.js";

/** Undefined: it takes no such values. */
type MathFunction = (...values: CelValue[]) => CelResult | undefined;

const BITS = 64n;
const MIN_INT = -(1n << 63n);

/** Rounds to a whole number of the same type. Ints are whole, and CEL has these for doubles only. */
const rounded =
  (mode: Rounding, onDoubles: (value: number) => number): MathFunction =>
  (value = null, ...more) => {
    if (more.length > 0) return undefined;
    if (typeof value === "number") return onDoubles(value);
    return value instanceof Decimal ? decimalOrError(value.round(0, mode)) : undefined;
  };

const testing =
  (test: (value: number) => boolean): MathFunction =>
  (value = null, ...more) => {
    if (more.length > 0 || !isNumber(value)) return undefined;
    return test(typeof value === "number" ? value : 0);
  };

const bitwise =
  (work: (left: bigint, right: bigint) => bigint): MathFunction =>
  (left = null, right = null, ...more) => {
    if (more.length > 0) return undefined;
    if (isCelUint(left) && isCelUint(right)) return celUint(BigInt.asUintN(64, work(left.value, right.value)));
    const [a, b] = [whole(left), whole(right)];
    return typeof a === "bigint" && typeof b === "bigint" ? BigInt.asIntN(64, work(a, b)) : undefined;
  };

const shifting =
  (name: string, work: (bits: bigint, by: bigint) => bigint): MathFunction =>
  (value = null, count = null, ...more) => {
    const by = whole(isCelUint(count) ? count.value : count);
    const bits = isCelUint(value) ? value.value : whole(value);
    if (more.length > 0 || typeof by !== "bigint" || typeof bits !== "bigint") return undefined;
    if (by < 0n) return celError(`${name}(): a shift is not negative`);
    const shifted = by >= BITS ? 0n : work(BigInt.asUintN(64, bits), by);
    return isCelUint(value) ? celUint(BigInt.asUintN(64, shifted)) : BigInt.asIntN(64, shifted);
  };

/** The greatest or least of the arguments, or of one list. The first of equal ones. */
const extreme =
  (name: string, wanted: 1 | -1): MathFunction =>
  (...values) => {
    const [only] = values;
    const items = values.length === 1 && isCelList(only) ? only : values;
    return extremeOf(name, items, wanted, isNumber);
  };

/** `accepts`: what may be compared. Undefined: another value is among them. */
export function extremeOf(
  name: string,
  items: Iterable<CelValue>,
  wanted: 1 | -1,
  accepts: (value: CelValue) => boolean,
): CelResult | undefined {
  let found: CelValue | undefined;
  for (const item of items) {
    spend(2);
    if (!accepts(item)) return undefined;
    const compared = compare(item, found ?? item);
    if (compared === undefined)
      return celError(`${name}(): the values ${found === undefined ? "have no order" : "are of different types"}`);
    if (found === undefined || Math.sign(compared) === wanted) found = item;
  }
  return found === undefined ? celError(`${name}(): there is no value`) : found;
}

const absolute: MathFunction = (value = null, ...more) => {
  if (more.length > 0) return undefined;
  if (typeof value === "number") return Math.abs(value);
  if (value instanceof Decimal) return (value.sign < 0 ? value.negated() : value) as unknown as CelValue;
  if (typeof value !== "bigint") return isCelUint(value) ? value : undefined;
  return value === MIN_INT ? overflow() : value < 0n ? -value : value;
};

function overflow(): CelError {
  return celError("int overflow during math.abs");
}

const sign: MathFunction = (value = null, ...more) => {
  if (more.length > 0) return undefined;
  if (typeof value === "number") return Math.sign(value);
  if (value instanceof Decimal) return decimalOrError(Decimal.of(BigInt(value.sign)));
  if (isCelUint(value)) return celUint(value.value === 0n ? 0n : 1n);
  return typeof value === "bigint" ? (value === 0n ? 0n : value < 0n ? -1n : 1n) : undefined;
};

const squareRoot: MathFunction = (value = null, ...more) => {
  if (more.length > 0) return undefined;
  if (value instanceof Decimal) return Math.sqrt(Number(value.toString()));
  return isNumber(value) ? Math.sqrt(Number(isCelUint(value) ? value.value : value)) : undefined;
};

const bitNot: MathFunction = (value = null, ...more) => {
  if (more.length > 0) return undefined;
  if (isCelUint(value)) return celUint(BigInt.asUintN(64, ~value.value));
  const bits = whole(value);
  return typeof bits === "bigint" ? ~bits : undefined;
};

export const MATH_FUNCTIONS: Readonly<Record<string, MathFunction>> = {
  "math.greatest": extreme("math.greatest", 1),
  "math.least": extreme("math.least", -1),
  "math.ceil": rounded("ceiling", Math.ceil),
  "math.floor": rounded("floor", Math.floor),
  // A half is rounded away from zero; JavaScript rounds it up.
  "math.round": rounded("half_up", (value) => Math.sign(value) * roundedSize(Math.abs(value))),
  "math.trunc": rounded("down", Math.trunc),
  "math.abs": absolute,
  "math.sign": sign,
  "math.sqrt": squareRoot,
  "math.isNaN": testing(Number.isNaN),
  "math.isInf": testing((value) => Math.abs(value) === Number.POSITIVE_INFINITY),
  "math.isFinite": testing(Number.isFinite),
  "math.bitAnd": bitwise((left, right) => left & right),
  "math.bitOr": bitwise((left, right) => left | right),
  "math.bitXor": bitwise((left, right) => left ^ right),
  "math.bitNot": bitNot,
  "math.bitShiftLeft": shifting("math.bitShiftLeft", (bits, by) => bits << by),
  "math.bitShiftRight": shifting("math.bitShiftRight", (bits, by) => bits >> by),
};

/** `Math.round` adds a half, which is wrong for the double just below a half. */
function roundedSize(size: number): number {
  const floor = Math.floor(size);
  return size - floor >= 0.5 ? floor + 1 : floor;
}
