// A schedule in words: what it says, and that it says when the schedule ticks. The words of every schedule are read back by a reader that knows English and
// no cron, and compared with croner's ticks, day by day and minute by minute.
import { describe, expect, it } from "vitest";
import { type JsonObject, scheduleInWords } from "../../machines/index.js";
import { Schedule, ScheduleError } from "../../src/trigger/schedule.js";
import { cases, firstSeed } from "../harness/long.js";
import { randomOf } from "../machines/scheduler.js";

const [MINUTE, DAY] = [60_000, 86_400_000];
const MONTHS = "January February March April May June July August September October November December".split(" ");
const WEEKDAYS = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday".split(" ");

const SAID: readonly (readonly [schedule: string, words: string])[] = [
  ["* * * * *", "Every minute"],
  ["*,5 * * * *", "Every minute"],
  ["0 * * * *", "Every hour"],
  ["*/60 * * * *", "Every hour"],
  ["45 * * * *", "At minute 45 of every hour"],
  ["5 0-23 * * *", "At minute 5 of every hour"],
  ["*/15 * * * *", "Every 15 minutes"],
  ["0,15,30,45 * * * *", "Every 15 minutes"],
  ["*/7 * * * *", "At minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour"],
  ["1-5/2 * * * *", "At minutes 1, 3 and 5 of every hour"],
  ["30 2 * * *", "At 02:30 every day"],
  ["0 0 * * 0-7", "At 00:00 every day"],
  ["30 2 * * 1-5", "At 02:30 on Monday to Friday"],
  ["30 2 * * mon-FRI", "At 02:30 on Monday to Friday"],
  ["0,30 9,17 * * *", "At 09:00, 09:30, 17:00 and 17:30 every day"],
  ["*/15 9-17 * * 1-5", "Every 15 minutes from 09:00 to 17:45 on Monday to Friday"],
  ["* 3 * * *", "Every minute from 03:00 to 03:59 every day"],
  ["*/20 0,12 * * *", "At 00:00, 00:20, 00:40, 12:00, 12:20 and 12:40 every day"],
  ["*/10 */6 * * *", "Every 10 minutes in the hours 0, 6, 12 and 18 every day"],
  ["0 */2 * * *", "At minute 0 in the hours 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20 and 22 every day"],
  ["0 9-17 * * *", "At minute 0 in the hours 9 to 17 every day"],
  ["0 0 * * 0", "At 00:00 on Sunday"],
  ["0 0 * * 7", "At 00:00 on Sunday"],
  ["0 0 * * 0,7", "At 00:00 on Sunday"],
  ["0 0 * * 6,0", "At 00:00 on Saturday and Sunday"],
  ["0 0 * * FRI-SUN", "At 00:00 on Friday to Sunday"],
  ["0 0 * * SUN-TUE", "At 00:00 on Monday, Tuesday and Sunday"],
  ["0 0 * * */2", "At 00:00 on Tuesday, Thursday, Saturday and Sunday"],
  ["0 0 1 * *", "At 00:00 on the 1st of the month"],
  ["0 0 1-7,15,22,23 * *", "At 00:00 on the 1st to 7th, 15th, 22nd and 23rd of the month"],
  ["0 0 11,12,13,31 * *", "At 00:00 on the 11th to 13th and 31st of the month"],
  ["0 0 13 * 5", "At 00:00 on the 13th of the month or on Friday"],
  ["0 0 1-31 * 1", "At 00:00 every day"],
  ["0 0 */1 * 1", "At 00:00 every day"],
  ["0 0 *,1 * 1", "At 00:00 every day"],
  ["0 0 13 * 0-6", "At 00:00 every day"],
  ["0 0 29 2 *", "At 00:00 on the 29th of the month in February"],
  ["0 0 1 JAN,APR,jul-SEP *", "At 00:00 on the 1st of the month in January, April and July to September"],
  ["0 0 * 1-12 *", "At 00:00 every day"],
];

