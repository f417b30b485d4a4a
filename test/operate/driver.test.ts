// The driver of bulk jobs on a real store, with acts that the test decides: what a takeover, a stop, an outcome that is not known and two
// nodes at once leave behind. That the acts are right is bulk.test.ts.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { overloaded } from "../../src/errors.js";
import { shardOf, uuidv7 } from "../../src/ids.js";
import { createMetrics } from "../../src/metrics/index.js";
import { Driver, type DriverOptions } from "../../src/operate/driver.js";
import { ProgressWaits, targetCommandId, targetRunId } from "../../src/operate/index.js";
import { Pace } from "../../src/operate/pace.js";
import { SHARDS } from "../../src/shard/placement.js";
import {
  createJob,
  jobById,
  openTargets,
  refusalsOf,
  settleTargets,
  stopJob,
} from "../../src/store/lists/bulk-jobs.js";
import { Retention } from "../../src/store/upkeep/retention.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { newRunId } from "../harness/ids.js";
import { until } from "../harness/until.js";

const RUNS = 120;

let database: TestDatabase;
const runIds: RunId[] = Array.from({ length: RUNS }, () => newRunId());
beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
  const rows = runIds.map((id) => ({
    ...{ id, shard: shardOf(id), revision: 1, fence: 1, last_seq: 0, state: "paused", requires_manual_review: false },
    ...{ workflow_id: "orders", version: 1, definition_id: uuidv7(), record: "{}" },
    ...{ started_at: new Date(), last_event_at: new Date() },
  }));
  await database.sql`insert into runs ${database.sql(rows)}`;
});
afterAll(() => database.drop());

async function job(action = "pause"): Promise<string> {
  const id = uuidv7();
  const about = { id, action, filter: {}, params: {}, actor: "api", reach: EVERYTHING, requestHash: "" };
  expect(await createJob(database.sql, EVERYTHING, about, { workflowId: "orders" }, RUNS)).toBe(RUNS);
  return id;
}

type Act = DriverOptions["act"];

function driver(act: Act, more: Partial<DriverOptions> = {}): Driver {
  return new Driver({
    ...{ sql: database.sql, log: silentLog, metrics: createMetrics(), act, pace: new Pace(more.shards ? 400 : 2_000) },
    ...{ shards: () => SHARDS, shedding: () => false, ...more },
  });
}

async function once(node: Driver): Promise<void> {
  await node.poll();
  await node.idle();
}

const see = async (id: string) => {
  const { state, done, refused, endedAt } = (await jobById(database.sql, id)) ?? {};
  return { state, done, refused, ended: endedAt !== null };
};
const DONE = { state: "done", done: RUNS, refused: 0, ended: true };

/** Acts that are counted by run. */
function counted(act: Act = async () => ({})) {
  const acts = new Map<RunId, number>();
  const counting: Act = (job, target) => {
    acts.set(target.runId, (acts.get(target.runId) ?? 0) + 1);
    return act(job, target);
  };
  return { acts, counting };
}

