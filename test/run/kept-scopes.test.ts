// What a fork keeps of its variables: contents that are new to the family, once, for as long as the family lives.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { uuidv7 } from "../../src/ids.js";
import { loadRun } from "../../src/store/engine/load.js";
import { Pruner } from "../../src/store/upkeep/pruner.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { type Half, publish, type Step, signal, start, startHalf } from "./rig.js";
import { allEnd } from "./seen.js";

let database: TestDatabase;
let node: Half;

const ROUNDS = 8;
const fork: Step[] = [
  { id: "both", type: "parallel", branches: { l: { next: "left" }, r: { next: "right" } }, next: "join" },
  { id: "left", type: "transform", expression: "size(vars.big)" },
  { id: "right", type: "transform", expression: "vars.note" },
  { id: "join", type: "join" },
];
const waiting: Step = { id: "wait", type: "wait_for_signal", signal_name: "go" };

beforeAll(async () => {
  database = await createTestDatabase();
  const items = { id: "each", type: "foreach", items: "inputs.items", body: "both", max_concurrency: 5 };
  await publish(database, "items", [items, ...fork]);
  await publish(database, "rounds", [
    { id: "w", type: "while", condition: `iteration < ${ROUNDS}`, body: "both" },
    ...fork,
  ]);
  await publish(database, "waiting", [{ ...items, body: "wait" }, waiting]);
});
afterEach(() => node.stop());
afterAll(() => database.drop());

/** Random, so that it does not compress. */
const big = Array.from({ length: 10_000 }, () => Math.random().toString(36).slice(2, 14));
const note = "a small value";
const items = (count: number) => Array.from({ length: count }, (_, nth) => nth);

/** The size of all tables that hold scopes. */
async function keptBytes(): Promise<number> {
  const [row] = await database.sql<{ bytes: string }[]>`
    select sum(pg_total_relation_size(oid))::text as bytes from pg_class
    where relkind = 'r' and relname in ('kept_scopes', 'kept_values')`;
  return Number(row?.bytes);
}

const kept = async () => {
  const [row] = await database.sql<{ scopes: number; values: number }[]>`
    select (select count(*)::int from kept_scopes) as scopes, (select count(*)::int from kept_values) as values`;
  return row;
};

const prune = () => new Pruner(database.sql, silentLog, { eventDays: 30 }).prune();

describe("a kept scope", () => {
  it.each(["items", "rounds"])(
    "%s that fork again keep no copy of variables that they only see",
    async (workflowId) => {
      node = await startHalf(database);
      const before = await keptBytes();
      const id = await start(node.starter, workflowId, { inputs: { items: items(ROUNDS) }, variables: { big, note } });
      await allEnd(database.sql, [id]);
      expect(await database.sql`select state from runs where id = ${id}`).toEqual([{ state: "succeeded" }]);
      expect((await keptBytes()) - before).toBeLessThan(2 * JSON.stringify(big).length);
      await prune();
      expect(await kept()).toEqual({ scopes: 0, values: 0 });
    },
  );

  it("gives an item its inputs and variables back after a restart, and is kept while its family lives", async () => {
    node = await startHalf(database);
    const variables = { big, note, many: "x".repeat(600), ...Object.fromEntries(items(90).map((n) => [`v${n}`, n])) };
    const inputs = { items: items(2) };
    const id = await start(node.starter, "waiting", { inputs, variables });
    const children = () => database.sql<{ id: RunId }[]>`
      select id from runs where parent_run_id = ${id} and awaited_signal is not null`;
    await until(async () => (await children()).length === 2);
    await prune();
    // The two large variables, and the list of all of them.
    expect(await kept()).toEqual({ scopes: 1, values: 3 });
    const [child] = await children();
    const loaded = await loadRun(database.sql, child?.id as RunId);
    expect(loaded?.stored.variables).toEqual(variables);
    expect(loaded?.stored.identity.inputs).toEqual(inputs);
    for (const _ of inputs.items) await node.runtime.command(id, signal(uuidv7(), "go"), { reach: EVERYTHING });
    await allEnd(database.sql, [id]);
    await prune();
    expect(await kept()).toEqual({ scopes: 0, values: 0 });
  });
});
