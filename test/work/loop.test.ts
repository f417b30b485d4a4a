// The loop of durable work, with a clock that the test moves: when a round begins, what it follows, and that nothing ends it but `stop`.
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type LoopOptions, WorkLoop, withGrace } from "../../src/work/loop.js";

const PAUSE_MS = 500;
const started: WorkLoop<string>[] = [];
let lines: string[];

beforeEach(() => {
  vi.useFakeTimers();
  lines = [];
});
afterEach(async () => {
  await Promise.all(started.splice(0).map((loop) => loop.stop()));
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

const line = (level: string) => (_: unknown, message?: unknown) => void lines.push(`${level} ${message}`);
const log = {
  debug: line("debug"),
  info: line("info"),
  warn: line("warn"),
  error: line("error"),
} as LoopOptions<string>["log"];

function loopOf(options: Omit<LoopOptions<string>, "what" | "log">): WorkLoop<string> {
  const loop = new WorkLoop<string>({ what: "tests", log, ...options });
  started.push(loop);
  return loop;
}

/** A work whose rounds end when the test ends them. */
function heldRounds<T>() {
  const held: { end(value: T): void; fail(error: Error): void }[] = [];
  let begun = 0;
  const round = () => {
    begun++;
    return new Promise<T>((resolve, reject) => held.push({ end: resolve, fail: reject }));
  };
  /** The oldest round that goes on. */
  const oldest = () => {
    const first = held.shift();
    if (!first) throw new Error("no round goes on");
    return first;
  };
  return {
    round,
    get begun() {
      return begun;
    },
    get inProgress() {
      return held.length;
    },
    end: async (value: T) => {
      oldest().end(value);
      await settle();
    },
    fail: async (message: string) => {
      oldest().fail(new Error(message));
      await settle();
    },
  };
}

/** Whatever follows without a timer has followed. */
const settle = () => vi.advanceTimersByTimeAsync(0);

describe("a poll", () => {
  it("begins after a pause, and again after a pause that is counted from its end", async () => {
    const work = heldRounds<boolean>();
    const loop = loopOf({ polls: { pauseMs: PAUSE_MS, round: work.round } });
    loop.start();
    await vi.advanceTimersByTimeAsync(PAUSE_MS - 1);
    expect(work.begun).toBe(0);
    await vi.advanceTimersByTimeAsync(1);
    expect(work.begun).toBe(1);
    await vi.advanceTimersByTimeAsync(10 * PAUSE_MS);
    expect(work.begun).toBe(1);
    await work.end(false);
    await vi.advanceTimersByTimeAsync(PAUSE_MS - 1);
    expect(work.begun).toBe(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(work.begun).toBe(2);
    await work.end(false);
  });

  it("follows a full batch at once, one round at a time", async () => {
    const work = heldRounds<boolean>();
    const loop = loopOf({ polls: { pauseMs: PAUSE_MS, round: work.round } });
    loop.start();
    await vi.advanceTimersByTimeAsync(PAUSE_MS);
    for (const nth of [2, 3]) {
      await work.end(true);
      expect([work.begun, work.inProgress]).toEqual([nth, 1]);
    }
    await work.end(false);
    expect(work.begun).toBe(3);
  });

  it("pauses for longer after a round that took long, if its work says so", async () => {
    const work = heldRounds<void>();
    const loop = loopOf({ polls: { pauseMs: (tookMs) => Math.max(PAUSE_MS, 2 * tookMs), round: work.round } });
    loop.start();
    await vi.advanceTimersByTimeAsync(PAUSE_MS + 3_000);
    await work.end();
    await vi.advanceTimersByTimeAsync(5_999);
    expect(work.begun).toBe(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(work.begun).toBe(2);
    await work.end();
  });

  it("that is asked for comes at once, and many that ask share a round", async () => {
    const work = heldRounds<boolean>();
    const loop = loopOf({ polls: { pauseMs: PAUSE_MS, round: work.round } });
    loop.start();
    loop.pollSoon();
    loop.pollSoon();
    await settle();
    expect(work.begun).toBe(1);
    // The round may have read before what these are about.
    for (let nth = 0; nth < 5; nth++) loop.pollSoon();
    await work.end(false);
    expect(work.begun).toBe(2);
    await work.end(false);
    expect(work.begun).toBe(2);
    await vi.advanceTimersByTimeAsync(PAUSE_MS);
    expect(work.begun).toBe(3);
    await work.end(false);
  });

  it("is not asked for before the loop is started", async () => {
    const work = heldRounds<boolean>();
    const loop = loopOf({ polls: { pauseMs: PAUSE_MS, round: work.round } });
    loop.pollSoon();
    await vi.advanceTimersByTimeAsync(10 * PAUSE_MS);
    expect(work.begun).toBe(0);
  });

  it("now ends when nothing more is due, without a start too, and throws what a round throws", async () => {
    const batches = [true, true, false];
    const round = async () => {
      const more = batches.shift();
      if (more === undefined) throw new Error("away");
      return more;
    };
    const loop = loopOf({ polls: { pauseMs: PAUSE_MS, round } });
    await loop.now();
    expect(batches).toEqual([]);
    await expect(loop.now()).rejects.toThrow("away");
    expect(vi.getTimerCount()).toBe(0);
  });

  it("now begins after the round in progress, which may have read too early", async () => {
    const work = heldRounds<boolean>();
    const loop = loopOf({ polls: { pauseMs: PAUSE_MS, round: work.round } });
    loop.start();
    loop.pollSoon();
    await settle();
    const over = vi.fn();
    void loop.now().then(over);
    void loop.now().then(over);
    await work.end(false);
    expect([work.begun, over.mock.calls.length]).toEqual([2, 0]);
    await work.end(false);
    expect(over).toHaveBeenCalledTimes(2);
  });
});

describe("a round that fails", () => {
  it("is followed by the next one after the pause: neither a hint nor a batch before it shortens that", async () => {
    const work = heldRounds<boolean>();
    const loop = loopOf({ polls: { pauseMs: PAUSE_MS, round: work.round } });
    loop.start();
    loop.pollSoon();
    await settle();
    await work.end(true);
    loop.pollSoon();
    await work.fail("the store is away");
    loop.pollSoon();
    await vi.advanceTimersByTimeAsync(PAUSE_MS - 1);
    expect(work.begun).toBe(2);
    await vi.advanceTimersByTimeAsync(1);
    expect(work.begun).toBe(3);
    await work.end(false);
    // It works again.
    loop.pollSoon();
    await settle();
    expect(work.begun).toBe(4);
    await work.end(false);
  });

  it("is a warning once for a series of the same failures, and so is its end", async () => {
    const failures = ["away", "away", "away", "broken", undefined, "away"];
    const round = async () => {
      const failure = failures.shift();
      if (failure) throw new Error(failure);
    };
    const loop = loopOf({ polls: { pauseMs: PAUSE_MS, round } });
    loop.start();
    await vi.advanceTimersByTimeAsync(6 * PAUSE_MS);
    expect(lines).toEqual([
      "warn tests: round failed, retrying after a pause",
      "debug tests: round failed, retrying after a pause",
      "debug tests: round failed, retrying after a pause",
      "warn tests: round failed, retrying after a pause",
      "info tests: works again",
      "warn tests: round failed, retrying after a pause",
    ]);
  });

  it("for the keys of hints leaves them to a poll, and the next keys are carried out", async () => {
    const work = heldRounds<void>();
    const loop = loopOf({ hints: { round: work.round, batch: 1, most: 10 } });
    loop.hint("a");
    loop.hint("b");
    await settle();
    await work.fail("away");
    expect([work.begun, work.inProgress, loop.waiting.size]).toEqual([2, 1, 0]);
    await work.end();
    expect(lines).toEqual(["warn tests: hints failed, left to a poll", "info tests: works again"]);
  });
});

describe("a hint", () => {
  it("is carried out at once, without a poll and before a start", async () => {
    const polled = vi.fn(async () => {});
    const taken: string[] = [];
    const loop = loopOf({
      polls: { pauseMs: PAUSE_MS, round: polled },
      hints: { round: async (keys) => void taken.push(...keys), batch: 10, most: 10 },
    });
    loop.hint("a");
    await settle();
    expect(taken).toEqual(["a"]);
    expect(polled).not.toHaveBeenCalled();
  });

  it("that comes during work is carried out after it, in bounded batches, each key once", async () => {
    const taken: (readonly string[])[] = [];
    const work = heldRounds<void>();
    const round = (keys: readonly string[]) => {
      taken.push(keys);
      return work.round();
    };
    const loop = loopOf({ hints: { round, batch: 2, most: 10 } });
    loop.hint("a");
    await settle();
    for (const key of ["b", "c", "b", "d", "a"]) loop.hint(key);
    for (let nth = 0; nth < 3; nth++) await work.end();
    expect(taken).toEqual([["a"], ["b", "c"], ["d", "a"]]);
  });

  it("beyond the bound is dropped: the poll finds its work", async () => {
    const taken: string[] = [];
    const loop = loopOf({ hints: { round: async (keys) => void taken.push(...keys), batch: 10, most: 2 } });
    for (const key of ["begun", "a", "b", "c"]) loop.hint(key);
    expect(loop.waiting).toEqual(new Set(["a", "b"]));
    await settle();
    expect(taken).toEqual(["begun", "a", "b"]);
  });

  it("takes turns with a poll that has a backlog, and neither waits for the end of the other", async () => {
    const order: string[] = [];
    let backlog = 3;
    const loop = loopOf({
      polls: {
        pauseMs: PAUSE_MS,
        round: async () => {
          order.push("poll");
          return --backlog > 0;
        },
      },
      hints: { round: async ([key]) => void order.push(String(key)), batch: 1, most: 10 },
    });
    loop.start();
    loop.pollSoon();
    for (const key of ["a", "b", "c"]) loop.hint(key);
    await settle();
    expect(order).toEqual(["poll", "a", "poll", "b", "poll", "c"]);
  });
});

describe("a stop", () => {
  it("waits for the round in progress, and nothing begins afterwards", async () => {
    const [polls, hints] = [heldRounds<boolean>(), heldRounds<void>()];
    const loop = loopOf({
      polls: { pauseMs: PAUSE_MS, round: polls.round },
      hints: { round: hints.round, batch: 1, most: 10 },
    });
    loop.start();
    loop.pollSoon();
    loop.hint("a");
    await settle();
    const stopped = vi.fn();
    const [first, second] = [loop.stop().then(stopped), loop.stop().then(stopped)];
    expect(loop.stopping).toBe(true);
    await vi.advanceTimersByTimeAsync(10 * PAUSE_MS);
    expect(stopped).not.toHaveBeenCalled();
    await polls.end(true);
    await Promise.all([first, second]);
    loop.hint("b");
    loop.pollSoon();
    loop.start();
    await loop.now();
    await vi.advanceTimersByTimeAsync(10 * PAUSE_MS);
    expect([polls.begun, hints.begun, vi.getTimerCount()]).toEqual([1, 0, 0]);
  });

  it("before the start is complete, and there is no start after it", async () => {
    const polled = vi.fn(async () => {});
    const loop = loopOf({ polls: { pauseMs: PAUSE_MS, round: polled } });
    await loop.stop();
    loop.start();
    await vi.advanceTimersByTimeAsync(10 * PAUSE_MS);
    expect(polled).not.toHaveBeenCalled();
  });

  it("cuts the round short after its grace period, and waits for its end all the same", async () => {
    const work = heldRounds<boolean>();
    const loop = loopOf({ polls: { pauseMs: PAUSE_MS, round: work.round } });
    loop.start();
    loop.pollSoon();
    await settle();
    const [cutShort, stopped] = [vi.fn(), vi.fn()];
    void loop.stop({ ms: 1_000, cutShort }).then(stopped);
    await vi.advanceTimersByTimeAsync(999);
    expect(cutShort).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1);
    expect(cutShort).toHaveBeenCalledOnce();
    expect(stopped).not.toHaveBeenCalled();
    await work.end(false);
    expect(stopped).toHaveBeenCalledOnce();
  });

  it("whose work ends within the grace period cuts nothing short", async () => {
    const cutShort = vi.fn();
    await withGrace(Promise.resolve(), { ms: 1_000, cutShort });
    await expect(withGrace(Promise.reject(new Error("no")), { ms: 1_000, cutShort })).rejects.toThrow("no");
    await vi.advanceTimersByTimeAsync(5_000);
    expect(cutShort).not.toHaveBeenCalled();
  });
});
