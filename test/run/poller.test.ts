// The poller: due rows reach their runs in bounded batches, and a run that is found guilty in a trial ends in quarantine.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { EVERYTHING } from "../../src/access/index.js";
import { shardOf, uuidv7 } from "../../src/ids.js";
import type { Judge } from "../../src/run/judge.js";
import { SHARDS } from "../../src/shard/placement.js";
import { inbox, outbox, reclaim, wakes } from "../../src/store/engine/poll.js";
import { createTestDatabase, deleteRuns, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { type Half, type HalfOptions, publish, registerActions, signal, start, startHalf } from "./rig.js";
import { allEnd, allSound, look, nothingUnwatched, report, typesOf } from "./seen.js";

let database: TestDatabase;
const halves: Half[] = [];

beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
  await registerActions(database, "charge");
  await publish(database, "quick", [{ id: "only", type: "noop" }]);
  await publish(database, "timer", [{ id: "wait", type: "wait_duration", duration_ms: 300 }]);
  await publish(database, "later", [{ id: "wait", type: "wait_duration", duration_ms: 600_000 }]);
  await publish(database, "wait", [{ id: "wait", type: "wait_for_signal", signal_name: "go" }]);
  await publish(database, "pay", [{ id: "pay", type: "action", action: "shop.charge" }]);
});
beforeEach(async () => {
  // Polls cover all shards, so rows that another test has left would be theirs too.
  await deleteRuns(database.sql);
});
afterEach(async () => {
  for (const half of halves.splice(0)) await half.stop();
});
afterAll(() => database.drop());

/** Hints are off, so that only the poll moves a run. */
async function half(options: HalfOptions = {}): Promise<Half> {
  const started = await startHalf(database, { hints: false, ...options });
  halves.push(started);
  return started;
}

const takeDue = async (limit = 500) => (await wakes.lease(database.sql, SHARDS, limit)).rows;
const makeDue = () => database.sql`update wakes set due_at = now() - interval '1 s'`;
const wakeOf = async (runId: string) => {
  const [row] = await database.sql<{ tries: number; due_in_ms: number }[]>`
    select tries, (extract(epoch from due_at - now()) * 1000)::int as due_in_ms from wakes where run_id = ${runId}`;
  return row;
};

describe("a due wake", () => {
  it("is leased: no other node gets it for a while, and its tries are counted", async () => {
    const { starter } = await half();
    const runId = await start(starter, "quick");
    await makeDue();
    expect(await takeDue()).toEqual([{ run_id: runId, tries: 1 }]);
    expect(await takeDue()).toEqual([]);
    expect((await wakeOf(runId))?.due_in_ms).toBeGreaterThan(4_000);
    await makeDue();
    expect(await takeDue()).toEqual([{ run_id: runId, tries: 2 }]);
  });

  it("is leased to one of many nodes that poll at once", async () => {
    const { starter } = await half();
    await Promise.all(Array.from({ length: 50 }, () => start(starter, "quick")));
    await makeDue();
    const taken = (await Promise.all(Array.from({ length: 4 }, () => takeDue(20)))).flat();
    expect(new Set(taken.map(({ run_id }) => run_id)).size).toBe(taken.length);
    expect(taken.length + (await takeDue()).length).toBe(50);
  });

  it("has its tries reset by a commit", async () => {
    const { starter, poller } = await half();
    const runId = await start(starter, "later");
    await makeDue();
    await takeDue();
    await makeDue();
    await poller.tick();
    expect((await look(database.sql, runId)).run.state).toBe("paused");
    expect(await wakeOf(runId)).toMatchObject({ tries: 0 });
    await nothingUnwatched(database.sql);
  });

  it("never fires early, and gets its due time back if it was polled too soon", async () => {
    const { starter, poller } = await half();
    const runId = await start(starter, "timer");
    await makeDue();
    await poller.tick();
    await makeDue();
    await poller.tick();
    const wake = await wakeOf(runId);
    const seen = await look(database.sql, runId);
    const paused = seen.events.find(({ event_type }) => event_type === "step.paused");
    // Even if the row is wrong, the run itself knows its due time.
    if (seen.run.state === "paused") expect(wake?.due_in_ms).toBeLessThanOrEqual(300);
    await until(async () => {
      await poller.tick();
      return (await look(database.sql, runId)).run.state === "succeeded";
    });
    const [ended] = await allSound(database.sql, [runId]);
    const succeeded = ended?.events.find(({ event_type }) => event_type === "step.succeeded");
    const dueAt = Date.parse(String(paused?.metadata?.wakeup_at));
    expect(Date.parse(succeeded?.recorded_at ?? "")).toBeGreaterThanOrEqual(dueAt);
  });

  it("of another node's shard is not taken", async () => {
    const { starter } = await half();
    const runId = await start(starter, "quick");
    await makeDue();
    const others = SHARDS.filter((shard) => shard !== shardOf(runId));
    expect((await wakes.lease(database.sql, others, 10)).rows).toEqual([]);
    expect((await wakes.lease(database.sql, [shardOf(runId)], 10)).rows).toHaveLength(1);
  });

  it("of a run that has ended is removed", async () => {
    const { starter, poller } = await half();
    const runId = await start(starter, "quick");
    await makeDue();
    await poller.tick();
    expect((await look(database.sql, runId)).run.state).toBe("succeeded");
    const row = { run_id: runId, shard: shardOf(runId), due_at: new Date(0) };
    await database.sql`insert into wakes ${database.sql(row)}`;
    await poller.tick();
    expect(await wakeOf(runId)).toBeUndefined();
    await allSound(database.sql, [runId]);
  });
});

