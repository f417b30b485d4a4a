// The stager: what is due is brought to its run, bounded, and a run that never comes back is left alone in the end.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { shardOf, uuidv7 } from "../../src/ids.js";
import { Stager } from "../../src/run/stager.js";
import { SHARDS } from "../../src/shard/placement.js";
import { inbox, outbox, reclaim, wakes } from "../../src/store/poll.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
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
  await publish(database, "wait", [{ id: "wait", type: "wait_for_signal", signal_name: "go" }]);
  await publish(database, "pay", [{ id: "pay", type: "action", action: "shop.charge" }]);
});
beforeEach(async () => {
  // Polls look at all shards: what another test left open would be theirs, too.
  await database.sql`truncate runs, run_starts, run_events, run_variables, run_commands, signals, wakes, inbox, outbox`;
});
afterEach(async () => {
  for (const half of halves.splice(0)) await half.stop();
});
afterAll(() => database.drop());

/** Hints are off, so that nothing but the poll moves a run. */
async function half(options: HalfOptions = {}): Promise<Half> {
  const started = await startHalf(database, { hints: false, ...options });
  halves.push(started);
  return started;
}

const takeDue = async (limit = 500) => (await wakes.take(database.sql, SHARDS, limit)).rows;
const makeDue = () => database.sql`update wakes set due_at = now() - interval '1 s'`;
const wakeOf = async (runId: string) => {
  const [row] = await database.sql<{ tries: number; due_in_ms: number }[]>`
    select tries, (extract(epoch from due_at - now()) * 1000)::int as due_in_ms from wakes where run_id = ${runId}`;
  return row;
};

describe("a due wake", () => {
  it("is lent: nobody else gets it for a while, and its tries are counted", async () => {
    const { runtime } = await half();
    const runId = await start(runtime, "quick");
    await makeDue();
    expect(await takeDue()).toEqual([{ run_id: runId, tries: 1 }]);
    expect(await takeDue()).toEqual([]);
    expect((await wakeOf(runId))?.due_in_ms).toBeGreaterThan(8_000);
    await makeDue();
    expect(await takeDue()).toEqual([{ run_id: runId, tries: 2 }]);
  });

  it("is lent to one of many that ask at once", async () => {
    const { runtime } = await half();
    await Promise.all(Array.from({ length: 50 }, () => start(runtime, "quick")));
    await makeDue();
    const taken = (await Promise.all(Array.from({ length: 4 }, () => takeDue(20)))).flat();
    expect(new Set(taken.map(({ run_id }) => run_id)).size).toBe(taken.length);
    expect(taken.length + (await takeDue()).length).toBe(50);
  });

  it("has its tries reset by a commit", async () => {
    const { runtime, stager } = await half();
    const runId = await start(runtime, "timer");
    await makeDue();
    await takeDue();
    await makeDue();
    await stager.tick();
    expect((await look(database.sql, runId)).run.state).toBe("paused");
    expect(await wakeOf(runId)).toMatchObject({ tries: 0 });
    await nothingUnwatched(database.sql);
  });

  it("never fires early, and is put back where it belongs if it was looked at too soon", async () => {
    const { runtime, stager } = await half();
    const runId = await start(runtime, "timer");
    await makeDue();
    await stager.tick();
    await makeDue();
    await stager.tick();
    const wake = await wakeOf(runId);
    const seen = await look(database.sql, runId);
    const paused = seen.events.find(({ event_type }) => event_type === "step.paused");
    // Whatever the row said, the run itself knows when it is due.
    if (seen.run.state === "paused") expect(wake?.due_in_ms).toBeLessThanOrEqual(300);
    await until(async () => {
      await stager.tick();
      return (await look(database.sql, runId)).run.state === "succeeded";
    });
    const [ended] = await allSound(database.sql, [runId]);
    const succeeded = ended?.events.find(({ event_type }) => event_type === "step.succeeded");
    const dueAt = Date.parse(String(paused?.metadata?.wakeup_at));
    expect(Date.parse(succeeded?.recorded_at ?? "")).toBeGreaterThanOrEqual(dueAt);
  });

  it("of a shard that is another node's is not taken", async () => {
    const { runtime } = await half();
    const runId = await start(runtime, "quick");
    await makeDue();
    const others = SHARDS.filter((shard) => shard !== shardOf(runId));
    expect((await wakes.take(database.sql, others, 10)).rows).toEqual([]);
    expect((await wakes.take(database.sql, [shardOf(runId)], 10)).rows).toHaveLength(1);
  });

  it("of a run that has ended is removed", async () => {
    const { runtime, stager } = await half();
    const runId = await start(runtime, "quick");
    await makeDue();
    await stager.tick();
    expect((await look(database.sql, runId)).run.state).toBe("succeeded");
    const row = { run_id: runId, shard: shardOf(runId), due_at: new Date(0) };
    await database.sql`insert into wakes ${database.sql(row)}`;
    await stager.tick();
    expect(await wakeOf(runId)).toBeUndefined();
    await allSound(database.sql, [runId]);
  });
});

