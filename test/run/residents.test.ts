// Residents: the runs that stay in memory are bounded by count and by estimated bytes. Any other waiting run is rows, and
// continues from them.
// @module-tag both

import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { asRunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { uuidv7 } from "../../src/ids.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { long } from "../harness/long.js";
import { until } from "../harness/until.js";
import { type Half, type HalfOptions, publish, signal, start, startHalf } from "./rig.js";
import { allEnd, allSound, nothingUnwatched, report } from "./seen.js";

let database: TestDatabase;
const halves: Half[] = [];

beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
  await publish(database, "signal", [{ id: "wait", type: "wait_for_signal", signal_name: "go" }]);
  await publish(database, "fork", [
    { id: "p", type: "parallel", branches: { a: { next: "a" } }, next: "j" },
    { id: "a", type: "noop" },
    { id: "j", type: "join" },
  ]);
  await publish(database, "timer", [{ id: "wait", type: "wait_until", until: "${inputs.until}" }]);
});
afterEach(async () => {
  for (const half of halves.splice(0)) await half.stop();
});
afterAll(() => database.drop());

async function half(options: HalfOptions = {}): Promise<Half> {
  const started = await startHalf(database, options);
  halves.push(started);
  return started;
}

/** On a slow machine the first timers are over when the last runs begin to wait. */
const parked = async (runIds: readonly string[]) => {
  const [row] = await database.sql<{ n: number }[]>`
    select count(*)::int as n from runs where (state = 'paused' or terminal_at is not null) and id = any(${[...runIds]}::text[]::uuid[])`;
  return row?.n === runIds.length;
};
/** The commits of the last runs have been answered, so all runs are idle. */
const atRest = ({ runtime }: Half) => until(() => runtime.residents.busy === 0);

const ROOM = long(10, 80);
const PARKED = 10 * ROOM;

describe("ten times as many parked runs as fit in memory", () => {
  it("never exceed the limit, and all of them end", async () => {
    const one = await half({ residents: { max: ROOM } });
    const { residents } = one.runtime;
    one.poller.start();
    const soon = new Date(Date.now() + long(5_000, 10_000)).toISOString();
    const runIds: string[] = [];
    let most = 0;
    for (let nth = 0; nth < PARKED; nth += 100) {
      const names = Array.from({ length: 100 }, (_, index) => (index % 2 === 0 ? "signal" : "timer"));
      runIds.push(...(await Promise.all(names.map((name) => start(one.starter, name, { inputs: { until: soon } })))));
      await atRest(one);
      most = Math.max(most, residents.size);
    }
    await until(() => parked(runIds));
    await atRest(one);
    expect([residents.size <= ROOM, most]).toEqual([true, ROOM]);
    await nothingUnwatched(database.sql);
    report({ parked: runIds.length, residents: residents.size, weight: residents.idleBytes });

    const waiting = runIds.filter((_, index) => index % 2 === 0);
    for (let nth = 0; nth < waiting.length; nth += 100) {
      const answers = waiting.slice(nth, nth + 100).map((runId) => {
        const id = uuidv7();
        return one.runtime.command(asRunId(runId), signal(id, "go", { nth }), { id, reach: EVERYTHING });
      });
      for (const answer of await Promise.all(answers)) expect(answer).toMatchObject({ matched: true });
    }
    await allEnd(database.sql, runIds);
    for (const { run, events } of await allSound(database.sql, runIds.slice(0, 200))) {
      expect(run.state).toBe("succeeded");
      const timer = events.find(({ event_type }) => event_type === "step.paused")?.metadata?.wakeup_at;
      const woken = events.find(({ event_type }) => event_type === "step.succeeded")?.recorded_at ?? "";
      if (timer !== undefined) expect(Date.parse(woken)).toBeGreaterThanOrEqual(Date.parse(String(timer)));
    }
  });
});

describe("a passivated run", { tags: "short" }, () => {
  it("has no timer; its wake row brings it back", async () => {
    const one = await half({ residents: { max: 10 } });
    const instant = new Date(Date.now() + 5_000).toISOString();
    const runIds = await Promise.all(
      Array.from({ length: 100 }, () => start(one.starter, "timer", { inputs: { until: instant } })),
    );
    await until(() => parked(runIds));
    await atRest(one);
    const ended = async () => {
      const [row] = await database.sql<{ n: number }[]>`
        select count(*)::int as n from runs where terminal_at is not null and id = any(${runIds}::text[]::uuid[])`;
      return row?.n ?? 0;
    };
    // Nothing polls: a run that ends was woken by a timer, and all were due at the same instant.
    await until(() => one.runtime.residents.size === 0);
    expect(await ended()).toBe(10);
    await one.poller.tick();
    expect(await ended()).toBe(100);
  });
});

describe("the estimated bytes of idle runs", { tags: "short" }, () => {
  it("have a limit of their own: few large runs stay where many small ones would", async () => {
    const heavy = await half({ residents: { max: 1_000, maxBytes: 4 * 2 ** 20 } });
    const text = "x".repeat(200_000);
    const runIds = await Promise.all(
      Array.from({ length: 40 }, (_, nth) =>
        start(heavy.starter, "signal", nth % 2 === 0 ? { variables: { text } } : { inputs: { text } }),
      ),
    );
    await until(() => parked(runIds));
    await atRest(heavy);
    const { residents } = heavy.runtime;
    expect(residents.idleBytes).toBeLessThanOrEqual(4 * 2 ** 20);
    // 400 KB each in memory, in either place.
    expect(residents.size).toBe(10);
  });

  it("shrink when a run leaves, and a short heap passivates the half that has been idle longest", async () => {
    const one = await half();
    const runIds = await Promise.all(Array.from({ length: 40 }, () => start(one.starter, "signal")));
    await until(() => parked(runIds));
    await atRest(one);
    const { residents } = one.runtime;
    const [newest = asRunId("")] = runIds;
    await one.runtime.command(newest, { type: "advance" }, { reach: EVERYTHING });
    await atRest(one);
    const before = residents.idleBytes;
    residents.passivateHalf();
    expect([residents.size, residents.idleBytes]).toEqual([20, before / 2]);
    expect(residents.has(newest)).toBe(true);
    for (let nth = 0; nth < 10; nth++) residents.passivateHalf();
    expect([residents.size, residents.idleBytes]).toEqual([0, 0]);
    const id = uuidv7();
    expect(await one.runtime.command(newest, signal(id, "go"), { id, reach: EVERYTHING })).toMatchObject({
      matched: true,
    });
    await allEnd(database.sql, [newest]);
    await atRest(one);
    expect([residents.size, residents.idleBytes]).toEqual([0, 0]);
  });
});

describe("a node that stops", { tags: "short" }, () => {
  it("does not take up a child that its last commit has created; another node does", async () => {
    const stopping = await half({ onCommit: (_, events) => forked(events) && void stopping.runtime.stop() });
    const forked = (events: readonly { readonly type: string }[]) => events.some(({ type }) => type === "step.paused");
    const runId = await start(stopping.starter, "fork");
    await stopping.runtime.stop();
    expect(stopping.runtime.residents.size).toBe(0);
    (await half()).poller.start();
    await allEnd(database.sql, [runId]);
  });
});
