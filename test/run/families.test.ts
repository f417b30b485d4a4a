// Families on a real store: branches, items and sub-sagas as rows, their ends delivered through the inbox, their undo lists handed over.

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { RunCommand, RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { shardOf, uuidv7 } from "../../src/ids.js";
import { readRuns } from "../../src/store/lists/runs.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { cancel, type Half, publish, registerActions, type Step, signal, start, startHalf } from "./rig.js";

let database: TestDatabase;
let node: Half;

const charge = (id: string, more: Record<string, unknown> = {}): Step => ({
  ...{ id, type: "action", action: "shop.charge", inputs: { of: id } },
  ...{ compensation: { action: "shop.refund", inputs: { of: id } }, ...more },
});

const saga: Step[] = [
  { id: "p", type: "parallel", branches: { a: { next: "pa" }, b: { next: "pb" } }, next: "j" },
  charge("pa"),
  charge("pb", { next: "pb2" }),
  { id: "pb2", type: "set_var", name: "x", value: "${vars.x + 1}" },
  { id: "j", type: "join", next: "f" },
  { id: "f", type: "foreach", items: "inputs.items", body: "fb", max_concurrency: 3, next: "sub" },
  charge("fb"),
  { id: "sub", type: "sub_saga", workflow_id: "child", inputs: { n: 1 }, next: "w" },
  { id: "w", type: "while", condition: "iteration < 3", body: "wb", next: "last" },
  charge("wb"),
  { id: "last", type: "switch", cases: [{ when: "inputs.fail", next: "no" }], default: "yes" },
  { id: "no", type: "error", code: "late" },
  { id: "yes", type: "transform", expression: "[vars.j, vars.f, vars.sub, vars.w, vars.x]" },
];

beforeAll(async () => {
  database = await createTestDatabase();
  await registerActions(database, "charge", "refund");
  await publish(database, "child", [
    charge("c1", { next: "c2" }),
    { id: "c2", type: "transform", expression: "inputs.n + 1" },
  ]);
  await publish(database, "saga", saga);
});
afterAll(() => database.drop());
beforeEach(async () => {
  node = await startHalf(database, { reply: ({ call }) => ({ result: { did: call.inputs.of ?? null } }) });
});
afterEach(() => node.stop());

const ends = (runId: RunId) =>
  until(async () => {
    const view = (await readRuns(database.sql, EVERYTHING, [runId])).get(runId);
    return view?.terminal ? view.run : undefined;
  });

describe("a family on the store", () => {
  it("all members succeed, and the parent collects their outputs", async () => {
    await node.poller.start();
    const runId = await start(node.starter, "saga", {
      inputs: { items: [1, 2, 3, 4], fail: false },
      variables: { x: 7 },
    });
    const run = await ends(runId);
    const did = (of: string) => ({ did: of });
    const outputs = [{ a: did("pa"), b: null }, Array(4).fill(did("fb")), 2, Array(3).fill(did("wb")), 7];
    expect(run).toMatchObject({ state: "succeeded", output: outputs });
    expect(node.dispatcher.sent.some(({ call }) => call.phase === "compensation")).toBe(false);
  });

  it("a late failure undoes every step once, newest completion first, by the run that fails", async () => {
    await node.poller.start();
    const runId = await start(node.starter, "saga", {
      inputs: { items: [1, 2, 3, 4], fail: true },
      variables: { x: 7 },
    });
    expect(await ends(runId)).toMatchObject({ state: "failed", error: { code: "late", step_id: "no" } });
    const undone = node.dispatcher.sent.filter(({ call }) => call.phase === "compensation");
    const done = node.dispatcher.sent
      .filter(({ call }) => call.phase === "forward")
      .map(({ call }) => call.idempotencyKey);
    const { sql } = database;
    const list =
      await sql`select forward_idempotency_key as key, state from undo where owner_run_id = ${runId} order by ordinal desc`;
    expect(undone.map(({ call }) => call.forwardIdempotencyKey)).toEqual(list.map(({ key }) => key));
    expect(list.every(({ state }) => state === "done")).toBe(true);
    expect(list.map(({ key }) => key).sort()).toEqual(done.sort());
    expect(new Set(undone.map(({ runId }) => runId))).toEqual(new Set([runId]));
  });

  it("ends of items that arrive twice, from memory and from the poll, are counted once, and earlier commands are answered", async () => {
    await publish(database, "items", [
      { id: "f", type: "foreach", items: "[1, 2, 3]", body: "one", max_concurrency: 2 },
      { id: "one", type: "transform", expression: "item * 10" },
    ]);
    const quiet = await startHalf(database, { hints: false });
    const { sql } = database;
    const runId = await start(quiet.starter, "items");
    const ends = await until(async () => {
      await sql`update wakes set due_at = now()`;
      await quiet.poller.tick();
      const rows = await sql<
        { id: string; command: RunCommand }[]
      >`select id, command from inbox where run_id = ${runId}`;
      return rows.length === 2 && rows;
    });
    const twice = ends.flatMap((end) => [end, end]);
    const id = uuidv7();
    const given = [
      quiet.runtime.command(runId, signal(id, "other"), { id, reach: EVERYTHING }),
      ...twice.map((end) =>
        quiet.runtime.command(runId, end.command, { id: end.id, inboxId: end.id, reach: EVERYTHING }),
      ),
    ];
    expect(await Promise.all(given)).toEqual([
      { type: "signal", id, matched: false },
      ...twice.map(() => ({ type: "advanced" })),
    ]);
    expect(await quiet.conflicts(), "what comes again is recognised, and costs one replay at most").toBeLessThanOrEqual(
      2,
    );
    await quiet.poller.start();
    await until(async () => {
      await sql`update wakes set due_at = now()`;
      await sql`update inbox set due_at = now()`;
      return (await readRuns(sql, EVERYTHING, [runId])).get(runId)?.terminal;
    });
    expect((await readRuns(sql, EVERYTHING, [runId])).get(runId)?.run).toMatchObject({
      state: "succeeded",
      output: [10, 20, 30],
    });
    await quiet.stop();
  });

  it("a command that is delivered again after its commit changes nothing", async () => {
    await publish(database, "listener", [{ id: "w", type: "wait_for_signal", signal_name: "go" }]);
    const { sql } = database;
    const runId = await start(node.starter, "listener");
    const command: RunCommand = { type: "take", signalId: uuidv7(), name: "other", from: runId };
    const id = uuidv7(shardOf(runId));
    await node.runtime.command(runId, command, { id, inboxId: id, reach: EVERYTHING });
    await sql`insert into inbox (id, run_id, shard, command, due_at)
    values (${id}, ${runId}, ${shardOf(runId)}, ${sql.json(command as never)}, now())`;
    await node.poller.start();
    await until(async () => (await sql`select 1 from inbox where id = ${id}`).length === 0);
    expect((await readRuns(sql, EVERYTHING, [runId])).get(runId)?.run).toMatchObject({
      state: "paused",
      paused_reason: "signal",
    });
  });

  it.each([
    ["a branch", "inner"],
    ["the branch that it is a part of", "outer"],
  ])("a signal is not matched with %s that is about to be cancelled: it is kept", async (_, told) => {
    const { sql } = database;
    const fork = (id: string, next: string) => [
      { id, type: "parallel", branches: { a: { next }, b: { next: `${id}-quick` } }, next: `${id}-join` },
      { id: `${id}-quick`, type: "noop" },
      { id: `${id}-join`, type: "join" },
    ];
    const wait = { id: "w", type: "wait_for_signal", signal_name: "go" };
    await publish(database, "nested", [...fork("outer", "inner"), ...fork("inner", "w"), wait]);
    const runId = await start(node.starter, "nested");
    const branch = await until(async () => {
      const [row] = await sql<{ id: RunId; parent: RunId }[]>`
        select id, parent_run_id as parent from runs where root_run_id = ${runId} and record->'wait'->>'kind' = 'signal'
          and record->'wait'->'look' is null`;
      return row;
    });
    const stopped = told === "inner" ? branch.id : branch.parent;
    // On its way: it is delivered when the poll starts.
    await sql`insert into inbox (id, run_id, shard, command, due_at)
      values (${uuidv7(shardOf(runId))}, ${stopped}, ${shardOf(runId)}, ${sql.json(cancel as never)}, now())`;
    const id = uuidv7();
    expect(await node.runtime.command(runId, signal(id, "go"), { id, reach: EVERYTHING })).toMatchObject({
      matched: false,
    });
    await node.poller.start();
    expect(await ends(runId)).toMatchObject({ state: "failed" });
    expect(await sql`select 1 from signals where id = ${id} and consumed_at is null`).toHaveLength(1);
  });

  it.each([1, 2])(
    "as many signals at once as items wait: each takes one, and one more is left (%i nodes)",
    async (nodes) => {
      const list = [{ id: "f", type: "foreach", items: "[0, 1, 2, 3]", max_concurrency: 0, body: "w" }];
      await publish(database, "listen", [...list, { id: "w", type: "wait_for_signal", signal_name: "go" }]);
      const other = nodes === 2 ? await startHalf(database, { applicationName: "saga-other" }) : node;
      for (const half of new Set([node, other])) await half.poller.start();
      const waiting = async (runId: string) =>
        (
          await database.sql`
    select 1 from runs where parent_run_id = ${runId} and paused_reason = 'signal'`
        ).length;
      const families = Array.from({ length: 25 }, async () => {
        const runId = await start(node.starter, "listen");
        await until(async () => (await waiting(runId)) === 4);
        const give = (nth: number) => {
          const id = uuidv7();
          return (nth % 2 === 0 ? node : other).runtime.command(runId, signal(id, "go", { nth }), {
            id,
            reach: EVERYTHING,
          });
        };
        const answers = await Promise.all(Array.from({ length: 5 }, (_, nth) => give(nth)));
        const run = await ends(runId);
        expect(run).toMatchObject({ state: "succeeded", output: expect.objectContaining({ length: 4 }) });
        const rows = await database.sql`select 1 from signals where run_id = ${runId} and consumed_at is null`;
        expect(rows).toHaveLength(1);
        expect(answers.filter((answer) => answer.type === "signal" && answer.matched)).toHaveLength(4);
      });
      await Promise.all(families).finally(() => (other === node ? undefined : other.stop()));
    },
  );
});