describe("a schedule in words", () => {
  it.each(SAID)("%s is: %s", (schedule, words) => {
    expect(scheduleInWords({ schedule })).toBe(`${words}, UTC`);
    expectSame(schedule);
  });

  it("names the zone, the start, the end and the jitter", () => {
    const said = (more: JsonObject) => scheduleInWords({ schedule: "0,30 9 * * 1-5", ...more });
    const [start_at, end_at] = ["2026-01-01T00:00:00+01:00", "2026-12-31T23:59:59.500Z"];
    expect(said({ time_zone: "Europe/Berlin", start_at, end_at, jitter_ms: 60_000 })).toBe(
      "At 09:00 and 09:30 on Monday to Friday, Europe/Berlin, between 2026-01-01T00:00:00+01:00 and 2026-12-31T23:59:59.500Z, up to 60 s late",
    );
    expect(said({ start_at })).toBe("At 09:00 and 09:30 on Monday to Friday, UTC, from 2026-01-01T00:00:00+01:00");
    expect(said({ end_at, jitter_ms: 250 })).toBe(
      "At 09:00 and 09:30 on Monday to Friday, UTC, until 2026-12-31T23:59:59.500Z, up to 250 ms late",
    );
  });

  it("is absent where there is no schedule to be read", () => {
    for (const schedule of [
      undefined,
      7,
      "",
      "0 0 * *",
      "0 0 * * * *",
      "@daily",
      "0 0 L * *",
      "61 * * * *",
      "5/15 * * * *",
      "0 22-2 * * *",
    ])
      expect(scheduleInWords(schedule === undefined ? {} : { schedule }), String(schedule)).toBeUndefined();
  });

  it("says when the schedule ticks, whatever its fields are, and has words for each that is allowed", () => {
    const seed = firstSeed();
    const random = randomOf(seed);
    let allowed = 0;
    for (let nth = 0; nth < cases(30, 400); nth++) {
      const schedule = someSchedule(random);
      if (!isAllowed(schedule)) continue;
      allowed++;
      expectSame(schedule, `seed ${seed}`);
    }
    expect(allowed).toBeGreaterThan(5);
  }, 300_000);
});

function isAllowed(schedule: string): boolean {
  try {
    return Schedule.of({ schedule }) !== undefined;
  } catch (error) {
    if (error instanceof ScheduleError) return false;
    throw error;
  }
}

function someSchedule(random: () => number): string {
  const below = (count: number) => Math.floor(random() * count);
  const written = (number: number, names: readonly string[], first: number) => {
    const name = names[number - first]?.slice(0, 3);
    return name !== undefined && random() < 0.3 ? (random() < 0.5 ? name : name.toUpperCase()) : String(number);
  };
  const field = (from: number, to: number, names: readonly string[] = [], first = 0) => {
    if (random() < 0.3) return "*";
    const parts = Array.from({ length: 1 + below(3) }, () => {
      const step = random() < 0.4 ? `/${1 + below(to)}` : "";
      if (random() < 0.2) return `*${step}`;
      const low = from + below(to - from + 1);
      // Sunday is 7 as the end of a range, and 0 as its beginning: its name may be either.
      const high = low + below(to - low + 1);
      return random() < 0.5
        ? `${written(low, names, first)}-${written(high, names, first)}${step}`
        : written(low, names, first);
    });
    return parts.join(",");
  };
  return [field(0, 59), field(0, 23), field(1, 31), field(1, 12, MONTHS, 1), field(0, 7, WEEKDAYS)].join(" ");
}

