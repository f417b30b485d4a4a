// What a run keeps of its undo list: one read serves many undos, and nothing is kept that may have changed.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Owed, type RunId, type UndoEntry, undoOwed, undoPassed, undoSettled } from "../../machines/index.js";
import { OwedUndos } from "../../src/run/loaded-run.js";
import { newestOwed, type OwedEntries, UndoReads } from "../../src/store/engine/load.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { newRunId } from "../harness/ids.js";
import { type Half, publish, registerActions, start, startHalf } from "./rig.js";
import { allEnd } from "./seen.js";

const entry = (ordinal: string): UndoEntry => ({ ordinal, stepId: "s", entry: 1, forwardIdempotencyKey: "key" });
const run = { id: newRunId() };
const settled = (ordinal: string) => writesOf(undoSettled({ run }, ordinal, "done"));
const writesOf = ({ writes = [] }: Owed) => writes;

describe("kept undo entries", () => {
  it("are worked off from the newest on, to the end of a complete list", () => {
    const owed = new OwedUndos();
    expect(owed.facts).toEqual({});
    owed.keep(4, { entries: [entry("3"), entry("2")], complete: true });
    expect(owed.facts).toEqual({ undo: { since: 4, newest: entry("3") } });
    owed.apply(settled("3"));
    expect(owed.facts).toEqual({ undo: { since: 4, newest: entry("2") } });
    owed.apply(settled("2"));
    expect(owed.facts).toEqual({ undo: { since: 4, newest: null } });
  });

  it("say nothing of the end of an incomplete list", () => {
    const owed = new OwedUndos();
    owed.keep(0, { entries: [entry("3")], complete: false });
    owed.apply(settled("3"));
    expect(owed.facts).toEqual({});
  });

  it("are dropped with any other change of the list", () => {
    for (const writes of [writesOf(undoOwed({ run }, entry("9"))), writesOf(undoPassed({ run }, {})), settled("2")]) {
      const owed = new OwedUndos();
      owed.keep(0, { entries: [entry("3"), entry("2")], complete: true });
      owed.apply(writes);
      expect(owed.facts).toEqual({});
    }
  });
});

/** Parts of statements are calls of the driver, too. */
const isStatement = ([strings]: unknown[]) => String(strings).includes("select");

describe("on the store", () => {
  let database: TestDatabase;
  let half: Half;
  beforeAll(async () => {
    database = await createTestDatabase({ max: 4 });
    await registerActions(database, "charge", "refund", "refuse");
    half = await startHalf(database, {
      reply: ({ call }) => (call.action === "refuse" ? { code: "refused", retryable: false } : { result: {} }),
    });
  });
  afterAll(async () => {
    await half?.stop();
    await database?.drop();
  });

  it("a read brings the newest entries after a step entry, bounded in rows and bytes, and one at least", async () => {
    const { sql } = database;
    const runId = newRunId();
    const owe = (step: string, from: number, to: number, bytes: number) => sql`
      insert into undo (owner_run_id, step_id, entry, action, inputs, forward_idempotency_key, state)
      select ${runId}, ${step}, n, 'shop.refund', json_build_object('text', repeat('x', ${bytes}::int)), 'key' || n, 'owed'
      from generate_series(${from}::int, ${to}::int) n order by n`;
    await owe("small", 1, 30, 10);
    const numbers = async (since: number) => {
      const [{ entries, complete }] = (await newestOwed(sql, [{ runId, since }])) as [OwedEntries];
      return { entries: entries.map((one) => one.entry), complete };
    };
    const down = (first: number, last: number) => Array.from({ length: first - last + 1 }, (_, nth) => first - nth);
    expect(await numbers(0)).toEqual({ entries: down(30, 11), complete: false });
    expect(await numbers(10)).toEqual({ entries: down(30, 11), complete: true });
    expect(await numbers(30)).toEqual({ entries: [], complete: true });
    await owe("large", 31, 33, 40_000);
    expect(await numbers(0)).toEqual({ entries: [33], complete: false });
    await owe("huge", 34, 34, 100_000);
    expect(await numbers(0)).toEqual({ entries: [34], complete: false });
  });

  it("reads that are asked for together share statements, and each gets its own list", async () => {
    const runIds = Array.from({ length: 40 }, newRunId);
    await database.sql`
      insert into undo (owner_run_id, step_id, entry, action, inputs, forward_idempotency_key, state)
      select id::uuid, 's', n, case when n % 7 > 0 then 'shop.refund' end, '{}', id || n, case when n % 5 = 0 then 'done' else 'owed' end
      from unnest(${runIds}::text[]) with ordinality as runs (id, nth), generate_series(1, (nth % 12)::int) n order by n`;
    const asked = runIds.flatMap((runId) => [0, 3].map((since) => ({ runId, since })));
    const alone: OwedEntries[] = [];
    for (const one of asked) alone.push(...(await newestOwed(database.sql, [one])));
    expect(alone.some(({ entries }) => entries.length > 5)).toBe(true);
    let statements = 0;
    const counting = new Proxy(database.sql, {
      apply: (sql, self, parts) => {
        if (isStatement(parts)) statements++;
        return Reflect.apply(sql, self, parts);
      },
    });
    const reads = new UndoReads(counting);
    expect(await Promise.all(asked.map(({ runId, since }) => reads.newestOwed(runId, since)))).toEqual(alone);
    expect(statements).toBe(asked.length / 16);
    expect(await reads.newestOwed(runIds[11] as RunId, 0)).toEqual(alone[22]);
  });

  it("a read that fails fails for all that share it, and the next has a statement of its own", async () => {
    let down = true;
    const failing = new Proxy(database.sql, {
      apply: (sql, self, parts) =>
        down && isStatement(parts) ? Promise.reject(new Error("away")) : Reflect.apply(sql, self, parts),
    });
    const reads = new UndoReads(failing);
    const both = [newRunId(), newRunId()].map((runId) => reads.newestOwed(runId, 0));
    for (const one of await Promise.allSettled(both)) expect(one.status).toBe("rejected");
    down = false;
    expect(await reads.newestOwed(newRunId(), 0)).toEqual({ entries: [], complete: true });
  });

  /** The commits of a run of three charges and a step that fails, which undid the three. */
  async function commitsOf(workflowId: string, failing: object): Promise<number> {
    const charge = { type: "action", action: "shop.charge", compensation: { action: "shop.refund" } };
    const charges = ["one", "two", "three", "fail"].map((id, nth, ids) => ({ id, ...charge, next: ids[nth + 1] }));
    await publish(database, workflowId, [...charges.slice(0, 3), { id: "fail", type: "error", ...failing }]);
    const runId = await start(half.starter, workflowId);
    await allEnd(database.sql, [runId]);
    const undone = half.dispatcher.sent.filter(({ runId: of, call }) => of === runId && call.phase === "compensation");
    expect(undone.map(({ call }) => call.stepId)).toEqual(["three", "two", "one"]);
    const [row] = await database.sql<{ revision: number }[]>`select revision from runs where id = ${runId}`;
    return row?.revision ?? 0;
  }

  it("each undo is dispatched in the commit that records the one before", async () => {
    // The start with the first dispatch, three answers, the first undo, and the answers of three undos. The last of the three answers adds
    // to the undo list, so that the list is read after its commit.
    expect(await commitsOf("fails-at-once", {})).toBe(8);
  });

  it("the first undo is dispatched in the commit that records the failure", async () => {
    // The same, with a failure between the answers: it has no commit beside that of the first undo.
    expect(await commitsOf("is-refused", { type: "action", action: "shop.refuse" })).toBe(8);
  });
});
