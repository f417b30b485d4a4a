// Whether a number is a multiple of another, as decimals: the shortest text of a double is what a person wrote. 19.99 is 1,999 times 0.01,
// although no double is exactly one or the other.

/** A number of decimal digits: `digits` times ten to the power of `exponent`. */
interface Written {
  readonly digits: bigint;
  readonly exponent: number;
}

const SHORTEST = /^-?(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/;
/** Below this, a whole number over a power of ten is the shortest text of its double: fifteen digits are never two doubles' at once. */
const FIFTEEN_DIGITS = 1e15;
/** The largest power of ten that is a double. */
const MAX_POWER = 22;
/** Units of a check for BigInts that are as long as the exponents are far apart: 0.4 µs and more (measured). */
const ON_BIGINTS = 20;

/** The digits and the exponent of a number, without its sign. */
function writtenOf(number: number): Written {
  const [, whole = "0", fraction = "", exponent = "0"] = SHORTEST.exec(String(number)) ?? [];
  return { digits: BigInt(whole + fraction), exponent: Number(exponent) - fraction.length };
}

/** The test for multiples of a positive number. */
export function multiplesOf(divisor: number): (value: number, spend: (units: number) => void) => boolean {
  const { digits, exponent } = writtenOf(divisor);
  const scale = 10 ** Math.max(0, -exponent);
  const step = Number(digits * 10n ** BigInt(Math.min(MAX_POWER, Math.max(0, exponent))));
  const isPlain = Math.abs(exponent) <= MAX_POWER && Number.isSafeInteger(step);
  return (value, spend) => {
    const scaled = Math.round(value * scale);
    if (isPlain && Math.abs(scaled) < FIFTEEN_DIGITS) return scaled / scale === value && scaled % step === 0;
    const dividend = writtenOf(value);
    const shift = dividend.exponent - exponent;
    spend(ON_BIGINTS + (Math.abs(shift) >> 1));
    if (shift >= 0) return (dividend.digits * 10n ** BigInt(shift)) % digits === 0n;
    return dividend.digits % (digits * 10n ** BigInt(-shift)) === 0n;
  };
}
