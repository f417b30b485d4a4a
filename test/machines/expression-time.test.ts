// Instants and durations as text, against the host's own calendar as the oracle.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatInstant, parseDuration, parseInstant } from "../../machines/values/time.js";

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
    ["2024-02-29T00:00:00-00:30", Date.UTC(2024, 1, 29, 0, 30)],
    ["0000-01-01T00:00:00Z", -62_167_219_200_000],
  ])("reads %s", (text, ms) => {
    expect(parseInstant(text)).toBe(ms);
  });

  it.each([
    "2026-11-21",
    "2026-11-21T10:00:00",
    "2026-02-29T00:00:00Z",
    "2026-13-01T00:00:00Z",
    "2026-00-10T00:00:00Z",
    "2026-01-00T00:00:00Z",
    "2026-01-01T24:00:00Z",
    "2026-01-01T00:60:00Z",
    "2026-01-01T00:00:60Z",
    "2026-01-01T00:00:00+24:00",
    "0000-01-01T00:00:00+00:01",
    "+2026-01-01T00:00:00Z",
    " 2026-01-01T00:00:00Z",
    "",
  ])("refuses %j", (text) => {
    expect(parseInstant(text)).toBeUndefined();
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
  ])("%s is %i ms", (text, ms) => {
    expect(parseDuration(text)).toBe(ms);
  });

  it.each(["P", "PT", "P1DT", "P1Y", "P1M", "1D", "PT1", "-PT1S", "PT1S ", "P999999999999W", "pt1s"])(
    "%j is refused",
    (text) => {
      expect(parseDuration(text)).toBeUndefined();
    },
  );
});
