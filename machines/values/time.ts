// Instants and durations as text: RFC 3339 and ISO 8601 to and from epoch milliseconds.

const DAY_MS = 86_400_000;

/** Ten years. A longer wait, timeout or backoff is refused as a mistake, and might end outside the calendar. */
export const LONGEST_WAIT_MS = 10 * 366 * DAY_MS;

const RFC_3339 = /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))$/;
const ISO_8601_DURATION = (() => {
  const part = (unit: string) => `(?:(\\d{1,12}(?:\\.\\d{1,9})?)${unit})?`;
  return new RegExp(`^P(?=.)${part("W")}${part("D")}(?:T(?=.)${part("H")}${part("M")}${part("S")})?$`);
})();
const UNITS_MS = [7 * DAY_MS, DAY_MS, 3_600_000, 60_000, 1000];

/** 0000-01-01T00:00:00.000Z and 9999-12-31T23:59:59.999Z: the years of four digits. */
const FIRST_MS = -62_167_219_200_000;
const LAST_MS = 253_402_300_799_999;

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

/** RFC 3339 text as epoch milliseconds; a finer fraction is cut, and a leap second is the second after it. Undefined if the text is not valid. */
export function parseInstant(text: string): number | undefined {
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
  const fraction = Number((match[7] ?? "").padEnd(3, "0").slice(0, 3));
  const whole = days * DAY_MS + (hour * 60 + minute - offset) * 60_000 + second * 1000;
  if (second === 60 && whole % DAY_MS !== 0) return undefined;
  const ms = whole + fraction;
  return ms >= FIRST_MS && ms <= LAST_MS ? ms : undefined;
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
 * An ISO 8601 duration (`PnWnDTnHnMnS`, with fractions) in whole milliseconds. Undefined if the text is not valid. Years and months
 * are refused, because their length varies.
 */
export function parseDuration(text: string): number | undefined {
  const match = ISO_8601_DURATION.exec(text);
  if (match === null) return undefined;
  const ms = UNITS_MS.reduce((sum, unit, index) => sum + Number(match[index + 1] ?? 0) * unit, 0);
  const whole = Math.round(ms);
  return Number.isSafeInteger(whole) ? whole : undefined;
}
