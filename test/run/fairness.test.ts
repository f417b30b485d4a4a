// The loop of a node is shared: many runs that compute for long hold up neither another run nor I/O (law 14).
// @module-tag long
import { monitorEventLoopDelay } from "node:perf_hooks";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { asRunId } from "../../machines/index.js";
import { Announcer } from "../../src/events/announcer.js";
import { uuidv7 } from "../../src/ids.js";
import { publishEvent } from "../../src/store/engine/events.js";
import { FairScheduler } from "../../src/work/fair-scheduler.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { type Half, publish, type Step, start, startHalf } from "./rig.js";

const BURNERS = 300;
const WAITERS = 400;
/** A small run takes a few turns and commits, during which this part of them ends at most. */
const MOST = 0.75;
/** Uses its whole budget, and fails. */
const BURN =
  "[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, [0,1,2,3,4,5,6,7,8,9].all(d, [0,1,2,3,4,5,6,7,8,9].all(e, [0,1,2,3,4,5,6,7,8,9].all(f, true))))))";
const SMALL: Step[] = [
  { id: "one", type: "transform", expression: "1", next: "nap" },
  { id: "nap", type: "wait_duration", duration_ms: 1, next: "two" },
  { id: "two", type: "transform", expression: "2" },
];

let database: TestDatabase;
let half: Half;
beforeAll(async () => {
  database = await createTestDatabase();
  await publish(database, "small", SMALL);
  half = await startHalf(database, { scheduler: new FairScheduler() });
  half.poller.start();
});
afterAll(async () => {
  await half.stop();
  await database.drop();
});

/** Starts a small run once the burning has begun, and returns how many burners had ended when it ended, with the longest hold of the loop. */
async function besideBurners(burn: () => Promise<unknown>, ended: () => Promise<number>) {
  const delays = monitorEventLoopDelay({ resolution: 1 });
  delays.enable();
  const burning = burn();
  await until(async () => (await ended()) > 0, { pause: 1 });
  const runId = await start(half.starter, "small");
  const isOver = async () =>
    (await database.sql`select 1 from runs where id = ${runId} and terminal_at is not null`).length;
  await until(async () => (await isOver()) === 1);
  const before = await ended();
  await burning;
  delays.disable();
  return { before, longestMs: delays.max / 1e6 };
}

const countOf = async (condition: string) => {
  const [row] = await database.sql.unsafe<{ count: number }[]>(
    `select count(*)::int as count from runs where ${condition}`,
  );
  return row?.count ?? 0;
};

describe("a small run ends before", () => {
  it(`${BURNERS} items that burn their budgets`, async () => {
    await publish(database, "burners", [
      {
        id: "each",
        type: "foreach",
        items: "inputs.list",
        body: "burn",
        max_concurrency: 0,
        tolerated_failures: BURNERS,
      },
      { id: "burn", type: "transform", expression: BURN },
    ]);
    const inputs = { list: Array.from({ length: BURNERS }, (_, nth) => nth) };
    const root = asRunId(uuidv7());
    const ended = () => countOf(`parent_run_id = '${root}' and terminal_at is not null`);
    const { before, longestMs } = await besideBurners(async () => {
      await start(half.starter, "burners", { runId: root, inputs });
      await until(async () => (await countOf(`id = '${root}' and terminal_at is not null`)) === 1, { within: 120_000 });
    }, ended);
    console.log(
      `${BURNERS} burning items: ${before} ended before the small run, longest hold ${longestMs.toFixed(0)} ms`,
    );
    expect(before).toBeLessThan(BURNERS * MOST);
    expect(await ended()).toBe(BURNERS);
  }, 180_000);

  it(`${WAITERS} runs that wait for an event with a hostile match`, async () => {
    const step = { id: "wait", type: "wait_for_event", topic: "news", match: BURN, timeout_ms: 3_600_000 };
    await publish(database, "waiters", [step]);
    await Promise.all(Array.from({ length: WAITERS }, () => start(half.starter, "waiters")));
    const waiting = () => countOf("workflow_id = 'waiters' and paused_reason = 'event'");
    await until(async () => (await waiting()) === WAITERS);
    const announcer = new Announcer({
      ...{ sql: database.sql, log: silentLog },
      afterCommit: (runId, effects) => half.runtime.effects.afterCommit(runId, [], effects),
    });
    // A match that fails leaves the run waiting; the notice is answered.
    const ended = async () =>
      (await database.sql`select 1 from run_commands c join runs r on r.id = c.run_id where r.workflow_id = 'waiters'`)
        .length;
    const { before, longestMs } = await besideBurners(async () => {
      await publishEvent(database.sql, { id: uuidv7(), topic: "news", headers: {}, payload: {}, hash: "h" });
      await until(() => announcer.tick().then(async () => (await ended()) === WAITERS), {
        within: 120_000,
        pause: 200,
      });
    }, ended);
    console.log(
      `${WAITERS} hostile matches: ${before} ended before the small run, longest hold ${longestMs.toFixed(0)} ms`,
    );
    expect(before).toBeLessThan(WAITERS * MOST);
  }, 180_000);
});