describe("many overdue rows", () => {
  it("are worked off in bounded batches, all of them in one look", async () => {
    const { runtime, stager } = await half();
    const runIds = await Promise.all(Array.from({ length: 1_150 }, () => start(runtime, "quick")));
    await makeDue();
    expect(await takeDue(500)).toHaveLength(500);
    await makeDue();
    const began = performance.now();
    await stager.tick();
    await allEnd(database.sql, runIds, 1_000);
    report({ overdue: runIds.length, ms: performance.now() - began });
    await nothingUnwatched(database.sql);
  });
});

describe("a run that never comes back", () => {
  /** Nodes took the row and died with it, three times. */
  async function bringDown(runId: string): Promise<void> {
    for (let nth = 1; nth <= 3; nth++) {
      await makeDue();
      expect(await takeDue()).toEqual([{ run_id: runId, tries: nth }]);
    }
    await makeDue();
  }

  it("is in quarantine after three tries without a commit, and goes on when it is released", async () => {
    const { runtime, stager } = await half();
    const runId = await start(runtime, "wait");
    await bringDown(runId);
    await stager.tick();
    expect((await look(database.sql, runId)).run).toMatchObject({ state: "paused", paused_reason: "quarantine" });
    expect(await wakeOf(runId)).toBeUndefined();
    await nothingUnwatched(database.sql);

    const id = uuidv7();
    expect(await runtime.command(runId, signal(id, "go"), { id })).toMatchObject({ matched: false });
    expect(await runtime.command(runId, { type: "advance" })).toEqual({ type: "advanced" });
    expect((await look(database.sql, runId)).run.state).toBe("paused");

    expect(await runtime.command(runId, { type: "release", actor: "user:op" })).toEqual({ type: "advanced" });
    await until(async () => {
      await makeDue();
      await stager.tick();
      return (await look(database.sql, runId)).run.state === "succeeded";
    });
    const [seen] = await allSound(database.sql, [runId]);
    expect(seen?.events.map(({ metadata }) => metadata?.kind).filter(Boolean)).toEqual([
      "quarantine",
      "signal",
      "release",
    ]);
    expect(await runtime.command(runId, { type: "release", actor: "user:op" })).toMatchObject({ type: "refused" });
  });

  it("is looked at apart: of those that were there when a node died, few at a time, then one by one", async () => {
    const { runtime, dispatcher } = await half();
    for (let nth = 0; nth < 40; nth++) await start(runtime, "quick");
    let [under, most] = [0, 0];
    // It never comes to a commit: that is what is looked for.
    const deliver = async () => {
      most = Math.max(most, ++under);
      await new Promise((resolve) => setImmediate(resolve));
      under--;
      return { type: "advanced" } as const;
    };
    const neverDone = { isBusy: () => false, deliver, stuck: () => {} } as unknown as Half["runtime"];
    const stager = new Stager({
      ...{ sql: database.sql, log: silentLog, runtime: neverDone, dispatcher },
      shards: () => SHARDS,
    });
    const together: number[] = [];
    for (let look = 0; look < 3; look++) {
      await makeDue();
      most = 0;
      await stager.tick();
      together.push(most);
    }
    expect(together).toEqual([40, 16, 1]);
    const tries = await database.sql`select distinct tries from wakes`;
    expect([...tries]).toEqual([{ tries: 3 }]);
  });

  it("counts a try, and is due at once, where its shard is taken over while it steps", async () => {
    const { runtime } = await half();
    const runId = await start(runtime, "quick");
    const timer = await start(runtime, "timer");
    await database.sql`update wakes set due_at = now() + interval '1 h' where run_id = ${timer}`;
    await reclaim(database.sql, SHARDS);
    expect(await wakeOf(runId)).toMatchObject({ tries: 1 });
    expect(await wakeOf(timer)).toMatchObject({ tries: 0 });
    expect(await takeDue()).toEqual([{ run_id: runId, tries: 2 }]);
    await reclaim(database.sql, SHARDS);
    expect(await takeDue()).toEqual([{ run_id: runId, tries: 3 }]);
  });

  it("is left in peace while it comes back alive", async () => {
    const { runtime, stager } = await half();
    const runId = await start(runtime, "wait");
    for (let nth = 1; nth <= 2; nth++) {
      await makeDue();
      await takeDue();
    }
    await makeDue();
    await stager.tick();
    expect((await look(database.sql, runId)).run).toMatchObject({ state: "paused", awaited_signal: "go" });
  });

  it("can be cancelled out of its quarantine", async () => {
    const { runtime, stager } = await half();
    const runId = await start(runtime, "wait");
    await bringDown(runId);
    await stager.tick();
    const answer = await runtime.command(runId, { type: "cancel", compensate: true, actor: "api" });
    expect(answer).toEqual({ type: "cancel", state: "cancelled", alreadyTerminal: false });
    const [seen] = await allSound(database.sql, [runId]);
    expect(typesOf(seen?.events ?? []).at(-1)).toBe("run.cancelled");
  });

  it("keeps its dispatch owed, and a worker's answer waits until it is released", async () => {
    const { runtime, stager, dispatcher } = await half({ reply: () => undefined });
    const runId = await start(runtime, "pay");
    await makeDue();
    await stager.tick();
    const { dispatchId } = await until(() => dispatcher.sent[0]);
    await bringDown(runId);
    await stager.tick();
    expect((await look(database.sql, runId)).run).toMatchObject({ paused_reason: "quarantine" });
    const result = { type: "result", dispatchId, result: {}, actor: "worker:w" } as const;
    const id = uuidv7();
    expect(await runtime.command(runId, result, { id })).toMatchObject({ type: "refused" });
    await runtime.command(runId, { type: "release", actor: "user:op" });
    await nothingUnwatched(database.sql);
    expect(await runtime.command(runId, result, { id })).toEqual({ type: "report", stale: false });
    await allEnd(database.sql, [runId]);
    await allSound(database.sql, [runId]);
  });
});

