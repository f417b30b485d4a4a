// Wall clocks: how far the local time of a zone is from UTC, and when that changes. The data are those of Intl, so they are as new as the runtime's.
import { WeightedCache } from "../../machines/index.js";

const KEPT = 200;
const DAY_MS = 86_400_000;
/** No zone changes twice within this time. */
const STEP_MS = 5 * DAY_MS;

const WALL: Intl.DateTimeFormatOptions = {
  ...{ year: "numeric", month: "numeric", day: "numeric" },
  ...{ hour: "numeric", minute: "numeric", second: "numeric", hourCycle: "h23" },
};

/** The name is none of the IANA database. */
export class TimeZoneError extends Error {
  override readonly name = "TimeZoneError";
}

/** Times are epoch milliseconds. A local time is written as the UTC time with the same digits. */
export class TimeZone {
  private static readonly kept = new WeightedCache<string, TimeZone>(KEPT);

  /** Throws TimeZoneError; the message says why, after the words "must". */
  static of(name: string): TimeZone {
    const kept = TimeZone.kept.get(name);
    if (kept) return kept;
    const zone = new TimeZone(formatOf(name));
    TimeZone.kept.set(name, zone, 1);
    return zone;
  }

  private constructor(private readonly format: Intl.DateTimeFormat) {}

  /** Local time less UTC. */
  offsetAt(time: number): number {
    const second = Math.floor(time / 1_000) * 1_000;
    const parts = new Map(this.format.formatToParts(second).map(({ type, value }) => [type, Number(value)]));
    const [year = 0, month = 1, day = 1] = [parts.get("year"), parts.get("month"), parts.get("day")];
    return Date.UTC(year, month - 1, day, parts.get("hour"), parts.get("minute"), parts.get("second")) - second;
  }

  /** The first moment after `from`, and not after `until`, at which the offset is another one. */
  changeIn(from: number, until: number): number | undefined {
    const offset = this.offsetAt(from);
    for (let low = from; low < until; ) {
      const high = Math.min(low + STEP_MS, until);
      if (this.offsetAt(high) !== offset) return this.changeBetween(low, high, offset);
      low = high;
    }
    return undefined;
  }

  /** The last moment within a day before `time`, or at it, at which the offset changed. */
  changeBefore(time: number): number | undefined {
    const from = time - DAY_MS;
    const offset = this.offsetAt(from);
    return this.offsetAt(time) === offset ? undefined : this.changeBetween(from, time, offset);
  }

  /** To the second: no zone changes within one. */
  private changeBetween(low: number, high: number, offset: number): number {
    let [before, after] = [Math.floor(low / 1_000), Math.ceil(high / 1_000)];
    while (after - before > 1) {
      const middle = Math.floor((before + after) / 2);
      if (this.offsetAt(middle * 1_000) === offset) before = middle;
      else after = middle;
    }
    return after * 1_000;
  }
}

/** Offsets such as `+02:00`, which newer runtimes take for zones, are none: a zone has its rules. */
function formatOf(name: string): Intl.DateTimeFormat {
  try {
    if (/^[A-Za-z]/.test(name)) return new Intl.DateTimeFormat("en-US", { ...WALL, timeZone: name });
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
  }
  throw new TimeZoneError("name a time zone of the IANA database, such as UTC or Europe/Vienna");
}
