// Counts over tables are taken by one node, and rarely where they are slow.
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { countingLoop } from "../../src/cluster/counts.js";
import { silentLog } from "../harness/database.js";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function node({ mine = true, takesMs = 0, fails = false } = {}) {
  const state = { mine, counted: 0, forgotten: 0 };
  const counts = countingLoop({
    ...{ what: "counts", log: silentLog },
    isMine: () => state.mine,
    count: async () => {
      // On the fake clock, which the tests advance.
      await new Promise((resolve) => setTimeout(resolve, takesMs));
      state.counted++;
      if (fails) throw new Error("the store is away");
    },
    forget: () => state.forgotten++,
  });
  counts.start();
  return { state, counts };
}

describe("counts over tables", () => {
  it("are taken by the node that owns them, and forgotten by it when it does not any more", async () => {
    const [owner, other] = [node(), node({ mine: false })];
    await vi.advanceTimersByTimeAsync(15_100);
    expect([owner.state, other.state]).toMatchObject([{ counted: 3, forgotten: 0 }, { counted: 0 }]);
    expect(other.state.forgotten).toBeGreaterThan(0);
    [owner.state.mine, other.state.mine] = [false, true];
    await vi.advanceTimersByTimeAsync(5_100);
    expect([owner.state.counted, other.state.counted]).toEqual([3, 1]);
    expect(owner.state.forgotten).toBeGreaterThan(0);
    await Promise.all([owner.counts.stop(), other.counts.stop()]);
  });

  it("take at most a twentieth of the time, one at a time, also where they fail", async () => {
    const slow = node({ takesMs: 10_000, fails: true });
    await vi.advanceTimersByTimeAsync(5_000 + 10_000 + 189_000);
    expect(slow.state.counted).toBe(1);
    await vi.advanceTimersByTimeAsync(1_000 + 10_000);
    expect(slow.state.counted).toBe(2);
    await slow.counts.stop();
    await vi.advanceTimersByTimeAsync(1_000_000);
    expect(slow.state.counted).toBe(2);
  });
});
