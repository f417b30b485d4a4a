// Instants and durations as text, against the host's own calendar as the oracle.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatInstant, parseDuration, parseInstant } from "../../machines/values/time.js";
import { writtenTimes } from "./written-times.js";

describe("an instant", () => {
  it("is written as the host's calendar writes it, and read back", () => {
    fc.assert(
      fc.property(fc.integer({ min: -62_167_219_200_000, max: 253_402_300_799_999 }), (ms) => {
        expect(formatInstant(ms)).toBe(new Date(ms).toISOString());
        expect(parseInstant(formatInstant(ms))).toBe(ms);
      }),
    );
  });

  it.each([
    ["2026-11-21T10:00:00Z", Date.UTC(2026, 10, 21, 10)],
    ["2026-11-21t10:00:00.5z", Date.UTC(2026, 10, 21, 10, 0, 0, 500)],
    ["2026-11-21T10:00:00.123456789+05:30", Date.UTC(2026, 10, 21, 4, 30, 0, 123)],
    ["2026-11-21T10:00:00.1234567890123456789Z", Date.UTC(2026, 10, 21, 10, 0, 0, 123)],
    ["2024-02-29T00:00:00-00:30", Date.UTC(2024, 1, 29, 0, 30)],
    ["2026-11-21T00:00:00-00:00", Date.UTC(2026, 10, 21)],
    ["2026-11-21T23:59:59+23:59", Date.UTC(2026, 10, 21, 0, 0, 59)],
    ["0000-01-01T00:00:00Z", -62_167_219_200_000],
    ["9999-12-31T23:59:59.999Z", 253_402_300_799_999],
    ["0000-01-01T00:00:00+00:01", -62_167_219_260_000],
    ["9999-12-31T23:59:59.9999999-05:00", 253_402_318_799_999],
    ["9999-12-31T23:59:60Z", 253_402_300_800_000],
    ["1990-12-31T23:59:60Z", Date.UTC(1991, 0, 1)],
    ["1990-12-31T15:59:60.123-08:00", Date.UTC(1991, 0, 1, 0, 0, 0, 123)],
    ["1991-01-01T05:29:60+05:30", Date.UTC(1991, 0, 1)],
    ["1930-03-03T23:59:60Z", Date.UTC(1930, 2, 4)],
  ])("reads %s", (text, ms) => {
    expect(parseInstant(text)).toBe(ms);
  });

  it.each([
    "2026-11-21",
    "2026-11-21T10:00:00",
    "2026-11-21 10:00:00Z",
    "2026-11-21T10:00Z",
    "20261121T100000Z",
    "2026-325T10:00:00Z",
    "2026-11-21T10:00:00+02",
    "2026-11-21T10:00:00+0200",
    "2026-11-21T10:00:00.Z",
    "2026-11-21T10:00:00,5Z",
    "2026-02-29T00:00:00Z",
    "2026-13-01T00:00:00Z",
    "2026-00-10T00:00:00Z",
    "2026-01-00T00:00:00Z",
    "2026-01-01T24:00:00Z",
    "2026-01-01T00:60:00Z",
    "2026-01-01T00:00:60Z",
    "1998-12-31T23:59:61Z",
    "1998-12-31T23:58:60Z",
    "1998-12-31T22:59:60Z",
    "1990-12-31T23:59:60+01:00",
    "2026-01-01T00:00:00+24:00",
    "2026-01-01T00:00:00+00:60",
    "+2026-01-01T00:00:00Z",
    "২০২৬-01-01T00:00:00Z",
    " 2026-01-01T00:00:00Z",
    "2026-01-01T00:00:00Z\n",
    "",
  ])("refuses %j", (text) => {
    expect(parseInstant(text)).toBeUndefined();
  });

  it("is what the grammar says, in every legal form and next to it", () => {
    let read = 0;
    fc.assert(
      fc.property(writtenTimes, ({ text, ms }) => {
        expect(parseInstant(text)).toBe(ms);
        if (ms !== undefined) read++;
      }),
      { numRuns: 5000 },
    );
    expect(read).toBeGreaterThan(500);
  });

  it("outside four digits of a year is refused", () => {
    expect(() => formatInstant(253_402_300_800_000)).toThrow(RangeError);
    expect(() => formatInstant(Number.NaN)).toThrow(RangeError);
  });
});

describe("a duration", () => {
  it.each([
    ["PT1S", 1000],
    ["PT0.25S", 250],
    ["PT1.5H", 5_400_000],
    ["P1D", 86_400_000],
    ["P2W", 1_209_600_000],
    ["P1DT2H3M4S", 93_784_000],
    ["PT0S", 0],
    ["PT1,5S", 1500],
    ["P0,5D", 43_200_000],
    ["PT5.0S", 5000],
    ["PT1.1S", 1100],
    ["PT8.2H", 29_520_000],
    ["PT0.0004S", 1],
    ["PT0.33333333333333333333S", 334],
    ["P0Y0M1DT0H0M0.0S", 86_400_000],
    ["P0Y", 0],
    ["PT0000000000000000000000001S", 1000],
    ["PT36H", 129_600_000],
  ])("%s is %i ms", (text, ms) => {
    expect(parseDuration(text)).toBe(ms);
  });

  it("is the sum of its parts as rationals, rounded up to the millisecond", () => {
    const units = { W: 604_800_000n, D: 86_400_000n, H: 3_600_000n, M: 60_000n, S: 1000n };
    const part = fc.option(
      fc.tuple(
        fc.stringMatching(/^\d{1,6}$/),
        fc.option(fc.tuple(fc.constantFrom(".", ","), fc.stringMatching(/^\d{1,12}$/))),
      ),
    );
    fc.assert(
      fc.property(fc.tuple(part, part, part, part, part), (parts) => {
        const written = parts.map((one, index) =>
          one === null ? "" : `${one[0]}${one[1]?.join("") ?? ""}${"WDHMS"[index]}`,
        );
        const [date, clock] = [written.slice(0, 2).join(""), written.slice(2).join("")];
        fc.pre(date + clock !== "");
        const picoseconds = parts.reduce((sum, one, index) => {
          const fraction = BigInt((one?.[1]?.[1] ?? "").padEnd(12, "0"));
          const scaled = BigInt(one?.[0] ?? 0) * 10n ** 12n + fraction;
          return sum + scaled * Object.values(units)[index]!;
        }, 0n);
        const ms = picoseconds / 10n ** 12n + (picoseconds % 10n ** 12n > 0n ? 1n : 0n);
        expect(parseDuration(`P${date}${clock && `T${clock}`}`)).toBe(Number(ms));
      }),
    );
  });

  it.each([
    ...[
      "P",
      "PT",
      "P1DT",
      "P1Y",
      "P1M",
      "P0Y1M",
      "1D",
      "PT1",
      "PT1S ",
      "P999999999999W",
      "pt1s",
      "PT.5S",
      "PT1.S",
      "P1S",
    ],
    ...["-PT1S", "PT-1S", "+PT1S", "PT1S1M", "PT1D", "P1H", "PT1.2.3S", "PT1e3S", `PT${"0".repeat(200)}1S`],
  ])("%j is refused", (text) => {
    expect(parseDuration(text)).toBeUndefined();
  });
});
