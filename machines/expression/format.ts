// `format`: a text with clauses such as `%s` and `%.2f`, and the text of any value. Each part is paid for before it is written.
import {
  type CelError,
  type CelList,
  type CelMap,
  type CelValue,
  celError,
  isCelError,
  isCelList,
  isCelMap,
  isCelType,
  isCelUint,
} from "@bufbuild/cel";
import { toJson } from "@bufbuild/protobuf";
import { getTextEncoding } from "@bufbuild/protobuf/wire";
import { DurationSchema, TimestampSchema } from "@bufbuild/protobuf/wkt";
import { Decimal } from "./decimal.js";
import { MAX_TEXT_CHARS, spend } from "./fuel.js";
import { toDecimal } from "./numbers.js";
import { Optional } from "./optional.js";
import { compareTexts } from "./order.js";
import { makeText, paySort } from "./prices.js";
import { asDuration, asTimestamp } from "./values.js";

const CLAUSE = /%(?:%|(?:\.(\d*))?([a-zA-Z])|)/y;
const DEFAULT_PRECISION = 6;
const MAX_PRECISION = 100;
/** The price of a part: writing it, and finding its clause. */
const PART = 16;
/** The price of a number that is rounded, and of a time: 2 to 5 µs (measured). */
const COSTLY = 70;
const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** Undefined: the clause writes no values of that type. */
type Writer = (value: CelValue, precision: number | undefined) => string | CelError | undefined;

export function format(text: string, values: CelList): string | CelError {
  spend(text.length >>> 3);
  const parts: string[] = [];
  let [at, used, chars] = [0, 0, 0];
  const add = (part: string) => {
    chars += part.length;
    if (chars > MAX_TEXT_CHARS) makeText(chars);
    parts.push(part);
  };
  for (let start = text.indexOf("%"); start !== -1; start = text.indexOf("%", at)) {
    add(text.slice(at, start));
    CLAUSE.lastIndex = start;
    const [clause = "", precision, letter] = CLAUSE.exec(text) ?? [];
    at = start + clause.length;
    const written = clause === "%%" ? "%" : writtenAs(letter, precision, values, used++);
    if (isCelError(written)) return written;
    add(written);
  }
  if (used < values.size) return fail("there are more values than clauses");
  add(text.slice(at));
  makeText(chars);
  return parts.join("");
}

function writtenAs(letter: string | undefined, precision: string | undefined, values: CelList, index: number) {
  spend(PART);
  const value = values.get(index);
  const write = letter === undefined || !Object.hasOwn(WRITERS, letter) ? undefined : WRITERS[letter];
  if (!letter || !write) return fail("a clause is unknown; write %% for a percent sign");
  if (value === undefined) return fail("there are fewer values than clauses");
  if (Number(precision ?? 0) > MAX_PRECISION) return fail(`a precision is at most ${MAX_PRECISION}`);
  return (
    write(value, precision === undefined ? undefined : Number(precision)) ?? fail(`%${letter} takes ${TAKES[letter]}`)
  );
}

function fail(message: string): CelError {
  return celError(`format(): ${message}`);
}

const TAKES: Readonly<Record<string, string>> = {
  b: "a whole number or a bool",
  d: "a whole number",
  e: "a number",
  f: "a number",
  o: "a whole number",
  s: "a value that has a text",
  x: "a whole number, a text or bytes",
  X: "a whole number, a text or bytes",
};

const WRITERS: Readonly<Record<string, Writer>> = {
  s: (value) => textOf(value),
  d: (value) => wholeOf(value)?.toString() ?? unending(value),
  b: (value) => (typeof value === "boolean" ? String(Number(value)) : wholeOf(value)?.toString(2)),
  o: (value) => wholeOf(value)?.toString(8),
  x: hexadecimal,
  X: (value) => hexadecimal(value)?.toUpperCase(),
  f: (value, precision = DEFAULT_PRECISION) => {
    spend(COSTLY);
    return toDecimal(value)?.round(precision, "half_even")?.toString() ?? unending(value);
  },
  e: (value, precision = DEFAULT_PRECISION) => {
    spend(COSTLY);
    const number = toDecimal(value);
    if (!number) return unending(value);
    const text = typeof value === "number" ? value.toExponential(precision) : exponential(number, precision);
    return text.replace(/(?<=e[+-])(\d)$/, "0$1");
  },
};

