// Instants and durations as text: RFC 3339 and ISO 8601 to and from epoch milliseconds.

const DAY_S = 86_400;
const DAY_MS = 1000 * DAY_S;

/** Ten years. A longer wait, timeout or backoff is refused as a mistake, and might end outside the calendar. */
export const LONGEST_WAIT_MS = 10 * 366 * DAY_MS;

/** RFC 3339, section 5.6. The ranges of the numbers are checked below. */
const RFC_3339 = /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))$/;
/** Years and months only as zeros, with which some libraries write every duration. */
const ISO_8601_DURATION = (() => {
  const part = (unit: string) => `(?:(\\d+)(?:[.,](\\d+))?${unit})?`;
  const day = `(?:0+Y)?(?:0+M)?${part("W")}${part("D")}`;
  return new RegExp(`^P(?=.)${day}(?:T(?=.)${part("H")}${part("M")}${part("S")})?$`);
})();
/** No duration up to ten years needs more. A number of a million digits would take minutes to read. */
const MAX_DURATION_CHARS = 200;
const UNITS_MS = [7 * DAY_MS, DAY_MS, 3_600_000, 60_000, 1000];

/** 0000-01-01T00:00:00.000Z and 9999-12-31T23:59:59.999Z: the years of four digits. */
const FIRST_MS = -62_167_219_200_000;
const LAST_MS = 253_402_300_799_999;
/** The first and the last second of CEL's timestamps, of the years 1 and 9999. Postgres, too, has no year 0. */
export const YEAR_1_S = -62_135_596_800;
export const YEAR_9999_END_S = 253_402_300_799;

export interface CivilDate {
  readonly year: number;
  /** 1 to 12. */
  readonly month: number;
  /** 1 to 31. */
  readonly day: number;
}

/** Days from 1970-01-01 to a date of the proleptic Gregorian calendar (Howard Hinnant's `days_from_civil`). */
export function daysFromCivil({ year, month, day }: CivilDate): number {
  const shifted = month <= 2 ? year - 1 : year;
  const era = Math.floor(shifted / 400);
  const yearOfEra = shifted - era * 400;
  const dayOfYear = Math.floor((153 * (month + (month > 2 ? -3 : 9)) + 2) / 5) + day - 1;
  const dayOfEra = yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100) + dayOfYear;
  return era * 146_097 + dayOfEra - 719_468;
}

/** The inverse of `daysFromCivil`. */
export function civilFromDays(days: number): CivilDate {
  const shifted = days + 719_468;
  const era = Math.floor(shifted / 146_097);
  const dayOfEra = shifted - era * 146_097;
  const yearOfEra = Math.floor(
    (dayOfEra - Math.floor(dayOfEra / 1460) + Math.floor(dayOfEra / 36_524) - Math.floor(dayOfEra / 146_096)) / 365,
  );
  const dayOfYear = dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const shiftedMonth = Math.floor((5 * dayOfYear + 2) / 153);
  const month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9;
  const day = dayOfYear - Math.floor((153 * shiftedMonth + 2) / 5) + 1;
  return { year: yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day };
}

/** A point in time in whole seconds since the epoch, and nanoseconds (0 to 999,999,999) after them. */
export interface ReadInstant {
  readonly seconds: number;
  readonly nanos: number;
}

/**
 * RFC 3339 text as a point in time: the only grammar of times. A leap second, which only the last second of a day in UTC can be, is read
 * as the second after it; a fraction that is finer than a nanosecond is cut. With its offset it may be a day outside of the years 0000 to
 * 9999, which `formatInstant` refuses. Undefined if the text is not valid.
 */
export function readInstant(text: string): ReadInstant | undefined {
  const match = RFC_3339.exec(text);
  if (match === null) return undefined;
  const [year, month, day, hour, minute, second] = match.slice(1, 7).map(Number) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const offset = offsetMinutes(match[8], Number(match[9] ?? 0), Number(match[10] ?? 0));
  if (offset === undefined || hour > 23 || minute > 59 || second > 60) return undefined;
  const days = daysFromCivil({ year, month, day });
  const back = civilFromDays(days);
  if (month < 1 || month > 12 || back.month !== month || back.day !== day) return undefined;
  const seconds = days * DAY_S + (hour * 60 + minute - offset) * 60 + second;
  if (second === 60 && seconds % DAY_S !== 0) return undefined;
  return { seconds, nanos: Number((match[7] ?? "").padEnd(9, "0").slice(0, 9)) };
}

/** RFC 3339 text as epoch milliseconds; a finer fraction is cut. Undefined if the text is not valid. */
export function parseInstant(text: string): number | undefined {
  const read = readInstant(text);
  return read && read.seconds * 1000 + Math.floor(read.nanos / 1_000_000);
}

function offsetMinutes(sign: string | undefined, hours: number, minutes: number): number | undefined {
  if (hours > 23 || minutes > 59) return undefined;
  return (sign === "-" ? -1 : 1) * (hours * 60 + minutes);
}

/** Epoch milliseconds as RFC 3339 UTC with milliseconds. Throws RangeError outside the years 0000 to 9999. */
export function formatInstant(ms: number): string {
  if (!(ms >= FIRST_MS && ms <= LAST_MS)) throw new RangeError("an instant must be in the years 0000 to 9999");
  const whole = Math.floor(ms);
  const days = Math.floor(whole / DAY_MS);
  const { year, month, day } = civilFromDays(days);
  const rest = whole - days * DAY_MS;
  const clock = [Math.floor(rest / 3_600_000), Math.floor(rest / 60_000) % 60, Math.floor(rest / 1000) % 60];
  const date = `${digits(year, 4)}-${digits(month, 2)}-${digits(day, 2)}`;
  return `${date}T${clock.map((part) => digits(part, 2)).join(":")}.${digits(rest % 1000, 3)}Z`;
}

function digits(value: number, width: number): string {
  return String(value).padStart(width, "0");
}

/**
 * An ISO 8601 duration (`PnWnDTnHnMnS`, with fractions after a point or a comma) in whole milliseconds, rounded up so that nothing fires
 * early. Undefined if the text is not valid. Years and months other than zero are refused, because their length varies.
 */
export function parseDuration(text: string): number | undefined {
  const match = text.length > MAX_DURATION_CHARS ? null : ISO_8601_DURATION.exec(text);
  if (match === null) return undefined;
  // In whole units of 10^-digits ms: doubles would make 2.3 * 1000 less than 2300.
  const digits = Math.max(...UNITS_MS.map((_, index) => (match[2 * index + 2] ?? "").length));
  const scale = 10n ** BigInt(digits);
  const scaled = UNITS_MS.reduce((sum, unit, index) => {
    const [whole = "0", fraction = ""] = match.slice(2 * index + 1, 2 * index + 3);
    return sum + BigInt(`${whole}${fraction.padEnd(digits, "0")}`) * BigInt(unit);
  }, 0n);
  const ms = Number((scaled + scale - 1n) / scale);
  return Number.isSafeInteger(ms) ? ms : undefined;
}
