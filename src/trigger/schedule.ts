// Cron schedules: five fields in UTC, in the standard meaning. If both the day of the month and the day of the week are restricted,
// either matches. The calendar is croner's; what it allows beyond the standard is refused.
import { Cron } from "croner";
import { WeightedCache } from "../../machines/index.js";

const FIELDS = [
  { name: "minute", names: "", from: 0, to: 59 },
  { name: "hour", names: "", from: 0, to: 23 },
  { name: "day of the month", names: "", from: 1, to: 31 },
  { name: "month", names: "JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC", from: 1, to: 12 },
  { name: "day of the week", names: "SUN|MON|TUE|WED|THU|FRI|SAT", from: 0, to: 7 },
] as const;
const MAX_CHARS = 256;
const KEPT = 1_000;

/** The text is not a schedule; the message says why, after the words "schedule must". */
export class ScheduleError extends Error {
  override readonly name = "ScheduleError";
}

/** Times are epoch milliseconds. */
export class Schedule {
  private static readonly kept = new WeightedCache<string, Schedule>(KEPT);

  /** Throws ScheduleError. */
  static parse(text: string): Schedule {
    const kept = Schedule.kept.get(text);
    if (kept) return kept;
    const schedule = new Schedule(cronOf(text));
    Schedule.kept.set(text, schedule, 1);
    return schedule;
  }

  private constructor(private readonly cron: Cron) {}

  /** The first tick after a time. Undefined: there is none. */
  after(time: number): number | undefined {
    return this.cron.nextRun(new Date(time))?.getTime();
  }

  /** The latest tick at or before a time. */
  latest(time: number): number | undefined {
    // croner looks before its reference, in whole seconds.
    const nextSecond = Math.floor(time / 1_000) * 1_000 + 1_000;
    return this.cron.previousRuns(1, new Date(nextSecond))[0]?.getTime();
  }

  /** The next ticks after a time. */
  next(count: number, time: number): readonly number[] {
    return this.cron.nextRuns(count, new Date(time)).map((tick) => tick.getTime());
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