describe("inbox and outbox", () => {
  const takeInbox = async () => (await inbox.take(database.sql, SHARDS, 10)).rows;
  const takeOutbox = async () => (await outbox.take(database.sql, SHARDS, 10)).rows;
  const inboxRow = async (runId: string) => {
    const id = uuidv7();
    const row = { id, run_id: runId, shard: shardOf(runId), command: '{"type":"advance"}', due_at: new Date(0) };
    await database.sql`insert into inbox ${database.sql(row)}`;
    return id;
  };

  it("bring a durable command to its run, and take its row in the commit that answers it", async () => {
    const { runtime, stager } = await half();
    const runId = await start(runtime, "wait");
    const command = signal(uuidv7(), "go", { n: 1 });
    const row = { id: uuidv7(), run_id: runId, shard: shardOf(runId), due_at: new Date(0) };
    await makeDue();
    await stager.tick();
    await database.sql`insert into inbox ${database.sql({ ...row, command: JSON.stringify(command) })}`;
    await stager.tick();
    await until(async () => (await look(database.sql, runId)).run.state === "succeeded");
    expect(await database.sql`select 1 from inbox`).toHaveLength(0);
    const signals = await database.sql`select payload from signals where run_id = ${runId}`;
    expect([...signals]).toEqual([{ payload: { n: 1 } }]);
  });

  it("lend their rows, and make all of them due for whoever takes a shard over", async () => {
    const { runtime, dispatcher, stager } = await half();
    dispatcher.credit = false;
    const runId = await start(runtime, "pay");
    await makeDue();
    await stager.tick();
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

  it("lose the row of a dispatch that is owed no more", async () => {
    const { runtime, stager } = await half();
    const runId = await start(runtime, "quick");
    await makeDue();
    await stager.tick();
    const row = { id: uuidv7(), run_id: runId, shard: shardOf(runId), kind: "action", due_at: new Date(0) };
    await database.sql`insert into outbox ${database.sql(row)}`;
    await stager.tick();
    expect(await database.sql`select 1 from outbox`).toHaveLength(0);
    await allSound(database.sql, [runId]);
  });
});
