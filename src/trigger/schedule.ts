// Cron schedules: five fields in the local time of a zone, in the standard meaning. If both the day of the month and the day of the week are
// restricted, either matches. The calendar is croner's; what it allows beyond the standard is refused. What happens when clocks go forward or back
// is decided here: croner's own rules differ from one schedule to another.
import { Cron } from "croner";
import { type CronConfig, WeightedCache } from "../../machines/index.js";
import { derivedUuid } from "../ids.js";
import { TimeZone, TimeZoneError } from "./time-zone.js";

const FIELDS = [
  { name: "minute", names: "", from: 0, to: 59 },
  { name: "hour", names: "", from: 0, to: 23 },
  { name: "day of the month", names: "", from: 1, to: 31 },
  { name: "month", names: "JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC", from: 1, to: 12 },
  { name: "day of the week", names: "SUN|MON|TUE|WED|THU|FRI|SAT", from: 0, to: 7 },
] as const;
const MAX_CHARS = 256;
const KEPT = 1_000;

/** The config is no schedule; the message says why, after the member and the word "must". */
export class ScheduleError extends Error {
  override readonly name = "ScheduleError";

  constructor(
    message: string,
    /** Of the config. */
    readonly member: "schedule" | "time_zone" | "end_at" = "schedule",
  ) {
    super(message);
  }
}

/** What of a config says when it ticks. */
export type When = Pick<CronConfig, "schedule"> & Partial<Pick<CronConfig, "time_zone" | "start_at" | "end_at">>;

/** Times are epoch milliseconds. */
export class Schedule {
  private constructor(
    private readonly clock: WallClock,
    private readonly from: number,
    private readonly to: number,
  ) {}

  /** Throws ScheduleError. */
  static of({ schedule, time_zone: zone = "UTC", start_at: from, end_at: to }: When): Schedule {
    const found = new Schedule(
      clockOf(schedule, zone),
      from ?? Number.NEGATIVE_INFINITY,
      to ?? Number.POSITIVE_INFINITY,
    );
    if (to !== undefined && found.after((from ?? 0) - 1) === undefined)
      throw new ScheduleError("be after a tick of the schedule: it would never fire", "end_at");
    return found;
  }

  /** The first tick after a time. Undefined: there is none. */
  after(time: number): number | undefined {
    const tick = this.clock.after(Math.max(time, this.from - 1));
    return tick !== undefined && tick <= this.to ? tick : undefined;
  }

  /** The latest tick at or before a time. */
  latest(time: number): number | undefined {
    const tick = this.clock.latest(Math.min(time, this.to));
    return tick !== undefined && tick >= this.from ? tick : undefined;
  }

  /** The next ticks after a time. */
  next(count: number, time: number): readonly number[] {
    const ticks: number[] = [];
    for (let tick = this.after(time); tick !== undefined && ticks.length < count; tick = this.after(tick))
      ticks.push(tick);
    return ticks;
  }
}

/** How much later than its ticks a trigger fires: always the same part of its jitter, so its fires are as far apart as its ticks. */
export function delayOf(triggerId: string, { jitter_ms: jitterMs }: Pick<CronConfig, "jitter_ms">): number {
  if (jitterMs === 0) return 0;
  const drawn = Number.parseInt(derivedUuid(`jitter/${triggerId}`).slice(0, 8), 16);
  return Math.floor((drawn / 2 ** 32) * (jitterMs + 1));
}

interface WallClock {
  after(time: number): number | undefined;
  latest(time: number): number | undefined;
}

/** In UTC, and the calendar of the local times of a zone. */
class Calendar implements WallClock {
  constructor(private readonly cron: Cron) {}

  after(time: number): number | undefined {
    return this.cron.nextRun(new Date(time))?.getTime();
  }

  latest(time: number): number | undefined {
    // croner looks before its reference, in whole seconds.
    const nextSecond = Math.floor(time / 1_000) * 1_000 + 1_000;
    return this.cron.previousRuns(1, new Date(nextSecond))[0]?.getTime();
  }
}

const MINUTE_MS = 60_000;
/** A schedule has a tick within this time, or none that is looked for: 29 February on a certain weekday comes once in 40 years. */
const LONGEST_REST_MS = 45 * 366 * 86_400_000;

/**
 * The local times of a zone. Where clocks go back, a local time that comes twice ticks the first time. Where they go forward, the local times that are
 * left out tick once, together, at that moment. A schedule of every hour (`*`) goes by the hours that pass instead: it ticks in both of the two equal
 * hours, and makes up for none that is left out.
 */
