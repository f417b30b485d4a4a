// Posts of a run to the outside: the row is part of the commit, the courier gets it afterwards by a hint or by the poll, and the
// run itself is not involved any more.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { asShardId, shardOf, uuidv7 } from "../../src/ids.js";
import { countUnwatched, reclaim } from "../../src/store/engine/poll.js";
import { createTestDatabase, deleteRuns, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { type Half, type HalfOptions, publish, start, startHalf } from "./rig.js";
import { allEnd, look, typesOf } from "./seen.js";

const hook = { type: "webhook_emit", url: "https://shop.example/hook", event_type: "made" };

let database: TestDatabase;
const halves: Half[] = [];
/** The calls of the courier, and whether the row was committed by then. */
const carried: string[] = [];
const couriers = { webhook: { carry: (id: string) => void carried.push(id) } };

beforeAll(async () => {
  database = await createTestDatabase({ max: 3 });
  await publish(database, "tell", [
    { id: "tell", ...hook, payload: { of: "${run.id}" }, next: "again" },
    { id: "again", ...hook },
  ]);
  await publish(database, "tell-and-wait", [
    { id: "tell", ...hook, next: "wait" },
    { id: "wait", type: "wait_duration", duration_ms: 3_600_000 },
  ]);
});
beforeEach(async () => {
  await deleteRuns(database.sql);
  carried.length = 0;
});
afterEach(async () => {
  for (const half of halves.splice(0)) await half.stop();
});
afterAll(() => database.drop());

async function half(options: HalfOptions = {}): Promise<Half> {
  const started = await startHalf(database, { couriers, ...options });
  halves.push(started);
  return started;
}

const rows = () => database.sql<{ id: string; run_id: string; kind: string; payload: unknown }[]>`
  select id, run_id, kind, payload from outbox order by length(payload::text) desc`;
const makeDue = () => database.sql`update outbox set due_at = now() - interval '1 s'`;

describe("a post", () => {
  it("is part of the commit of its step, and reaches its courier afterwards", async () => {
    const { starter } = await half();
    const runId = await start(starter, "tell");
    await allEnd(database.sql, [runId]);
    const [first, second] = await rows();
    expect(first).toMatchObject({
      ...{ run_id: runId, kind: "webhook" },
      payload: { url: hook.url, headers: {}, message: { type: "made", data: { of: runId } } },
    });
    expect(carried.sort()).toEqual([first?.id, second?.id].sort());
  });

  it("is found by the poll without a hint, as long as its row exists", async () => {
    const { starter, poller } = await half({ hints: false });
    const runId = await start(starter, "tell");
    await database.sql`update wakes set due_at = now() - interval '1 s'`;
    await poller.tick();
    await until(async () => (await look(database.sql, runId)).run.state === "succeeded");
    expect(carried).toEqual([]);
    await makeDue();
    await poller.tick();
    const ids = (await rows()).map(({ id }) => id).sort();
    expect(carried.splice(0).sort()).toEqual(ids);
    // The row is leased, so it is not taken again at once.
    await poller.tick();
    expect(carried).toEqual([]);
    await makeDue();
    await poller.tick();
    expect(carried.sort()).toEqual(ids);
  });

  it("sends no command to its run, and stays if there is no courier", async () => {
    const { poller, starter } = await half({ couriers: {} });
    const runId = await start(starter, "tell");
    await allEnd(database.sql, [runId]);
    const before = typesOf((await look(database.sql, runId)).events);
    await makeDue();
    await poller.tick();
    expect((await rows()).length).toBe(2);
    expect(typesOf((await look(database.sql, runId)).events)).toEqual(before);
  });

  it("does not count as a reason for its run to be looked at", async () => {
    const { starter } = await half();
    const before = await countUnwatched(database.sql);
    const runId = await start(starter, "tell-and-wait");
    await until(async () => (await look(database.sql, runId)).run.state === "paused");
    expect(await countUnwatched(database.sql)).toBe(before);
    await database.sql`delete from wakes where run_id = ${runId}`;
    expect((await rows()).map(({ run_id }) => run_id)).toEqual([runId]);
    expect(await countUnwatched(database.sql)).toBe(before + 1);
    const row = { id: uuidv7(), run_id: runId, shard: shardOf(runId), kind: "action", due_at: new Date() };
    await database.sql`insert into outbox ${database.sql(row)}`;
    expect(await countUnwatched(database.sql)).toBe(before);
  });

  it("that its courier has put off is not due sooner because its shard changes hands", async () => {
    const { starter } = await half();
    await allEnd(database.sql, [await start(starter, "tell")]);
    await database.sql`update outbox set due_at = now() + interval '1 hour'`;
    await database.sql`
      insert into outbox (id, run_id, shard, kind, due_at)
      select gen_random_uuid(), run_id, shard, 'action', now() + interval '1 hour' from outbox limit 1`;
    const shards = Array.from({ length: 256 }, (_, shard) => asShardId(shard));
    await reclaim(database.sql, shards);
    const due = await database.sql`select kind from outbox where due_at <= now()`;
    expect(due.map(({ kind }) => kind)).toEqual(["action"]);
  });
});