describe("a job", () => {
  it("acts on each target once, and ends with the last", async () => {
    const id = await job();
    const { acts, counting } = counted();
    await once(driver(counting));
    expect(await see(id)).toEqual(DONE);
    expect([...acts.keys()].sort()).toEqual([...runIds].sort());
    expect(new Set(acts.values())).toEqual(new Set([1]));
  });

  it("counts refusals and keeps their messages, in the order of its targets", async () => {
    const id = await job();
    await once(driver(async (_, { nth }) => (nth % 2 === 0 ? { message: `no ${nth}` } : {})));
    expect(await see(id)).toEqual({ ...DONE, done: RUNS / 2, refused: RUNS / 2 });
    const refusals = await refusalsOf(database.sql, id, 3);
    expect(refusals.map(({ message }) => message)).toEqual(["no 2", "no 4", "no 6"]);
  });

  it("repeats an act whose outcome is not known, and nothing else", async () => {
    const id = await job();
    const stubborn = new Set([runIds[3], runIds[100]]);
    const { acts, counting } = counted(async (_, { runId }) => {
      if (stubborn.delete(runId)) throw overloaded("the outcome is not known");
      return {};
    });
    const node = driver(counting);
    await once(node);
    expect(await see(id)).toMatchObject({ state: "running", done: RUNS - 2 });
    await once(node);
    expect(await see(id)).toEqual(DONE);
    expect([...acts.values()].filter((count) => count > 1)).toEqual([2, 2]);
  });

  it("is left alone by a node that does not own its shard, or that sheds load", async () => {
    const id = await job();
    const { acts, counting } = counted();
    await once(driver(counting, { shards: () => SHARDS.filter((shard) => shard !== shardOf(id)) }));
    await once(driver(counting, { shedding: () => true }));
    expect([acts.size, await see(id)]).toEqual([0, { state: "running", done: 0, refused: 0, ended: false }]);
    await stopJob(database.sql, id);
  });

  it("that was stopped begins no more acts, and counts those on their way", async () => {
    const id = await job();
    const { acts, counting } = counted(async (_, { nth }) => {
      if (nth === 10) await stopJob(database.sql, id);
      return {};
    });
    await once(driver(counting, { shards: () => SHARDS }));
    const { state, done, ended } = await see(id);
    expect([state, done, ended]).toEqual(["stopped", acts.size, true]);
    expect(done).toBeLessThan(RUNS);
    await once(driver(counting));
    expect((await see(id)).done, "and nothing after").toBe(done);
  });
});

describe("another node", () => {
  it("goes on where one was killed between its acts and their bookkeeping", async () => {
    const id = await job();
    const first = counted();
    // Its acts are carried out, and nothing that it would write arrives.
    const dead = driver(first.counting, { sql: brokenAfter(2) });
    await once(dead);
    expect(first.acts.size).toBeGreaterThan(0);
    const second = counted();
    await once(driver(second.counting));
    expect(await see(id)).toEqual(DONE);
    const repeated = [...second.acts.keys()].filter((runId) => first.acts.has(runId));
    expect(repeated.length, "a batch is repeated, and its commands have the same ids").toBe(first.acts.size);
  });

  it("that drives the same job at the same time does the work again, and it counts once", async () => {
    const id = await job();
    const both = counted();
    await Promise.all([once(driver(both.counting)), once(driver(both.counting))]);
    await once(driver(both.counting));
    expect(await see(id)).toEqual(DONE);
  });

  it("settles the same targets, and one of the two counts", async () => {
    const id = await job();
    const outcomes = (await openTargets(database.sql, id, 0, 50)).map(({ nth }) => ({ nth }));
    await Promise.all(Array.from({ length: 4 }, () => settleTargets(database.sql, id, outcomes)));
    expect(await see(id)).toMatchObject({ state: "running", done: 50 });
    expect((await openTargets(database.sql, id, 0, 500)).length).toBe(RUNS - 50);
    await stopJob(database.sql, id);
    expect(await openTargets(database.sql, id, 0, 500), "a stopped job has none").toEqual([]);
  });
});

/** A pool whose statements fail after so many: what a node that dies no longer writes. */
function brokenAfter(statements: number): TestDatabase["sql"] {
  let left = statements;
  return new Proxy(database.sql, {
    apply(target, self, args) {
      // Parts of statements are calls of the driver, too.
      if (/\b(select|update|delete)\b/.test(String(args[0])) && left-- <= 0) throw new Error("the node is dead");
      return Reflect.apply(target, self, args);
    },
  });
}

