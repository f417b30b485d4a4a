// The backoff: how long the pause before another try is.
import { describe, expect, it } from "vitest";
import { backoff } from "../../src/sdk/backoff.js";

const PAUSE_MS = { base: 100, cap: 5_000 };

describe("the pause before another try", () => {
  it("doubles with each failure up to the cap, however many there are", () => {
    const longest = [0, 1, 2, 5, 6, 100, 10_000].map((failures) => backoff(failures, PAUSE_MS, () => 1));
    expect(longest).toEqual([100, 200, 400, 3_200, 5_000, 5_000, 5_000]);
    expect(backoff(10_000, { base: 0, cap: 5_000 })).toBe(0);
  });

  it("is between half and all of that, so that those that failed together come back one by one", () => {
    expect(backoff(1, PAUSE_MS, () => 0)).toBe(100);
    const pauses = Array.from({ length: 100 }, () => backoff(3, PAUSE_MS));
    expect(Math.min(...pauses)).toBeGreaterThanOrEqual(400);
    expect(Math.max(...pauses)).toBeLessThanOrEqual(800);
    expect(new Set(pauses).size).toBeGreaterThan(50);
  });
});
