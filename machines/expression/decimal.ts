// Exact decimal numbers: a coefficient and the number of its decimal places, on BigInt. A sum, difference or product is exact;
// a quotient has at least 34 digits, as IEEE's decimal128 and FEEL have. A result keeps the decimal places, so that 1.50 stays 1.50.
import { spend } from "./fuel.js";

/** Before and behind the point together. A product of so many digits takes 2 µs, their text 10 µs (measured). */
export const MAX_DIGITS = 1_000;
/** The digits of a quotient that does not end. */
const QUOTIENT_DIGITS = 34;
const NUMERAL = /^([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:[eE]([+-]?\d{1,4}))?$/;
const SMALL = 1n << 64n;
const DIGITS_OF_A_HEX = Math.log10(16);

const powers: bigint[] = [1n];

function tenTo(power: number): bigint {
  for (let next = powers.length; next <= power; next++) powers.push((powers[next - 1] as bigint) * 10n);
  return powers[power] as bigint;
}

export type Rounding = "half_up" | "half_even" | "half_down" | "up" | "down" | "ceiling" | "floor";

export const ROUNDINGS: ReadonlySet<string> = new Set<Rounding>([
  "half_up",
  "half_even",
  "half_down",
  "up",
  "down",
  "ceiling",
  "floor",
]);

export class Decimal {
  /** `scale`: the number of decimal places. */
  private constructor(
    readonly coefficient: bigint,
    readonly scale: number,
  ) {}

  /** Undefined: it has more digits than a decimal may have. */
  static of(coefficient: bigint, scale = 0): Decimal | undefined {
    pay(coefficient);
    if (scale < 0) return scale < -MAX_DIGITS ? undefined : Decimal.of(coefficient * tenTo(-scale));
    const size = coefficient < 0n ? -coefficient : coefficient;
    return scale > MAX_DIGITS || size >= tenTo(MAX_DIGITS) ? undefined : new Decimal(coefficient, scale);
  }

  /** Undefined: the text is no number, or has too many digits. */
  static parse(text: string): Decimal | undefined {
    if (text.length > MAX_DIGITS + 10) return undefined;
    const [, sign = "", digits = "", exponent = "0"] = NUMERAL.exec(text) ?? [];
    if (digits === "") return undefined;
    spend(20 + (digits.length >>> 2));
    const point = digits.indexOf(".");
    const scale = (point === -1 ? 0 : digits.length - point - 1) - Number(exponent);
    const coefficient = BigInt(digits.replace(".", ""));
    return Decimal.of(sign === "-" ? -coefficient : coefficient, scale);
  }

  /**
   * The shortest text of a fraction, as JSON writes it: 19.99 is 19.99. A whole double is the int that it equals, also beyond 2^53, where its
   * text has other digits. Undefined: it is not finite.
   */
  static ofDouble(value: number): Decimal | undefined {
    if (!Number.isFinite(value)) return undefined;
    if (Number.isInteger(value)) return Decimal.of(BigInt(value));
    const text = String(value);
    if (text.includes("e")) return Decimal.parse(text);
    spend(10);
    const point = text.indexOf(".");
    return Decimal.of(BigInt(text.slice(0, point) + text.slice(point + 1)), text.length - point - 1);
  }

  get sign(): -1 | 0 | 1 {
    return this.coefficient === 0n ? 0 : this.coefficient < 0n ? -1 : 1;
  }

  /** Undefined: it has a fraction. */
  get whole(): bigint | undefined {
    const divisor = tenTo(this.scale);
    return this.coefficient % divisor === 0n ? this.coefficient / divisor : undefined;
  }

  plus(other: Decimal): Decimal | undefined {
    const scale = Math.max(this.scale, other.scale);
    return Decimal.of(this.at(scale) + other.at(scale), scale);
  }

  negated(): Decimal {
    return new Decimal(-this.coefficient, this.scale);
  }

  minus(other: Decimal): Decimal | undefined {
    return this.plus(other.negated());
  }

  times(other: Decimal): Decimal | undefined {
    pay(this.coefficient);
    return Decimal.of(this.coefficient * other.coefficient, this.scale + other.scale);
  }

  /** Exact if its digits end soon enough, otherwise the nearest with 34 digits, or as many as the dividend has. */
  over(divisor: Decimal): Decimal | undefined {
    const wanted = Math.max(QUOTIENT_DIGITS, digitsOf(this.coefficient));
    const shift = Math.max(0, wanted + 1 + digitsOf(divisor.coefficient) - digitsOf(this.coefficient));
    spend(10 + (shift >>> 2));
    pay(this.coefficient);
    const dividend = this.coefficient * tenTo(shift);
    const rest = dividend % divisor.coefficient;
    // A sticky digit: a remainder makes a half more than a half.
    const sticky = rest === 0n ? 0n : rest < 0n === divisor.coefficient < 0n ? 1n : -1n;
    const quotient = (dividend / divisor.coefficient) * 10n + sticky;
    const excess = Math.max(0, digitsOf(quotient) - wanted);
    const scale = this.scale - divisor.scale + shift + 1 - excess;
    return stripped(divided(quotient, tenTo(excess), "half_even"), scale, Math.max(0, this.scale - divisor.scale));
  }

  /** The remainder of a division with a whole quotient. It has the sign of the dividend. */
  modulo(divisor: Decimal): Decimal | undefined {
    const scale = Math.max(this.scale, divisor.scale);
    return Decimal.of(this.at(scale) % divisor.at(scale), scale);
  }

  /** Rounds to exactly so many decimal places; a negative number rounds to tens, hundreds and so on. */
  round(digits: number, mode: Rounding): Decimal | undefined {
    if (digits >= this.scale) return Decimal.of(this.at(digits), digits);
    pay(this.coefficient);
    const drop = this.scale - digits;
    return Decimal.of(divided(this.coefficient, tenTo(drop), mode), digits);
  }

  compare(other: Decimal): -1 | 0 | 1 {
    const scale = Math.max(this.scale, other.scale);
    const [left, right] = [this.at(scale), other.at(scale)];
    return left < right ? -1 : left > right ? 1 : 0;
  }

  /** All its digits, without an exponent. */
  toString(): string {
    spend(2 + Math.max(digitsOf(this.coefficient), this.scale));
    const negative = this.coefficient < 0n;
    const digits = (negative ? -this.coefficient : this.coefficient).toString().padStart(this.scale + 1, "0");
    const point = digits.length - this.scale;
    const text = this.scale === 0 ? digits : `${digits.slice(0, point)}.${digits.slice(point)}`;
    return negative ? `-${text}` : text;
  }

  /** The same text for equal numbers. */
  key(): string {
    const text = this.toString();
    let end = text.length;
    if (this.scale > 0) while (text[end - 1] === "0") end--;
    return text.slice(0, text[end - 1] === "." ? end - 1 : end);
  }

  private at(scale: number): bigint {
    pay(this.coefficient);
    return scale === this.scale ? this.coefficient : this.coefficient * tenTo(scale - this.scale);
  }
}

/** A unit for about three digits of a large number. */
function pay(coefficient: bigint): void {
  if (coefficient < SMALL && coefficient > -SMALL) spend(2);
  else spend(4 + (digitsOf(coefficient) >>> 3));
}

function digitsOf(coefficient: bigint): number {
  const size = coefficient < 0n ? -coefficient : coefficient;
  if (size < SMALL) return size.toString().length;
  // A hexadecimal text takes time in proportion to its length, a decimal one to its square.
  let digits = Math.ceil(size.toString(16).length * DIGITS_OF_A_HEX);
  while (size < tenTo(digits - 1)) digits--;
  return digits;
}

function divided(dividend: bigint, divisor: bigint, mode: Rounding): bigint {
  const quotient = dividend / divisor;
  const rest = dividend - quotient * divisor;
  if (rest === 0n) return quotient;
  const negative = rest < 0n;
  const twice = (negative ? -rest : rest) * 2n;
  return away(mode, negative, twice === divisor ? 0 : twice > divisor ? 1 : -1, quotient)
    ? quotient + (negative ? -1n : 1n)
    : quotient;
}

/** Whether to go away from zero. `half`: the rest compared with a half. */
function away(mode: Rounding, negative: boolean, half: -1 | 0 | 1, quotient: bigint): boolean {
  switch (mode) {
    case "up":
      return true;
    case "down":
      return false;
    case "ceiling":
      return !negative;
    case "floor":
      return negative;
    case "half_up":
      return half >= 0;
    case "half_down":
      return half > 0;
    case "half_even":
      return half > 0 || (half === 0 && quotient % 2n !== 0n);
  }
}

/** The number without the zeros at its end, but for the digits that the operands suggest. */
function stripped(coefficient: bigint, scale: number, wanted: number): Decimal | undefined {
  let [left, right] = [coefficient, scale];
  while (right > wanted && left % 10n === 0n) {
    left /= 10n;
    right--;
  }
  return Decimal.of(left, right);
}
