// CEL timestamps: `timestamp()`, and their fields (getHours, getDayOfWeek ...) by civil arithmetic. The library computes the fields in the
// host's local time zone, which is wrong around clock changes and would make a run depend on its machine.
import { type CelError, type CelValue, celError } from "@bufbuild/cel";
import { civilFromDays, daysFromCivil, readInstant, YEAR_1_S, YEAR_9999_END_S } from "../values/time.js";
import { spend } from "./fuel.js";
import { asTimestamp, toTimestamp } from "./values.js";

const DAY_MS = 86_400_000;
const MAX_CACHED_ZONES = 64;

const zones = new Map<string, Intl.DateTimeFormat>();

/** The fields of a local time, given as if it were UTC. */
const FIELDS: Readonly<Record<string, (local: number) => number>> = {
  getFullYear: (local) => civil(local).year,
  getMonth: (local) => civil(local).month - 1,
  getDate: (local) => civil(local).day,
  getDayOfMonth: (local) => civil(local).day - 1,
  // 1970-01-01 was a Thursday; Sunday is 0.
  getDayOfWeek: (local) => modulo(Math.floor(local / DAY_MS) + 4, 7),
  getDayOfYear: (local) => Math.floor(local / DAY_MS) - daysFromCivil({ year: civil(local).year, month: 1, day: 1 }),
  getHours: (local) => Math.floor(modulo(local, DAY_MS) / 3_600_000),
  getMinutes: (local) => Math.floor(modulo(local, DAY_MS) / 60_000) % 60,
  getSeconds: (local) => Math.floor(modulo(local, DAY_MS) / 1000) % 60,
  getMilliseconds: (local) => modulo(local, 1000),
};

export const CALENDAR_FUNCTIONS: readonly string[] = Object.keys(FIELDS);

/**
 * `timestamp()` of RFC 3339 text, to the nanosecond, or of seconds. The library takes days that do not exist, no leap second, and
 * milliseconds for seconds.
 */
export function timestampOf(source: string | bigint): CelValue | CelError {
  spend(20);
  const read = typeof source === "string" ? readInstant(source) : { seconds: Number(source), nanos: 0 };
  if (read === undefined) return celError("invalid argument of timestamp()");
  if (read.seconds < YEAR_1_S || read.seconds > YEAR_9999_END_S) return celError("timestamp out of range");
  return toTimestamp(read);
}

/** Undefined: the target is not a timestamp. The library handles durations, which have fields of the same names. */
export function calendarField(
  name: string,
  target: CelValue | undefined,
  zone?: CelValue,
): bigint | CelError | undefined {
  const field = FIELDS[name];
  const time = asTimestamp(target);
  if (field === undefined || time === undefined) return undefined;
  if (zone !== undefined && typeof zone !== "string") return undefined;
  const utc = Number(time.seconds) * 1000 + Math.floor(time.nanos / 1_000_000);
  const local = zone === undefined ? utc : inZone(utc, zone);
  return local === undefined ? celError(`invalid argument of ${name}()`) : BigInt(field(local));
}

function civil(local: number) {
  return civilFromDays(Math.floor(local / DAY_MS));
}

function modulo(value: number, by: number): number {
  return value - Math.floor(value / by) * by;
}

function inZone(utc: number, zone: string): number | undefined {
  const fixed = /^([+-]?)(\d\d):(\d\d)$/.exec(zone);
  if (fixed !== null) return utc + (fixed[1] === "-" ? -1 : 1) * (Number(fixed[2]) * 60 + Number(fixed[3])) * 60_000;
  if (zone.length > 64) return undefined;
  const format = formatOf(zone);
  if (format === undefined) return undefined;
  spend(200);
  const part: Record<string, number> = {};
  for (const { type, value } of format.formatToParts(utc)) part[type] = Number(value);
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = part;
  const days = daysFromCivil({ year, month, day });
  return days * DAY_MS + (hour * 60 + minute) * 60_000 + second * 1000 + modulo(utc, 1000);
}

function formatOf(zone: string): Intl.DateTimeFormat | undefined {
  const known = zones.get(zone);
  if (known !== undefined) return known;
  spend(2000);
  try {
    const format = new Intl.DateTimeFormat("en-US", {
      timeZone: zone,
      calendar: "gregory",
      hourCycle: "h23",
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
    });
    if (zones.size >= MAX_CACHED_ZONES) zones.delete(zones.keys().next().value as string);
    zones.set(zone, format);
    return format;
  } catch {
    return undefined;
  }
}