describe("the ids of what a job does", () => {
  it("follow from the job and the run, in the shard of the run: a storage format", () => {
    const [bulk, run] = ["0190a000-0000-7000-8000-000000000001", "0190a000-0000-7000-8000-0000000000aa" as RunId];
    expect([targetCommandId(bulk, run), targetRunId(bulk, run)]).toEqual([
      "5576268d-c5ac-8f27-a90d-da0010d9f2aa",
      "50f4749d-9d8e-86aa-a2d7-5b6b97341e66",
    ]);
  });
});

/** Time that goes on only when everybody sleeps. */
class ManualTime {
  private at = 0;
  private readonly sleepers: { readonly until: number; wake(): void }[] = [];

  now(): number {
    return this.at;
  }

  sleep(ms: number): Promise<void> {
    return new Promise((wake) => this.sleepers.push({ until: this.at + ms, wake }));
  }

  /** Until nobody sleeps any more. */
  async runOut(): Promise<void> {
    for (;;) {
      await new Promise((resolve) => setImmediate(resolve));
      const next = this.sleepers.sort((one, other) => one.until - other.until).shift();
      if (!next) return;
      this.at = next.until;
      next.wake();
    }
  }
}

describe("the pace", () => {
  it("is so many a second, and no more at once than sixteen", async () => {
    const time = new ManualTime();
    const pace = new Pace(200, time);
    const began: number[] = [];
    let [running, most] = [0, 0];
    const work = async () => {
      began.push(time.now());
      most = Math.max(most, ++running);
      await time.sleep(30);
      running--;
    };
    const all = Array.from({ length: 60 }, () => pace.run(work));
    await time.runOut();
    await Promise.all(all);
    // Idle before, it may begin those of the slack at once; then one every 5 ms, as its line has room for all of them.
    expect(began).toEqual(Array.from({ length: 60 }, (_, nth) => Math.max(0, (nth - 9) * 5)));
    expect(most).toBeLessThanOrEqual(16);
    expect([new Pace(1).batch, new Pace(200).batch, new Pace(100_000).batch]).toEqual([1, 50, 500]);
  });
});

describe("a wait for progress", () => {
  it("ends with more done, with the job, with its client and with the service", async () => {
    const id = await job();
    const waits = new ProgressWaits(database.sql, silentLog);
    const client = new AbortController();
    const over: string[] = [];
    const wait = (name: string, more: { ms?: number; afterDone?: number; closed?: AbortSignal }) =>
      waits.wait(id, { ms: 60_000, closed: new AbortController().signal, ...more }).then(() => over.push(name));
    const all = [
      wait("one more", { afterDone: 0 }),
      wait("end", {}),
      wait("client", { closed: client.signal }),
      wait("time", { ms: 10 }),
    ];
    await until(() => over.includes("time"));
    client.abort();
    await until(() => over.includes("client"));
    await settleTargets(database.sql, id, [{ nth: 1 }]);
    await until(() => over.includes("one more"));
    expect(over).not.toContain("end");
    await stopJob(database.sql, id);
    await Promise.all(all);
    const last = wait("service", { afterDone: 1_000 });
    waits.stop();
    await last;
    expect(over).toEqual(["time", "client", "one more", "end", "service"]);
  });
});

describe("retention", () => {
  it("deletes jobs that ended long ago, with their targets, and no others", async () => {
    const [old, recent, running] = [await job(), await job(), await job()];
    await stopJob(database.sql, old);
    await stopJob(database.sql, recent);
    await database.sql`update bulk_jobs set ended_at = now() - interval '31 days' where id = ${old}`;
    await database.sql`update bulk_jobs set started_at = now() - interval '31 days' where id = ${running}`;
    await new Retention(database.sql).bulkJobs(30);
    const targetsOf = async (id: string) =>
      (await database.sql`select 1 from bulk_targets where bulk_id = ${id}`).length;
    expect([await jobById(database.sql, old), await targetsOf(old)]).toEqual([undefined, 0]);
    for (const id of [recent, running]) expect([id, await targetsOf(id)]).toEqual([id, RUNS]);
    await stopJob(database.sql, running);
  });
});
