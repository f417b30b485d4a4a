// Conversions: the library's, with the bounds that it lacks, and those of decimals, optional values and base64.
import { type CelError, type CelResult, type CelValue, celError, isCelList, isCelMap, isCelUint } from "@bufbuild/cel";
import { base64Decode, base64Encode, getTextEncoding } from "@bufbuild/protobuf/wire";
import { timestampOf } from "./calendar.js";
import { Decimal, MAX_DIGITS, ROUNDINGS, type Rounding } from "./decimal.js";
import { spend } from "./fuel.js";
import { decimalOrError, isNumber, toDecimal, whole } from "./numbers.js";
import { Optional } from "./optional.js";
import { makeText, paidSize } from "./prices.js";
import { typeOf } from "./types.js";
import { asDuration, asTimestamp } from "./values.js";

/** Our result of a conversion. Undefined: the library makes it. */
type Conversion = (args: readonly CelValue[]) => CelResult | undefined;

const MAX_INT = (1n << 63n) - 1n;
/** The longest text that a conversion of the library reads: `int()` of a million digits would take seconds. */
const MAX_NUMERAL_CHARS = 128;
const NUMERALS: Readonly<Record<string, RegExp>> = {
  int: /^[+-]?\d+$/,
  uint: /^\+?\d+$/,
  double: /^[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|Infinity|NaN)$/,
};
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

const numeral =
  (name: string): Conversion =>
  ([value = null, ...more]) => {
    if (value instanceof Decimal && more.length === 0) return ofDecimal(name, value);
    if (typeof value !== "string") return undefined;
    spend(40);
    const known = value.length <= MAX_NUMERAL_CHARS && (NUMERALS[name]?.test(value) ?? true);
    return known ? undefined : celError(`invalid argument of ${name}()`);
  };

/** The decimal places are cut, as those of a double are. */
function ofDecimal(name: string, value: Decimal): CelResult | undefined {
  if (name === "double") return Number(value.toString());
  const cut = name === "int" ? value.round(0, "down")?.coefficient : undefined;
  if (cut === undefined) return undefined;
  return cut > MAX_INT || cut < -MAX_INT - 1n ? celError("int overflow during type conversion") : cut;
}

function decimal([value = null, ...more]: readonly CelValue[]): CelResult | undefined {
  if (more.length > 0) return undefined;
  const found = typeof value === "string" ? Decimal.parse(value) : toDecimal(value);
  if (found) return found as unknown as CelValue;
  return typeof value === "string" ? notDecimal() : undefined;
}

function notDecimal(): CelError {
  return celError(`decimal(): the text is no number of at most ${MAX_DIGITS} digits, such as "19.99"`);
}

/** `number.round(places, mode)`, a decimal: by default a whole number, and a half away from zero. Any number, since the sum of an empty list is the int 0. */
function round([value = null, places = 0n, mode = "half_up", ...more]: readonly CelValue[]): CelResult | undefined {
  const count = whole(places);
  if (!isNumber(value) || typeof count !== "bigint" || more.length > 0) return undefined;
  if (typeof mode !== "string" || !ROUNDINGS.has(mode))
    return celError(`round(): a mode is ${[...ROUNDINGS].join(", ")}`);
  if (count > MAX_DIGITS || count < -MAX_DIGITS) return celError(`round(): a decimal has at most ${MAX_DIGITS} digits`);
  const number = toDecimal(value);
  return number ? decimalOrError(number.round(Number(count), mode as Rounding)) : infinite("round");
}

function scale([value = null, ...more]: readonly CelValue[]): CelResult | undefined {
  if (!isNumber(value) || more.length > 0) return undefined;
  const number = toDecimal(value);
  return number ? BigInt(number.scale) : infinite("scale");
}

function infinite(name: string): CelError {
  return celError(`${name}(): the number is not finite`);
}

function text([value = null, ...more]: readonly CelValue[]): CelResult | undefined {
  if (value instanceof Uint8Array) spend(value.length >>> 2);
  return value instanceof Decimal && more.length === 0 ? value.toString() : undefined;
}

function time([value = null, ...more]: readonly CelValue[]): CelResult | undefined {
  const source = whole(value);
  return (typeof source === "string" || typeof source === "bigint") && more.length === 0
    ? timestampOf(source)
    : undefined;
}

function encode([value = null, ...more]: readonly CelValue[]): CelResult | undefined {
  const bytes = typeof value === "string" ? getTextEncoding().encodeUtf8(value) : value;
  if (!(bytes instanceof Uint8Array) || more.length > 0) return undefined;
  spend(10 + bytes.length);
  makeText(bytes.length * 2);
  return base64Encode(bytes);
}

function decode([value = null, ...more]: readonly CelValue[]): CelResult | undefined {
  if (typeof value !== "string" || more.length > 0) return undefined;
  spend(10 + value.length);
  if (!BASE64.test(value)) return celError("base64.decode(): the text is no base64");
  try {
    return base64Decode(value);
  } catch {
    return celError("base64.decode(): the text is no base64");
  }
}

/** Null, false, zero, empty or none. */
function isZero(value: CelValue): boolean {
  if (value === null || value === false || value === "" || value === 0 || value === 0n) return true;
  if (value instanceof Uint8Array) return value.length === 0;
  if (value instanceof Decimal) return value.sign === 0;
  if (value instanceof Optional) return value.value === undefined;
  if (isCelUint(value)) return value.value === 0n;
  if (isCelList(value)) return value.size === 0;
  if (isCelMap(value)) return paidSize(value) === 0;
  const span = asDuration(value) ?? asTimestamp(value);
  return span !== undefined && span.seconds === 0n && span.nanos === 0;
}

const onOptional =
  (work: (optional: Optional) => CelResult): Conversion =>
  ([value = null, ...more]) =>
    value instanceof Optional && more.length === 0 ? work(value) : undefined;

const onOne =
  (work: (value: CelValue) => CelResult): Conversion =>
  (args) =>
    args.length === 1 ? work(args[0] as CelValue) : undefined;

export const CONVERSIONS: Readonly<Record<string, Conversion>> = {
  int: numeral("int"),
  uint: numeral("uint"),
  double: numeral("double"),
  duration: numeral("duration"),
  string: text,
  timestamp: time,
  type: onOne(typeOf),
  dyn: onOne((value) => value),
  decimal,
  round,
  scale,
  "base64.encode": encode,
  "base64.decode": decode,
  "optional.of": onOne(Optional.of),
  "optional.none": (args) => (args.length === 0 ? Optional.none : undefined),
  "optional.ofNonZeroValue": onOne((value) => (isZero(value) ? Optional.none : Optional.of(value))),
  hasValue: onOptional(({ value }) => value !== undefined),
  value: onOptional(({ value }) => (value === undefined ? celError("value(): the optional value is none") : value)),
};