/** Its words name the days on which it ticks, of a leap year, and the minutes of such a day. */
function expectSame(schedule: string, message = ""): void {
  const words = scheduleInWords({ schedule }) ?? "";
  const meant = readBack(words.replace(/, UTC$/, ""));
  const from = Date.UTC(2028, 0, 1);
  const ticking = Schedule.of({ schedule });
  const place = `${schedule}: ${words} ${message}`;
  let looked = false;
  for (let day = from; day < from + 366 * DAY; day += DAY) {
    const first = ticking.after(day - 1);
    const ticks = first !== undefined && first < day + DAY;
    expect([new Date(day).toISOString(), ticks], place).toEqual([
      new Date(day).toISOString(),
      meant.onDay(new Date(day)),
    ]);
    if (!ticks || looked) continue;
    looked = true;
    const minutes = Array.from({ length: 1_440 }, (_, nth) => nth);
    const seen = ticking.next(1_441, day - 1).filter((tick) => tick < day + DAY);
    expect(
      seen.map((tick) => (tick - day) / MINUTE),
      place,
    ).toEqual(minutes.filter((nth) => meant.atMinute(nth)));
  }
  expect(looked, place).toBe(true);
}

interface Meant {
  readonly onDay: (day: Date) => boolean;
  /** Of a day, from 0. */
  readonly atMinute: (nth: number) => boolean;
}

function readBack(words: string): Meant {
  const pattern =
    /^(?<time>(?:Every|At) .+?)(?<every> every day)?(?: on the (?<days>[\d, a-z]+?) of the month)?(?:(?<or> or)? on (?<week>[A-Z][A-Za-z, ]+?))?(?: in (?<months>[A-Z][A-Za-z, ]+))?$/;
  const { time = "", days, week, months, or } = pattern.exec(words)?.groups ?? {};
  expect(time, words).not.toBe("");
  const dates = days === undefined ? undefined : valuesIn(days, (text) => Number.parseInt(text, 10));
  const weekdays = week === undefined ? undefined : valuesIn(week, (text) => WEEKDAYS.indexOf(text) || 7);
  const inMonths = months === undefined ? undefined : valuesIn(months, (text) => MONTHS.indexOf(text));
  expect(or !== undefined, words).toBe(dates !== undefined && weekdays !== undefined);
  return {
    atMinute: minutesOf(time),
    onDay: (day) => {
      const isDate = dates?.has(day.getUTCDate());
      const isWeekday = weekdays?.has(day.getUTCDay() || 7);
      const fits = isDate === undefined ? (isWeekday ?? true) : isDate || isWeekday === true;
      return fits && (inMonths?.has(day.getUTCMonth()) ?? true);
    },
  };
}

/** `1st to 7th, 15th and 22nd` */
function valuesIn(words: string, numberOf: (text: string) => number): ReadonlySet<number> {
  const values = new Set<number>();
  for (const part of words.split(/, | and /)) {
    const [from = "", to = from] = part.split(" to ");
    for (let value = numberOf(from); value <= numberOf(to); value++) values.add(value);
  }
  return values;
}

function minutesOf(time: string): (nth: number) => boolean {
  const clock = (text: string) => Number(text.slice(0, 2)) * 60 + Number(text.slice(3));
  if (time === "Every hour") return (nth) => nth % 60 === 0;
  const named = /^At ((?:\d\d:\d\d(?:, | and )?)+)$/.exec(time)?.[1];
  if (named !== undefined) {
    const times = new Set(named.split(/, | and /).map(clock));
    return (nth) => times.has(nth);
  }
  const { step, at, from, to, hours } =
    /^(?:Every (?:minute|(?<step>\d+) minutes)|At minutes? (?<at>[\d, andto]*?\d))(?: of every hour| from (?<from>\d\d:\d\d) to (?<to>\d\d:\d\d)| in the hours? (?<hours>[\d, andto]+))?$/.exec(
      time,
    )?.groups ?? expect.unreachable(time);
  const minutes = at === undefined ? undefined : valuesIn(at, Number);
  const inHours = hours === undefined ? undefined : valuesIn(hours, Number);
  return (nth) => {
    if (from !== undefined && to !== undefined && (nth < clock(from) || nth > clock(to))) return false;
    if (inHours && !inHours.has(Math.floor(nth / 60))) return false;
    return minutes ? minutes.has(nth % 60) : (nth % 60) % Number(step ?? 1) === 0;
  };
}
