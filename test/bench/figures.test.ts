import { describe, expect, it } from "vitest";
import { Durations } from "../../bench/measure/histogram.js";
import { writesBetween } from "../../bench/measure/writes.js";
import { median, medians, ratio, typicalLatencies } from "../../bench/report/figures.js";
import { shown } from "../../bench/report/text.js";
import type { ScenarioResult } from "../../bench/result.js";
import { aRepetition, aResult } from "./results.js";

function scenario(...seconds: number[]): ScenarioResult {
  const [found] = aResult(seconds).scenarios;
  return found!;
}

describe("a histogram", () => {
  it("has percentiles within a thousandth of the durations", () => {
    const durations = new Durations();
    for (let ms = 1; ms <= 10_000; ms++) durations.record(ms);
    const { samples, mean_ms, max_ms, distribution, ...percentiles } = durations.summary("x");
    expect(samples).toBe(10_000);
    for (const [name, exact] of Object.entries({ p50_ms: 5_000, p90_ms: 9_000, p99_ms: 9_900, p999_ms: 9_990 })) {
      const found = Number(percentiles[name as "p50_ms"]);
      expect(Math.abs(found / exact - 1), name).toBeLessThan(0.001);
    }
    expect(mean_ms).toBeCloseTo(5_000.5, 0);
    expect(max_ms / 10_000).toBeCloseTo(1, 3);
    const line = distribution.map(([, ms]) => ms);
    expect(line).toEqual([...line].sort((left, right) => left - right));
    expect(distribution.at(-1)?.[0]).toBe(100);
  });

  it("keeps what is shorter than a microsecond or longer than an hour", () => {
    const durations = new Durations();
    for (const ms of [0, -1, 10 * 3_600_000]) durations.record(ms);
    const { samples, p50_ms, max_ms } = durations.summary("x");
    expect([samples, p50_ms]).toEqual([3, 0.001]);
    expect(max_ms / 3_600_000).toBeCloseTo(1, 3);
  });
});

describe("the medians of a scenario", () => {
  it("are those of its repetitions, and costs are for 1,000 units or for a transition", () => {
    const found = medians(scenario(1, 2, 4));
    expect(found).toMatchObject({ throughput: 500, p50Ms: 3, p99Ms: 12, cpuPerThousand: 2, errors: 0 });
    expect(found).toMatchObject({ rowsPerTransition: 2.5, walPerTransition: 800, hotShare: 0.95 });
    expect(Object.fromEntries(found.cpuOfRole)).toEqual({ service: 1.5, postgres: 0.5 });
    expect(Object.fromEntries(found.memoryBytes)).toEqual({ service: 200 * 2 ** 20 });
  });

  it("are unknown where a part is unknown", () => {
    const unknown = aRepetition(2, {
      processes: [
        { role: "service", cpu_seconds: null, peak_memory_bytes: null },
        { role: "load", cpu_seconds: 1, peak_memory_bytes: 1 },
      ],
      ...{ writes: null, latencies: [] },
    });
    const found = medians({ ...scenario(), repetitions: [unknown] });
    for (const name of ["cpuPerThousand", "p50Ms", "rowsPerTransition", "walPerTransition", "hotShare"] as const)
      expect([name, found[name]]).toEqual([name, undefined]);
    expect(Object.fromEntries(found.cpuOfRole)).toEqual({ load: 1 });
  });

  it("of an even number are in the middle of two", () => {
    expect(median([4, 1, null, 2, 3])).toBe(2.5);
    expect(median([null, undefined])).toBeUndefined();
  });

  it("leave the distribution to the repetition in the middle", () => {
    const slow = aRepetition(9, { latencies: [] });
    expect(typicalLatencies({ ...scenario(1, 2), repetitions: [...scenario(1, 2).repetitions, slow] })).toHaveLength(1);
  });
});

describe("a figure", () => {
  it("is shown with three digits, or as unknown", () => {
    expect([0.012345, 1.2345, 12.345, 123.45, 12_345, 0, undefined].map(shown)).toEqual([
      "0.0123",
      "1.23",
      "12.3",
      "123",
      "12,345",
      "0",
      "–",
    ]);
  });

  it("has a ratio only to a known first one", () => {
    expect([ratio(3, 2), ratio(3, 0), ratio(3, undefined), ratio(undefined, 2)]).toEqual([
      1.5,
      undefined,
      undefined,
      undefined,
    ]);
  });
});

describe("writes", () => {
  it("are what came between two counts, of new tables too", () => {
    const table = (name: string, rows: number, updates: number, hot: number) => ({ table: name, rows, updates, hot });
    const before = { walBytes: 100, tables: [table("runs", 10, 5, 5), table("wakes", 7, 0, 0)] };
    const after = {
      walBytes: 400,
      tables: [table("runs", 30, 15, 14), table("wakes", 8, 0, 0), table("new", 2, 0, 0)],
    };
    expect(writesBetween(before, after, 9)).toEqual({
      ...{ transitions: 9, rows: 23, wal_bytes: 300 },
      tables: [{ table: "runs", updates: 10, hot: 9 }],
    });
  });
});
