// What a run posts to the outside: its row rides in the commit, its courier is told after it, by a hint or by the poll, and the
// run itself is never asked about it.
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { shardOf, uuidv7 } from "../../src/ids.js";
import { countUnwatched } from "../../src/store/poll.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { type Half, type HalfOptions, publish, start, startHalf } from "./rig.js";
import { allEnd, look, typesOf } from "./seen.js";

const hook = { type: "webhook_emit", url: "https://shop.example/hook", event_type: "made" };

let database: TestDatabase;
const halves: Half[] = [];
/** What the courier was told, and whether its row was there by then. */
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
  await database.sql`truncate outbox, wakes`;
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

it("rides in the commit of its step, and is told to its courier after it", async () => {
  const { runtime } = await half();
  const runId = await start(runtime, "tell");
  await allEnd(database.sql, [runId]);
  const [first, second] = await rows();
  expect(first).toMatchObject({
    ...{ run_id: runId, kind: "webhook" },
    payload: { url: hook.url, headers: {}, message: { type: "made", data: { of: runId } } },
  });
  expect(carried.sort()).toEqual([first?.id, second?.id].sort());
});

it("is found by the poll where no hint came, for as long as its row is there", async () => {
  const { runtime, stager } = await half({ hints: false });
  const runId = await start(runtime, "tell");
  await database.sql`update wakes set due_at = now() - interval '1 s'`;
  await stager.tick();
  await until(async () => (await look(database.sql, runId)).run.state === "succeeded");
  expect(carried).toEqual([]);
  await makeDue();
  await stager.tick();
  const ids = (await rows()).map(({ id }) => id).sort();
  expect(carried.splice(0).sort()).toEqual(ids);
  // Lent out: not again at once.
  await stager.tick();
  expect(carried).toEqual([]);
  await makeDue();
  await stager.tick();
  expect(carried.sort()).toEqual(ids);
});

it("is nothing that its run is asked about, and stays where no courier takes it", async () => {
  const { stager, runtime } = await half({ couriers: {} });
  const runId = await start(runtime, "tell");
  await allEnd(database.sql, [runId]);
  const before = typesOf((await look(database.sql, runId)).events);
  await makeDue();
  await stager.tick();
  expect((await rows()).length).toBe(2);
  expect(typesOf((await look(database.sql, runId)).events)).toEqual(before);
});

it("is no reason to think that somebody will look at its run", async () => {
  const { runtime } = await half();
  const before = await countUnwatched(database.sql);
  const runId = await start(runtime, "tell-and-wait");
  await until(async () => (await look(database.sql, runId)).run.state === "paused");
  expect(await countUnwatched(database.sql)).toBe(before);
  await database.sql`delete from wakes where run_id = ${runId}`;
  expect((await rows()).map(({ run_id }) => run_id)).toEqual([runId]);
  expect(await countUnwatched(database.sql)).toBe(before + 1);
  const row = { id: uuidv7(), run_id: runId, shard: shardOf(runId), kind: "action", due_at: new Date() };
  await database.sql`insert into outbox ${database.sql(row)}`;
  expect(await countUnwatched(database.sql)).toBe(before);
});
