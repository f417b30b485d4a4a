// The ratios of bench/access: what is judged within a bound, and what is not decided.
import { describe, expect, it } from "vitest";
import { inOrder } from "../../bench/access/order.js";
import { isWide, LEAST_ROUNDS, ratioOf, student95, verdictOf } from "../../bench/access/ratio.js";

const around = (ratio: number, spread: number, rounds = 20) =>
  ratioOf(
    Array.from({ length: rounds }, (_, nth) => ({ judged: ratio + (nth % 2 === 0 ? spread : -spread), against: 1 })),
  );

describe("the ratio of two costs", () => {
  it("has the interval of Student", () => {
    expect(student95(9)).toBeCloseTo(2.2622, 3);
    expect(student95(19)).toBeCloseTo(2.093, 3);
    expect(student95(199)).toBeCloseTo(1.972, 3);
    const { ratio, low, high, rounds } = around(1.02, 0.01);
    expect({ rounds, ratio: ratio.toFixed(3) }).toEqual({ rounds: 20, ratio: "1.020" });
    expect([low.toFixed(4), high.toFixed(4)]).toEqual(["1.0152", "1.0248"]);
  });

  it("is within a bound if the upper end of its interval is", () => {
    expect(verdictOf(around(1.02, 0.01), 0.05)).toBe("within");
    expect(verdictOf(around(1.048, 0.02), 0.05)).toBe("not within");
    expect(verdictOf(around(1.1, 0.01), 0.05)).toBe("not within");
  });

  it("is not decided while its interval is wide, or with few rounds", () => {
    expect(verdictOf(around(1, 0.3), 0.05)).toBe("not decided");
    expect(isWide(around(1, 0.001, LEAST_ROUNDS - 1), 0.05)).toBe(true);
    expect(verdictOf(around(Number.NaN, 0), 0.05)).toBe("not decided");
  });
});

it("gives each service each place in a turn", () => {
  const orders = Array.from({ length: 6 }, (_, nth) => inOrder(["a", "b", "c"], nth).join(""));
  expect(new Set(orders).size).toBe(6);
});