/** The text that `toExponential` gives for a double, with all digits of a decimal. A half goes to the even digit. */
function exponential(number: Decimal, precision: number): string {
  const exponentOf = ({ coefficient, scale, sign }: Decimal) =>
    sign === 0 ? 0 : String(coefficient).replace("-", "").length - 1 - scale;
  const rounded = number.round(precision - exponentOf(number), "half_even") ?? number;
  const exponent = exponentOf(rounded);
  const digits = String(rounded.coefficient)
    .replace("-", "")
    .padEnd(precision + 1, "0")
    .slice(0, precision + 1);
  const [first, rest] = [digits.slice(0, 1), digits.slice(1)];
  return `${number.sign < 0 ? "-" : ""}${first}${rest && `.${rest}`}e${exponent < 0 ? "-" : "+"}${Math.abs(exponent)}`;
}

/** The int of an int, a uint, and a whole double or decimal. */
function wholeOf(value: CelValue): bigint | undefined {
  if (typeof value === "bigint") return value;
  if (isCelUint(value)) return value.value;
  if (typeof value === "number") {
    if (!Number.isSafeInteger(value)) spend(COSTLY * 3);
    return Number.isInteger(value) ? BigInt(value) : undefined;
  }
  return value instanceof Decimal ? value.whole : undefined;
}

/** Infinity and NaN, also as texts, which is how the specification writes them. */
function unending(value: CelValue): string | undefined {
  const text = typeof value === "number" || typeof value === "string" ? String(value) : "";
  return /^(-?Infinity|NaN)$/.test(text) ? text : undefined;
}

function hexadecimal(value: CelValue): string | undefined {
  const whole = wholeOf(value);
  if (whole !== undefined) return whole.toString(16);
  const bytes = typeof value === "string" ? getTextEncoding().encodeUtf8(value) : value;
  if (!(bytes instanceof Uint8Array)) return undefined;
  spend(bytes.length * 2);
  makeText(bytes.length * 2);
  return Array.from(bytes, (byte) => HEX[byte]).join("");
}

/** The text of a value. Undefined: it has none. */
function textOf(value: CelValue): string | undefined {
  spend(PART);
  switch (typeof value) {
    case "string":
      makeText(value.length);
      return value;
    case "boolean":
    case "bigint":
    case "number":
      return String(value);
  }
  if (value === null) return "null";
  if (value instanceof Decimal) return value.toString();
  if (value instanceof Optional) return undefined;
  if (isCelUint(value)) return String(value.value);
  if (isCelList(value)) return textOfList(value);
  if (isCelMap(value)) return textOfMap(value);
  if (isCelType(value)) return value.name;
  if (value instanceof Uint8Array) {
    makeText(value.length);
    return getTextEncoding().decodeUtf8(value);
  }
  spend(COSTLY);
  const [time, span] = [asTimestamp(value), asDuration(value)];
  return time ? toJson(TimestampSchema, time) : span && toJson(DurationSchema, span);
}

function textOfList(list: CelList): string | undefined {
  const parts: (string | undefined)[] = [];
  for (let index = 0, { size } = list; index < size; index++) parts.push(textOf(list.get(index) as CelValue));
  return between("[", parts, "]");
}

/** Members in the order of their keys. */
function textOfMap(map: CelMap): string | undefined {
  const members: { readonly name: string; readonly text: string }[] = [];
  for (const key of map.keys()) {
    const name = textOf(key);
    const text = textOf(map.get(key) as CelValue);
    if (name === undefined || text === undefined) return undefined;
    members.push({ name, text });
  }
  paySort(members.length);
  members.sort((left, right) => compareTexts(left.name, right.name));
  return between(
    "{",
    members.map(({ name, text }) => `${name}: ${text}`),
    "}",
  );
}

function between(open: string, parts: readonly (string | undefined)[], close: string): string | undefined {
  let chars = 2;
  for (const part of parts) {
    if (part === undefined) return undefined;
    chars += part.length + 2;
  }
  makeText(chars);
  return open + parts.join(", ") + close;
}
