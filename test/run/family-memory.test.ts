// What a wide family costs in memory: a thousand items keep few residents, and what they share stands in memory once.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { cancel, type Half, type HalfOptions, publish, start, startHalf } from "./rig.js";
import { allEnd, nothingUnwatched, report } from "./seen.js";

const MIB = 1024 * 1024;

let database: TestDatabase;
let node: Half;

beforeAll(async () => {
  database = await createTestDatabase();
  const wide = (window: number, body: Record<string, unknown>) => [
    { id: "f", type: "foreach", items: "inputs.items", body: "one", max_concurrency: window },
    { id: "one", ...body },
  ];
  const wait = { type: "wait_for_signal", signal_name: "never" };
  await publish(database, "narrow", wide(20, { type: "transform", expression: "item" }) as never);
  await publish(database, "waiting", wide(0, wait) as never);
});
afterEach(() => node.stop());
afterAll(() => database.drop());

const items = (count: number) => Array.from({ length: count }, (_, nth) => nth);

/** Starts it and follows it; answers the most residents that were seen. */
async function begin(workflowId: string, count: number, residents: HalfOptions["residents"], variables = {}) {
  let most = 0;
  const onCommit = () => {
    most = Math.max(most, node.runtime.residents.size);
  };
  node = await startHalf(database, { residents, onCommit });
  const runId = await start(node.runtime, workflowId, { inputs: { items: items(count) }, variables });
  return { runId, most: () => most };
}

const waitingItems = (runId: string) => async () => {
  const [row] = await database.sql<{ count: number }[]>`
    select count(*)::int as count from runs where parent_run_id = ${runId} and paused_reason = 'signal'`;
  return row?.count;
};

it("a thousand items, twenty at a time, never have more residents than there may be", async () => {
  const { runId, most } = await begin("narrow", 1_000, { max: 60 });
  await allEnd(database.sql, [runId]);
  const [run] = await database.sql<{ output: number[] }[]>`select output from runs where id = ${runId}`;
  expect(run?.output).toEqual(items(1_000));
  // Those at work are let go when they rest: one round of them may stand beside the others.
  expect(most()).toBeLessThanOrEqual(60 + 21);
  report({ items: 1_000, window: 20, mostResidents: most() });
}, 60_000);

it("a thousand items that wait cost their rows: residents stay few, and a cancel reaches every one", async () => {
  const { runId } = await begin("waiting", 1_000, { max: 60 });
  await until(async () => (await waitingItems(runId)()) === 1_000, { within: 60_000 });
  await until(() => node.runtime.residents.busy === 0);
  expect(node.runtime.residents.size).toBeLessThanOrEqual(60);
  await nothingUnwatched(database.sql);
  await node.runtime.command(runId, cancel);
  await allEnd(database.sql, [runId], 60_000);
  const rows = await database.sql`
    select state, count(*)::int as count from runs where parent_run_id = ${runId} group by state`;
  expect(rows).toEqual([{ state: "cancelled", count: 1_000 }]);
  await until(() => node.runtime.residents.busy === 0);
  expect(node.runtime.residents.size).toBeLessThanOrEqual(60);
}, 120_000);

it("items in memory share the variables that they were begun with, in memory and in rows", async () => {
  setFlagsFromString("--expose-gc");
  const gc = runInNewContext("gc") as () => void;
  const heap = () => {
    gc();
    return process.memoryUsage().heapUsed;
  };
  const count = 200;
  // Objects, not one string: a copy of them would be a copy.
  const big = Array.from({ length: 10_000 }, (_, nth) => ({ nth, text: `value number ${nth} of many` }));
  const size = JSON.stringify(big).length;
  const { runId } = await begin("waiting", count, { maxBytes: Number.MAX_SAFE_INTEGER }, { big });
  await until(async () => (await waitingItems(runId)()) === count, { within: 60_000 });
  await until(() => node.runtime.residents.busy === 0);
  expect(node.runtime.residents.size).toBe(count + 1);
  const full = heap();
  node.runtime.residents.passivate(() => true);
  const freed = full - heap();
  const [stored] = await database.sql<{ variables: number; scopes: number }[]>`
    select (select count(*)::int from run_variables v join runs r on r.id = v.run_id where r.parent_run_id = ${runId}) as variables,
      (select count(*)::int from run_scopes where run_id = ${runId}) as scopes`;
  expect(stored).toEqual({ variables: 0, scopes: 1 });
  // A copy each would be 200 times what the variables weigh; shared, the items are what their actors weigh.
  expect(freed).toBeGreaterThan(0);
  expect(freed).toBeLessThan(20 * size);
  report({ items: count, variablesMiB: +(size / MIB).toFixed(2), residentsMiB: +(freed / MIB).toFixed(2) });
  await node.runtime.command(runId, cancel);
  await allEnd(database.sql, [runId], 60_000);
}, 120_000);
