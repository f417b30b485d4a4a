// The loops on a clock of the test, which moves only when all wait for it.
import { describe, expect, it } from "vitest";
import { drive, MAX_IN_PROGRESS, type Schedule } from "../../src/cli/bench/load.js";

/** Time passes when nothing else can happen. */
class VirtualClock {
  private time = 0;
  private readonly sleepers: { readonly at: number; readonly wake: () => void }[] = [];

  now(): number {
    return this.time;
  }

  sleep(ms: number): Promise<void> {
    return new Promise((wake) => {
      this.sleepers.push({ at: this.time + ms, wake });
    });
  }

  /** Until the work is done. */
  async pass(work: Promise<void>): Promise<void> {
    let over = false;
    const done = work.finally(() => {
      over = true;
    });
    while (!over) {
      await new Promise(setImmediate);
      this.sleepers.sort((left, right) => left.at - right.at);
      const next = this.sleepers.shift();
      if (next) this.time = Math.max(this.time, next.at);
      next?.wake();
    }
    await done;
  }
}

interface Begun {
  readonly nth: number;
  readonly intended: number;
  readonly at: number;
}

/** Operations that take `tookMs` each. */
async function play(
  schedule: Schedule,
  tookMs: number,
  stop?: AbortSignal,
): Promise<{ begun: Begun[]; most: number; end: number }> {
  const clock = new VirtualClock();
  const begun: Begun[] = [];
  let inProgress = 0;
  let most = 0;
  const begin = async (nth: number, intended: number) => {
    begun.push({ nth, intended, at: clock.now() });
    most = Math.max(most, ++inProgress);
    await clock.sleep(tookMs);
    inProgress--;
  };
  await clock.pass(drive(schedule, begin, stop, clock));
  return { begun, most, end: clock.now() };
}

describe("a closed loop", () => {
  it("keeps so many operations in progress, and begins each once", async () => {
    const { begun, most, end } = await play({ count: 10, concurrency: 4 }, 100);
    expect(begun.map(({ nth }) => nth)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect([most, end]).toEqual([4, 300]);
  });

  it("begins none after its duration", async () => {
    const { begun } = await play({ count: 1_000, concurrency: 2, durationMs: 250 }, 100);
    expect(begun.map(({ at }) => at)).toEqual([0, 0, 100, 100, 200, 200]);
  });

  it("begins none after it was stopped", async () => {
    expect((await play({ count: 10, concurrency: 4 }, 100, AbortSignal.abort())).begun).toEqual([]);
  });
});

describe("an open loop", () => {
  it("begins operations at its rate, however slow they are", async () => {
    const { begun, most } = await play({ count: 5, concurrency: 1, ratePerSecond: 10 }, 10_000);
    expect(begun.map(({ at }) => at)).toEqual([0, 100, 200, 300, 400]);
    expect(most).toBe(5);
  });

  it("ends when the last operation has ended", async () => {
    expect((await play({ count: 3, concurrency: 1, ratePerSecond: 10 }, 1_000)).end).toBe(1_200);
  });

  it("begins none after its duration", async () => {
    const { begun } = await play({ count: 1_000, concurrency: 1, ratePerSecond: 10, durationMs: 300 }, 1);
    expect(begun.map(({ at }) => at)).toEqual([0, 100, 200]);
  });

  it("keeps no more in progress than it may, and begins none when it is stopped while it waits", async () => {
    const bounded = { count: 8, concurrency: 1, ratePerSecond: 1_000, mostInProgress: 2 };
    expect((await play(bounded, 50)).most).toBe(2);
    const stop = new AbortController();
    const clock = new VirtualClock();
    const begun: number[] = [];
    const begin = async (nth: number) => {
      begun.push(nth);
      await clock.sleep(50);
      stop.abort();
    };
    await clock.pass(drive(bounded, begin, stop.signal, clock));
    expect(begun).toEqual([0, 1]);
    await clock.pass(drive({ count: 9, concurrency: 1, ratePerSecond: 0.001 }, begin, AbortSignal.abort(), clock));
    expect(begun).toEqual([0, 1]);
  });

  it("begins late where too many are in progress, and says when it should have begun", async () => {
    const { begun, most } = await play({ count: MAX_IN_PROGRESS + 2, concurrency: 1, ratePerSecond: 1_000 }, 60_000);
    expect(most).toBe(MAX_IN_PROGRESS);
    expect(begun.at(-1)).toEqual({ nth: MAX_IN_PROGRESS + 1, intended: MAX_IN_PROGRESS + 1, at: 60_001 });
  });
});
