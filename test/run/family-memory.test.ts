// The memory of a wide family: many items need few residents, and their shared variables are in memory once.
// @module-tag both
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { EVERYTHING } from "../../src/access/index.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { long } from "../harness/long.js";
import { until } from "../harness/until.js";
import { cancel, type Half, type HalfOptions, publish, start, startHalf } from "./rig.js";
import { allEnd, nothingUnwatched, report } from "./seen.js";

const MIB = 1024 * 1024;
const ITEMS = long(60, 200);
/** The limit of residents. */
const MOST = 20;

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

/** Starts the run and follows it. Returns the largest number of residents. */
async function begin(workflowId: string, count: number, residents: HalfOptions["residents"], variables = {}) {
  let most = 0;
  const onCommit = () => {
    most = Math.max(most, node.runtime.residents.size);
  };
  node = await startHalf(database, { residents, onCommit });
  const runId = await start(node.starter, workflowId, { inputs: { items: items(count) }, variables });
  return { runId, most: () => most };
}

const waitingItems = (runId: string) => async () => {
  const [row] = await database.sql<{ count: number }[]>`
    select count(*)::int as count from runs where parent_run_id = ${runId} and paused_reason = 'signal'`;
  return row?.count;
};

describe("a wide family", () => {
  it("many items, twenty at a time, never exceed the limit of residents", async () => {
    const { runId, most } = await begin("narrow", ITEMS, { max: MOST });
    await allEnd(database.sql, [runId]);
    const [run] = await database.sql<{ output: number[] }[]>`select output from runs where id = ${runId}`;
    expect(run?.output).toEqual(items(ITEMS));
    // Busy runs are passivated only when they become idle, so one round of them may exceed the limit.
    expect(most()).toBeLessThanOrEqual(MOST + 21);
    report({ items: ITEMS, window: 20, mostResidents: most() });
  });

  it("many waiting items are rows: residents stay few, and a cancel reaches every item", async () => {
    const { runId } = await begin("waiting", ITEMS, { max: MOST });
    await until(async () => (await waitingItems(runId)()) === ITEMS);
    await until(() => node.runtime.residents.busy === 0);
    expect(node.runtime.residents.size).toBeLessThanOrEqual(MOST);
    await nothingUnwatched(database.sql);
    await node.runtime.command(runId, cancel, { reach: EVERYTHING });
    await allEnd(database.sql, [runId], 60_000);
    const rows = await database.sql`
    select state, count(*)::int as count from runs where parent_run_id = ${runId} group by state`;
    expect(rows).toEqual([{ state: "cancelled", count: ITEMS }]);
    await until(() => node.runtime.residents.busy === 0);
    expect(node.runtime.residents.size).toBeLessThanOrEqual(MOST);
  });

  it("items share the variables that they started with, in memory and in rows", { tags: "long" }, async () => {
    setFlagsFromString("--expose-gc");
    const gc = runInNewContext("gc") as () => void;
    const heap = () => {
      gc();
      return process.memoryUsage().heapUsed;
    };
    const count = 80;
    // Objects, because strings would be shared even if the variables were copied.
    const big = Array.from({ length: 10_000 }, (_, nth) => ({ nth, text: `value number ${nth} of many` }));
    const size = JSON.stringify(big).length;
    const { runId } = await begin("waiting", count, { maxBytes: Number.MAX_SAFE_INTEGER }, { big });
    await until(async () => (await waitingItems(runId)()) === count);
    await until(() => node.runtime.residents.busy === 0);
    expect(node.runtime.residents.size).toBe(count + 1);
    const full = heap();
    node.runtime.residents.passivate(() => true);
    const freed = full - heap();
    const [stored] = await database.sql<{ variables: number; scopes: number }[]>`
    select (select count(*)::int from run_variables v join runs r on r.id = v.run_id where r.parent_run_id = ${runId}) as variables,
      (select count(*)::int from kept_scopes where run_id = ${runId}) as scopes`;
    expect(stored).toEqual({ variables: 0, scopes: 1 });
    // Copies would take more than 80 times the size of the variables; shared, the items take the size of their actors. What the process frees besides
    // is measured with them.
    expect(freed).toBeGreaterThan(0);
    expect(freed).toBeLessThan((count / 2) * size);
    report({ items: count, variablesMiB: +(size / MIB).toFixed(2), residentsMiB: +(freed / MIB).toFixed(2) });
    await node.runtime.command(runId, cancel, { reach: EVERYTHING });
    await allEnd(database.sql, [runId], 60_000);
  });
});