describe("many overdue rows", () => {
  it("are worked off in bounded batches, all of them in one poll", async () => {
    const { starter, poller } = await half();
    const runIds = await Promise.all(Array.from({ length: 600 }, () => start(starter, "quick")));
    await makeDue();
    expect(await takeDue(500)).toHaveLength(500);
    await makeDue();
    const began = performance.now();
    await poller.tick();
    await allEnd(database.sql, runIds);
    report({ overdue: runIds.length, ms: performance.now() - began });
    await nothingUnwatched(database.sql);
  });
});

describe("a run that never commits", () => {
  const proof = { trials: 3, end: "ended", signal: "SIGSEGV", heap_mb: 30, ms: 12 } as const;
  const trials: Judge = {
    verdictOn: async (suspect) =>
      "command" in suspect && suspect.command.type === "quarantine" ? { kind: "lived" } : { kind: "guilty", proof },
  };

  /** A node took the row and died, twice. */
  async function bringDown(runId: string): Promise<void> {
    for (let nth = 1; nth <= 2; nth++) {
      await makeDue();
      expect(await takeDue()).toEqual([{ run_id: runId, tries: nth }]);
    }
    await makeDue();
  }

  it("is in quarantine once it is found guilty, and continues when it is released", async () => {
    const { runtime, starter, poller } = await half({ trials });
    const runId = await start(starter, "wait");
    await bringDown(runId);
    await poller.tick();
    const quarantined = await look(database.sql, runId);
    expect(quarantined.run).toMatchObject({ state: "paused", paused_reason: "quarantine", quarantine: proof });
    expect(quarantined.events.at(-1)?.metadata).toEqual({ kind: "quarantine", ...proof });
    expect(await wakeOf(runId)).toBeUndefined();
    await nothingUnwatched(database.sql);

    const id = uuidv7();
    expect(await runtime.command(runId, signal(id, "go"), { id, reach: EVERYTHING })).toMatchObject({ matched: false });
    expect(await runtime.command(runId, { type: "advance" }, { reach: EVERYTHING })).toEqual({ type: "advanced" });
    expect((await look(database.sql, runId)).run.state).toBe("paused");

    expect(await runtime.command(runId, { type: "release", actor: "user:op" }, { reach: EVERYTHING })).toMatchObject({
      type: "acted",
      changed: true,
    });
    await until(async () => {
      await makeDue();
      await poller.tick();
      return (await look(database.sql, runId)).run.state === "succeeded";
    });
    const [seen] = await allSound(database.sql, [runId]);
    expect(seen?.events.map(({ metadata }) => metadata?.kind).filter(Boolean)).toEqual([
      "quarantine",
      "signal",
      "release",
    ]);
    expect(await runtime.command(runId, { type: "release", actor: "user:op" }, { reach: EVERYTHING })).toMatchObject({
      type: "refused",
    });
  });

  it("counts a try and is due at once if its shard is taken over while it steps", async () => {
    const { starter } = await half();
    const runId = await start(starter, "quick");
    const timer = await start(starter, "timer");
    await database.sql`update wakes set due_at = now() + interval '1 h' where run_id = ${timer}`;
    await reclaim(database.sql, SHARDS);
    expect(await wakeOf(runId)).toMatchObject({ tries: 1 });
    expect(await wakeOf(timer)).toMatchObject({ tries: 0 });
    expect(await takeDue()).toEqual([{ run_id: runId, tries: 2 }]);
    await reclaim(database.sql, SHARDS);
    expect(await takeDue()).toEqual([{ run_id: runId, tries: 3 }]);
  });

  it("is not suspected while its node survives", async () => {
    const { starter, poller } = await half();
    const runId = await start(starter, "wait");
    for (let nth = 1; nth <= 2; nth++) {
      await makeDue();
      await takeDue();
    }
    await makeDue();
    await poller.tick();
    expect((await look(database.sql, runId)).run).toMatchObject({ state: "paused", awaited_signal: "go" });
  });

  it("can be cancelled out of its quarantine", async () => {
    const { runtime, starter, poller } = await half({ trials });
    const runId = await start(starter, "wait");
    await bringDown(runId);
    await poller.tick();
    const answer = await runtime.command(
      runId,
      { type: "cancel", compensate: true, actor: "api" },
      { reach: EVERYTHING },
    );
    expect(answer).toEqual({ type: "cancel", state: "cancelled", alreadyTerminal: false });
    const [seen] = await allSound(database.sql, [runId]);
    expect(typesOf(seen?.events ?? []).at(-1)).toBe("run.cancelled");
  });

  it("still owes its dispatch, and a worker's answer waits until the run is released", async () => {
    const { runtime, starter, poller, dispatcher } = await half({ trials, reply: () => undefined });
    const runId = await start(starter, "pay");
    await makeDue();
    await poller.tick();
    const { dispatchId } = await until(() => dispatcher.sent[0]);
    await bringDown(runId);
    await poller.tick();
    expect((await look(database.sql, runId)).run).toMatchObject({ paused_reason: "quarantine" });
    const result = { type: "result", dispatchId, result: {}, actor: "worker:w" } as const;
    const id = uuidv7();
    expect(await runtime.command(runId, result, { id, reach: EVERYTHING })).toMatchObject({ type: "refused" });
    await runtime.command(runId, { type: "release", actor: "user:op" }, { reach: EVERYTHING });
    await nothingUnwatched(database.sql);
    expect(await runtime.command(runId, result, { id, reach: EVERYTHING })).toEqual({ type: "report", stale: false });
    await allEnd(database.sql, [runId]);
    await allSound(database.sql, [runId]);
  });
});

