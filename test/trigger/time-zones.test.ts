// Schedules in time zones, against the oracle of minutes.ts, around each change of a zone's clocks. What the calendar makes of the fields is in
// schedule.test.ts.
// @module-tag both
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Schedule, ScheduleError, type When } from "../../src/trigger/schedule.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { long } from "../harness/long.js";
import { randomOf } from "../machines/scheduler.js";
import { localOf, type Matches, minutesIn, ticksIn } from "./minutes.js";

const [MINUTE, HOUR, DAY] = [60_000, 3_600_000, 86_400_000];
const FROM = Date.UTC(2026, 0, 1);
const TO = FROM + 5 * 366 * DAY;
/** Around a change. */
const WINDOW = 26 * HOUR;

const at = (text: string) => Date.parse(text);
const texts = (ticks: readonly (number | undefined)[]) =>
  ticks.map((tick) => tick !== undefined && new Date(tick).toISOString());
const next = (when: When, from: string, count: number) => texts(Schedule.of(when).next(count, at(from)));

describe("a schedule in a time zone", () => {
  const vienna = { time_zone: "Europe/Vienna" };

  it("ticks at its local time, in summer and in winter", () => {
    expect(next({ schedule: "30 8 * * 1-5", ...vienna }, "2026-10-23T00:00:00Z", 2)).toEqual([
      "2026-10-23T06:30:00.000Z",
      "2026-10-26T07:30:00.000Z",
    ]);
  });

  it("fires what is left out when clocks go forward, once, at that moment", () => {
    for (const schedule of ["30 2 * * *", "15,30 2 * * *", "0 2,3 * * *", "*/10 2 * * *"])
      expect(next({ schedule, ...vienna }, "2026-03-28T12:00:00Z", 1), schedule).toEqual(["2026-03-29T01:00:00.000Z"]);
    expect(next({ schedule: "0 3 * * *", ...vienna }, "2026-03-28T12:00:00Z", 2)).toEqual([
      "2026-03-29T01:00:00.000Z",
      "2026-03-30T01:00:00.000Z",
    ]);
  });

  it("fires what comes twice when clocks go back the first time", () => {
    expect(next({ schedule: "30 2 * * *", ...vienna }, "2026-10-24T12:00:00Z", 2)).toEqual([
      "2026-10-25T00:30:00.000Z",
      "2026-10-26T01:30:00.000Z",
    ]);
  });

  it("of every hour goes by the hours that pass", () => {
    expect(next({ schedule: "30 * * * *", ...vienna }, "2026-10-24T23:40:00Z", 3)).toEqual([
      "2026-10-25T00:30:00.000Z",
      "2026-10-25T01:30:00.000Z",
      "2026-10-25T02:30:00.000Z",
    ]);
    expect(next({ schedule: "30 * * * *", ...vienna }, "2026-03-29T00:10:00Z", 2)).toEqual([
      "2026-03-29T00:30:00.000Z",
      "2026-03-29T01:30:00.000Z",
    ]);
  });

  it("knows midnights that there are not, half hours, and quarters", () => {
    expect(next({ schedule: "0 0 * * *", time_zone: "Africa/Cairo" }, "2026-04-23T12:00:00Z", 2)).toEqual([
      "2026-04-23T22:00:00.000Z",
      "2026-04-24T21:00:00.000Z",
    ]);
    expect(next({ schedule: "15 2 * * *", time_zone: "Australia/Lord_Howe" }, "2026-10-03T12:00:00Z", 1)).toEqual([
      "2026-10-03T15:30:00.000Z",
    ]);
    expect(next({ schedule: "0 9 * * *", time_zone: "Asia/Kathmandu" }, "2026-11-30T00:00:00Z", 1)).toEqual([
      "2026-11-30T03:15:00.000Z",
    ]);
  });

  it("begins and ends where it is said to, both included", () => {
    const when = { schedule: "0 0 * * *", start_at: at("2026-12-01T00:00:00Z"), end_at: at("2026-12-03T00:00:00Z") };
    expect(next(when, "2026-11-01T00:00:00Z", 9)).toEqual([
      "2026-12-01T00:00:00.000Z",
      "2026-12-02T00:00:00.000Z",
      "2026-12-03T00:00:00.000Z",
    ]);
    const schedule = Schedule.of(when);
    expect(texts([schedule.latest(at("2027-01-01T00:00:00Z")), schedule.after(when.end_at)])).toEqual([
      "2026-12-03T00:00:00.000Z",
      false,
    ]);
    expect(schedule.latest(when.start_at - 1)).toBeUndefined();
  });

  it.each([
    [{ schedule: "0 0 * * *", time_zone: "Europe/Wien" }, "time_zone"],
    [{ schedule: "0 0 * * *", time_zone: "" }, "time_zone"],
    [{ schedule: "0 0 * * *", time_zone: "+02:00" }, "time_zone"],
    [{ schedule: "0 0 30 2 *", time_zone: "Europe/Vienna" }, "schedule"],
    [{ schedule: "0 0 1 1 *", start_at: FROM + DAY, end_at: FROM + 9 * DAY }, "end_at"],
  ] as [When, string][])("%j is refused for its %s", (when, member) => {
    const refused = () => Schedule.of(when);
    expect(refused).toThrow(ScheduleError);
    expect(refused).toThrow(expect.objectContaining({ member }));
  });
});

