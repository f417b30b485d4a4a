// Schedules against an oracle of our own, which looks at every minute of a year: written from the standard, not from the library.
// @module-tag both
import { describe, expect, it } from "vitest";
import { Schedule, ScheduleError } from "../../src/trigger/schedule.js";
import { long } from "../harness/long.js";

const MINUTE = 60_000;
/** The short form ends after the leap day. */
/** The ticks that are looked at, of schedules that tick every few minutes. */
const MOST_TICKS = 5_000;
const YEAR = long(60, 366) * 86_400_000;
/** A leap year, so that a 29 February lies in it. */
const FROM = Date.UTC(2028, 0, 1);

const SCHEDULES = [
  ...["*/5 * * * *", "7 * * * *", "0 0 * * *", "30 4 1,15 * 5", "0 0 29 2 *", "0 0 31 * *", "15 14 1 * *"],
  ...["0 22 * * 1-5", "23 0-20/2 * * *", "5 4 * * 0", "5 4 * * 7", "0 9-17 * * MON-FRI", "0 0 1 JAN,JUL *"],
  ...[
    "0 12 13 * 5",
    "59 23 28-31 * *",
    "0 0 * 2 *",
    "10,20,40 */6 */10 * *",
    "0 6 */2 * 3",
    "1-59/13 3 * 12 6",
    "0 0 30 4 1",
  ],
];

const MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split(" ");
const DAYS = "SUN MON TUE WED THU FRI SAT".split(" ");

/** The values of one field. */
function valuesOf(field: string, least: number, most: number, names: readonly string[] = []): ReadonlySet<number> {
  const numberOf = (text: string) => {
    const nth = names.indexOf(text.toUpperCase());
    return nth >= 0 ? nth + least : Number(text);
  };
  const parts = field.split(",").flatMap((part) => {
    const [range = "", step = "1"] = part.split("/");
    const [first = "", last = first] = range === "*" ? [String(least), String(most)] : range.split("-");
    const [from, to] = [numberOf(first), numberOf(last)];
    return Array.from({ length: to - from + 1 }, (_, nth) => from + nth).filter(
      (value) => (value - from) % Number(step) === 0,
    );
  });
  return new Set(parts);
}

function oracle(text: string): (time: number) => boolean {
  const [minute = "", hour = "", day = "", month = "", weekday = ""] = text.split(" ");
  const [minutes, hours] = [valuesOf(minute, 0, 59), valuesOf(hour, 0, 23)];
  const [days, months] = [valuesOf(day, 1, 31), valuesOf(month, 1, 12, MONTHS)];
  const weekdays = new Set([...valuesOf(weekday, 0, 7, DAYS)].map((value) => value % 7));
  const either = day !== "*" && weekday !== "*";
  return (time) => {
    const date = new Date(time);
    const [onDay, onWeekday] = [days.has(date.getUTCDate()), weekdays.has(date.getUTCDay())];
    const onDays = either ? onDay || onWeekday : onDay && onWeekday;
    return (
      minutes.has(date.getUTCMinutes()) && hours.has(date.getUTCHours()) && months.has(date.getUTCMonth() + 1) && onDays
    );
  };
}

describe("a schedule", () => {
  it.each(SCHEDULES)("%s ticks in a year as the standard says", (text) => {
    const schedule = Schedule.of({ schedule: text });
    const matches = oracle(text);
    const expected: number[] = [];
    for (let time = FROM; time < FROM + YEAR && expected.length < MOST_TICKS; time += MINUTE)
      if (matches(time)) expected.push(time);
    const ticks: number[] = [];
    let tick = schedule.after(FROM - 1);
    for (; tick !== undefined && tick < FROM + YEAR && ticks.length < MOST_TICKS; tick = schedule.after(tick))
      ticks.push(tick);
    expect(ticks).toEqual(expected);
  });

  it("its latest tick is the one at a time, or the last one before it", () => {
    const schedule = Schedule.of({ schedule: "*/5 * * * *" });
    const at = Date.UTC(2026, 10, 22, 12, 5);
    expect([at - 1, at, at + 59_999, at + 5 * MINUTE - 1].map((time) => schedule.latest(time))).toEqual([
      at - 5 * MINUTE,
      at,
      at,
      at,
    ]);
  });

  it.each([
    ["0 0 30 2 *", "it never does"],
    ["0 0 31 4,6 *", "it never does"],
    ["* * * *", "five fields"],
    ["* * * * * *", "five fields"],
    ["@daily", "five fields"],
    ["008 * * * *", "numbers of one or two digits, *, -, / and , as its minute, not 008"],
    ["* * * JAN-XYZ *", "as its month, not JAN-XYZ"],
    ["60 * * * *", "minute"],
    ["* 24 * * *", "hour"],
    ["0 0 L * *", "day of the month"],
    ["0 0 * * 5#2", "day of the week"],
    ["0 0 15W * *", "day of the month"],
    ["0 0 ? * *", "day of the month"],
    ["*/0 * * * *", "cron schedule"],
    ["30-10 * * * *", "cron schedule"],
    [`0 0 * * ${"1,".repeat(200)}1`, "characters"],
    ["0 0 32 * *", "have 1 to 31 as its day of the month, not 32"],
    ["0 0 0 * *", "have 1 to 31 as its day of the month, not 0"],
    ["0 0 1,40 * *", "have 1 to 31 as its day of the month, not 40"],
    ["0 0 1-32 */2 *", "have 1 to 31 as its day of the month, not 32"],
    ["0 0 * 13 *", "have 1 to 12 as its month, not 13"],
    ["0 0 * 00 *", "have 1 to 12 as its month, not 00"],
    ["60 * * * *", "have 0 to 59 as its minute, not 60"],
    ["0 24 * * *", "have 0 to 23 as its hour, not 24"],
    ["0 0 * * 8", "have 0 to 7 as its day of the week, not 8"],
  ])("%s is refused: %s", (text, why) => {
    expect(() => Schedule.of({ schedule: text })).toThrow(ScheduleError);
    expect(() => Schedule.of({ schedule: text })).toThrow(why);
  });
});