class LocalTimes implements WallClock {
  constructor(
    private readonly calendar: Calendar,
    private readonly zone: TimeZone,
    private readonly isOfEveryHour: boolean,
  ) {}

  after(time: number): number | undefined {
    const { calendar, zone, isOfEveryHour } = this;
    // From here on, until the next change, clocks go with this offset; the tick is after this local time.
    let [from, offset] = [time, zone.offsetAt(time)];
    let local = Math.max(time + offset, isOfEveryHour ? Number.NEGATIVE_INFINITY : this.repeatedUntil(time, offset));
    for (;;) {
      const tick = calendar.after(local);
      if (tick === undefined) return undefined;
      const change = zone.changeIn(from, tick - offset);
      if (change === undefined) return tick - offset;
      const after = zone.offsetAt(change);
      // A local time that is left out.
      if (!isOfEveryHour && tick < change + after) return change;
      local = change + Math.max(after, isOfEveryHour ? after : offset) - 1;
      [from, offset] = [change, after];
    }
  }

  latest(time: number): number | undefined {
    for (let back = MINUTE_MS; back < LONGEST_REST_MS; back *= 2) {
      let tick = this.after(time - back);
      if (tick === undefined || tick > time) continue;
      for (let next = this.after(tick); next !== undefined && next <= time; next = this.after(next)) tick = next;
      return tick;
    }
    return undefined;
  }

  /** Where the clocks went back a moment ago, local times before this one have been. */
  private repeatedUntil(time: number, offset: number): number {
    const change = this.zone.changeBefore(time);
    if (change === undefined) return Number.NEGATIVE_INFINITY;
    const before = this.zone.offsetAt(change - 1_000);
    return before > offset ? change + before - 1 : Number.NEGATIVE_INFINITY;
  }
}

const calendars = new WeightedCache<string, Calendar>(KEPT);

function clockOf(text: string, zone: string): WallClock {
  const calendar = calendars.get(text) ?? new Calendar(cronOf(text));
  calendars.set(text, calendar, 1);
  if (zone === "UTC") return calendar;
  const [, hour] = text.trim().split(/\s+/);
  try {
    return new LocalTimes(calendar, TimeZone.of(zone), hour === "*");
  } catch (error) {
    if (error instanceof TimeZoneError) throw new ScheduleError(error.message, "time_zone");
    throw error;
  }
}

function cronOf(text: string): Cron {
  const fields = text.trim().split(/\s+/);
  if (text.length > MAX_CHARS) throw new ScheduleError(`have at most ${MAX_CHARS} characters`);
  if (fields.length !== FIELDS.length)
    throw new ScheduleError("have five fields: minute, hour, day of the month, month, day of the week");
  fields.forEach((field, nth) => {
    const { name, names } = FIELDS[nth] ?? FIELDS[0];
    if (!isField(field, names))
      throw new ScheduleError(`have numbers of one or two digits, *, -, / and , as its ${name}, not ${field}`);
  });
  return neverEmpty(compiled(fields));
}

/** `*`, a value, a range, each with an optional step; several separated by commas. */
function isField(field: string, names: string): boolean {
  const value = names === "" ? "\\d{1,2}" : `(?:\\d{1,2}|${names})`;
  const part = `(?:\\*|${value}(?:-${value})?)(?:/\\d{1,2})?`;
  return new RegExp(`^${part}(?:,${part})*$`, "i").test(field);
}

function compiled(fields: readonly string[]): Cron {
  try {
    return new Cron(fields.join(" "), { timezone: "UTC", mode: "5-part", paused: true });
  } catch (error) {
    const why = error instanceof Error ? error.message.replace(/^CronPattern: /, "") : "it cannot be read";
    throw new ScheduleError(outOfRange(fields) ?? `be a cron schedule: ${why}`);
  }
}

/** The value as it is written: for a day or a month, croner's message has the one before. */
function outOfRange(fields: readonly string[]): string | undefined {
  for (const [nth, { name, from, to }] of FIELDS.entries()) {
    const values = fields[nth]?.replace(/\/\d+/g, "").match(/\d+/g) ?? [];
    const outside = values.find((value) => Number(value) < from || Number(value) > to);
    if (outside !== undefined) return `have ${from} to ${to} as its ${name}, not ${outside}`;
  }
  return undefined;
}

function neverEmpty(cron: Cron): Cron {
  if (cron.nextRun() === null) throw new ScheduleError("fire at some time: it never does");
  return cron;
}