describe("inbox and outbox", () => {
  const takeInbox = async () => (await inbox.lease(database.sql, SHARDS, 10)).rows;
  const takeOutbox = async () => (await outbox.lease(database.sql, SHARDS, 10)).rows;
  const inboxRow = async (runId: string) => {
    const id = uuidv7();
    const row = { id, run_id: runId, shard: shardOf(runId), command: '{"type":"advance"}', due_at: new Date(0) };
    await database.sql`insert into inbox ${database.sql(row)}`;
    return id;
  };

  it("bring a durable command to its run, and its row is deleted in the commit that answers it", async () => {
    const { starter, poller } = await half();
    const runId = await start(starter, "wait");
    const command = signal(uuidv7(), "go", { n: 1 });
    const row = { id: uuidv7(), run_id: runId, shard: shardOf(runId), due_at: new Date(0) };
    await makeDue();
    await poller.tick();
    await database.sql`insert into inbox ${database.sql({ ...row, command: JSON.stringify(command) })}`;
    await poller.tick();
    await until(async () => (await look(database.sql, runId)).run.state === "succeeded");
    expect(await database.sql`select 1 from inbox`).toHaveLength(0);
    const signals = await database.sql`select payload from signals where run_id = ${runId}`;
    expect([...signals]).toEqual([{ payload: { n: 1 } }]);
  });

  it("lease their rows, and make all of them due for a node that takes a shard over", async () => {
    const { starter, dispatcher, poller } = await half();
    dispatcher.credit = false;
    const runId = await start(starter, "pay");
    // Once the run was looked at in vain, its call gets a row.
    await until(async () => {
      await makeDue();
      await poller.tick();
      return (await database.sql`select 1 from outbox where run_id = ${runId}`).length === 1;
    });
    const id = await inboxRow(runId);
    expect(await takeInbox()).toMatchObject([{ id, run_id: runId }]);
    expect(await takeInbox()).toEqual([]);
    expect(await takeOutbox()).toEqual([]);
    await reclaim(database.sql, [shardOf(runId)]);
    expect(await takeInbox()).toHaveLength(1);
    expect(await takeOutbox()).toMatchObject([{ run_id: runId, kind: "action" }]);
    await reclaim(
      database.sql,
      SHARDS.filter((shard) => shard !== shardOf(runId)),
    );
    expect(await takeOutbox()).toEqual([]);
  });

  it("lose the row of a dispatch that is no longer owed", async () => {
    const { starter, poller } = await half();
    const runId = await start(starter, "quick");
    await makeDue();
    await poller.tick();
    const row = { id: uuidv7(), run_id: runId, shard: shardOf(runId), kind: "action", due_at: new Date(0) };
    await database.sql`insert into outbox ${database.sql(row)}`;
    await poller.tick();
    expect(await database.sql`select 1 from outbox`).toHaveLength(0);
    await allSound(database.sql, [runId]);
  });
});