/** The hours in which the clocks of a zone change, of five years. */
function changesOf(zone: string): readonly number[] {
  const changes: number[] = [];
  const shift = (time: number) => localOf(zone, time) - time;
  for (let day = FROM; day < TO; day += DAY) {
    if (shift(day) === shift(day + DAY)) continue;
    for (let hour = day; hour < day + DAY; hour += HOUR) if (shift(hour) !== shift(hour + HOUR)) changes.push(hour);
  }
  return changes;
}

/** Minute, hours and weekdays; what the calendar makes of its fields is tested without zones. */
const SCHEDULES: readonly (readonly [text: string, matches: Matches])[] = [
  ["30 2 * * *", (local) => local % DAY === 2.5 * HOUR],
  ["0 0 * * *", (local) => local % DAY === 0],
  ["*/20 * * * *", (local) => local % (20 * MINUTE) === 0],
  ["45 * * * *", (local) => local % HOUR === 45 * MINUTE],
  ["15 1-3 * * *", (local) => [1.25, 2.25, 3.25].includes((local % DAY) / HOUR)],
  ["0 */2 * * 0,6", (local) => local % (2 * HOUR) === 0 && [0, 6].includes(new Date(local).getUTCDay())],
];

describe("the zones of the database", () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase({ max: 1 });
  });
  afterAll(() => database?.drop());

  it("tick as a walk through their minutes says, around each change of five years", async () => {
    const rows = await database.sql<{ name: string }[]>`select name from pg_timezone_names order by name`;
    const names = new Set([...rows.map(({ name }) => name), ...Intl.supportedValuesOf("timeZone")]);
    const all = [...names].filter((name) => !/^(posix|right)\//.test(name) && isKnown(name));
    const random = randomOf(7);
    const zones = long(
      all.filter(() => random() < 12 / all.length),
      all,
    );
    let [changes, compared] = [0, 0];
    // Many zones change together, from the same offset to the same one.
    const seen = new Set<string>();
    for (const zone of zones)
      for (const change of changesOf(zone)) {
        const key = [change, localOf(zone, change), localOf(zone, change + HOUR)].join();
        if (seen.has(key)) continue;
        seen.add(key);
        changes++;
        const minutes = minutesIn(zone, change - WINDOW, change + WINDOW);
        for (const [text, matches] of SCHEDULES) {
          const schedule = Schedule.of({ schedule: text, time_zone: zone });
          const [, hour] = text.split(" ");
          // The first minutes may repeat others that are not in the window.
          const expected = ticksIn(minutes, matches, hour === "*");
          const last = change + WINDOW - MINUTE;
          const ticks: number[] = [];
          for (
            let tick = schedule.after(change - WINDOW - 1);
            tick !== undefined && tick <= last;
            tick = schedule.after(tick)
          )
            ticks.push(tick);
          expect([zone, text, ...texts(ticks)]).toEqual([zone, text, ...texts(expected)]);
          // Where the window has none, the latest one is before it.
          if (expected.length > 0)
            expect([zone, text, ...texts([schedule.latest(last)])]).toEqual([zone, text, ...texts(expected.slice(-1))]);
          compared += ticks.length;
        }
      }
    console.log(`${zones.length} zones, ${changes} different changes of their clocks, ${compared} ticks`);
    expect(zones.length).toBeGreaterThan(5);
  });
});

function isKnown(zone: string): boolean {
  try {
    return new Intl.DateTimeFormat("en-US", { timeZone: zone }) !== undefined;
  } catch {
    return false;
  }
}
