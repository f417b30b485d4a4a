// The node's clock against a database whose time, round trips and jumps the test sets by hand.
import type { Sql } from "postgres";
import { describe, expect, it, vi } from "vitest";
import { DatabaseClock } from "../src/clock.js";

/** A database and a monotonic clock. A query takes `there` milliseconds to arrive and `back` for its answer. */
function world() {
  const state = { monotonic: 1_000, database: 1_700_000_000_000 };
  const pass = (ms: number) => {
    state.monotonic += ms;
    state.database += ms;
  };
  const trip = (there: number, back: number): Sql =>
    (async () => {
      pass(there);
      const now = new Date(state.database);
      pass(back);
      return [{ now }];
    }) as unknown as Sql;
  return { state, pass, trip, clock: new DatabaseClock(() => state.monotonic) };
}

describe("the node's clock", () => {
  it("is never ahead of the database and at most one round trip behind it", async () => {
    const { state, pass, trip, clock } = world();
    for (const [there, back] of [
      [1, 1],
      [40, 2],
      [2, 60],
      [0, 0],
    ] as const) {
      await clock.measure(trip(there, back));
      pass(250);
      expect(clock.now()).toBeLessThanOrEqual(state.database);
      expect(state.database - clock.now()).toBeLessThanOrEqual(there + back + 2);
    }
  });

  it("does not change when the host's clock is set by an hour, either way", async () => {
    // The clock of a node as it is: nothing is put in its place but the host's own clock.
    const clock = new DatabaseClock();
    const began = performance.now();
    const database = () => 1_700_000_000_000 + performance.now() - began;
    const sql = (async () => [{ now: new Date(database()) }]) as unknown as Sql;
    await clock.measure(sql);
    const real = Date.now();
    const host = vi.spyOn(Date, "now");
    try {
      for (const step of [3_600_000, -3_600_000]) {
        host.mockReturnValue(real + step);
        expect(Math.abs(clock.now() - database())).toBeLessThan(600_000);
        await clock.measure(sql);
        expect(Math.abs(clock.now() - database())).toBeLessThan(600_000);
      }
    } finally {
      host.mockRestore();
    }
  });

  it("is not set back by one slow round trip", async () => {
    const { state, pass, trip, clock } = world();
    await clock.measure(trip(1, 1));
    pass(1_000);
    await clock.measure(trip(10, 4_000));
    pass(1_000);
    expect(state.database - clock.now()).toBeLessThanOrEqual(10);
  });

  it("never goes back while the database's clock runs on", async () => {
    const { pass, trip, clock } = world();
    let before = 0;
    for (const back of [1, 900, 3, 50, 0]) {
      await clock.measure(trip(1, back));
      expect(clock.now()).toBeGreaterThanOrEqual(before);
      before = clock.now();
      pass(7);
    }
  });

  it("follows a database whose clock was set back, instead of standing still until it catches up", async () => {
    const { state, pass, trip, clock } = world();
    await clock.measure(trip(1, 1));
    clock.now();
    state.database -= 3_600_000;
    await clock.measure(trip(1, 1));
    pass(100);
    expect(Math.abs(clock.now() - state.database)).toBeLessThanOrEqual(3);
  });
});
