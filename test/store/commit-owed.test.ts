// Rows that transitions owe, as the commit statement writes them: outbox, inbox, signals, user tasks and the undo list.

import { describe, expect, it } from "vitest";
import {
  type Owed,
  OwedRows,
  outboxRow,
  type Row,
  type Rows,
  type RunId,
  type RunIdentity,
  signalRecorded,
  taskClosed,
  taskOpened,
  undoHanded,
  undoOwed,
  undoPassed,
  undoSettled,
  type Write,
} from "../../machines/index.js";
import { uuidv7 } from "../../src/ids.js";
import { unitHost } from "../../src/run/unit-host.js";
import { signalFor } from "../../src/store/engine/family.js";
import { AT, confirmation, openCommitStore, signal, update } from "./commit-rows.js";

const store = openCommitStore();
const { commit, rows, created } = store;

import { newDispatchId, newRunId } from "../harness/ids.js";

/** The rows of one commit of the run, as the unit folds them. */
function rowsOf(...owed: readonly Owed[]): Rows {
  const rows = new OwedRows({ ...unitHost(), newFence: () => "8" });
  for (const { writes = [] } of owed) rows.add({} as RunIdentity, writes);
  return rows.rows;
}
const by = (id: RunId, now = AT) => ({ run: { id }, now });

describe("dispatches and posts owed", () => {
  const asked = (id: RunId, dispatchId: string): Owed => ({ writes: [outboxRow(by(id), dispatchId, "action")] });
  const gone = (run_id: RunId, id: string): Owed => ({ writes: [{ to: "outbox_gone", row: { run_id, id } } as Write] });

  it("are a row until they are resolved", async () => {
    const runId = await created();
    const dispatchId = newDispatchId();
    await commit(update(runId, 1, rowsOf(asked(runId, dispatchId))));
    expect((await rows(runId)).outbox).toMatchObject([{ id: dispatchId, kind: "action", tries: 0 }]);
    await commit(update(runId, 2, rowsOf(gone(runId, dispatchId))));
    expect((await rows(runId)).outbox).toEqual([]);
  });

  it("never become a row if they are owed and settled between two commits", async () => {
    const runId = await created();
    const [first, last] = [newDispatchId(), newDispatchId()];
    const owed = rowsOf(asked(runId, first), gone(runId, first), asked(runId, last));
    expect(owed).toMatchObject({ outbox_row: [{ id: last }] });
    expect(owed.outbox_gone).toBeUndefined();
    await commit(update(runId, 1, owed));
    expect((await rows(runId)).outbox).toMatchObject([{ id: last }]);
  });

  it("keep their leased row when they are asked for again", async () => {
    const runId = await created();
    const dispatchId = newDispatchId();
    const due = (due_at: number) => ({ outbox_row: [{ id: dispatchId, kind: "action", due_at }] });
    await commit(update(runId, 1, due(AT)));
    await commit(confirmation(runId, 2, due(AT + 9)));
    expect((await rows(runId)).outbox).toMatchObject([{ id: dispatchId, due_at: new Date(AT) }]);
  });

  it("are settled by their own run only", async () => {
    const [one, other] = [await created(), await created()];
    const dispatchId = newDispatchId();
    await commit(update(one, 1, rowsOf(asked(one, dispatchId))));
    await commit(update(other, 7, rowsOf(gone(other, dispatchId))));
    expect((await rows(one)).outbox).toHaveLength(1);
  });
});

describe("the inbox", () => {
  it("loses a row in the commit that answers it, and in no other", async () => {
    const [from, to] = [await created(), await created()];
    const id = uuidv7();
    const inbox_row = [{ id, run_id: to, command: { type: "advance" }, due_at: AT }];
    await commit(update(from, 1, { inbox_row }));
    expect((await rows(to)).inbox).toMatchObject([{ id, command: { type: "advance" } }]);
    await commit(update(to, 9, { inbox_gone: [{ id }] }));
    expect((await rows(to)).inbox).toHaveLength(1);
    await commit(update(to, 1, { inbox_gone: [{ id }] }));
    expect((await rows(to)).inbox).toEqual([]);
  });

  it("has a command once, however often it is sent", async () => {
    const [from, to] = [await created(), await created()];
    const inbox_row = [{ id: uuidv7(), run_id: to, command: { type: "advance" }, due_at: AT }];
    await commit(update(from, 1, { inbox_row }));
    await commit(update(from, 2, { inbox_row }));
    expect((await rows(to)).inbox).toHaveLength(1);
  });
});

describe("signals", () => {
  it("are taken once, while they are unconsumed", async () => {
    const runId = await created();
    const id = uuidv7();
    await commit(update(runId, 1, { signal: [signal(id, { payload: { n: 1 } })] }));
    await commit(update(runId, 2, { signal_claim: [{ id, at: AT + 1 }] }));
    await commit(update(runId, 3, { signal_claim: [{ id, at: AT + 2 }] }));
    expect((await rows(runId)).signals).toMatchObject([{ id, payload: { n: 1 }, consumed_at: new Date(AT + 1) }]);
  });

  it("are consumed on receipt if the run waits for them", async () => {
    const runId = await created();
    const id = uuidv7();
    await commit(update(runId, 1, { signal: [signal(id, { consumed: true })] }));
    expect((await rows(runId)).signals).toMatchObject([{ id, consumed_at: new Date(AT) }]);
  });
});

describe("the promise of a signal", () => {
  const waits = { state: "paused", awaited_signal: "go", paused_reason: "signal" };
  /** A run at revision 2 that waits for the signal `go`. */
  async function waiter(more: Partial<Row<"run_update">> = {}): Promise<RunId> {
    const runId = await created();
    await commit(update(runId, 1, {}, { ...waits, ...more }));
    return runId;
  }
  const promise = (from: RunId, to: RunId, { name = "go", expected = 1 } = {}) => {
    const id = uuidv7();
    const recorded = signalRecorded(by(from), { id, name, payload: {} }, { consumed: false, promisedTo: to });
    return { id, commit: update(from, expected, rowsOf(recorded)) };
  };
  const signalsOf = async (runId: RunId) => (await rows(runId)).signals.map(({ promised_to }) => promised_to);

  it("fences what the run is deciding, and leaves it free for no other signal", async () => {
    const [from, other, to] = [await created(), await created(), await waiter()];
    expect(await commit(promise(from, to).commit)).toEqual(new Set([from]));
    expect(await signalsOf(from)).toEqual([to]);
    const [{ revision, fence, awaited_signal, paused_reason, state } = {}] = (await rows(to)).runs;
    expect([revision, awaited_signal, paused_reason, state]).toEqual([3, null, "signal", "paused"]);
    expect(fence).not.toBe("7");
    // The timeout of the wait was decided before.
    expect(await commit(update(to, 2))).toEqual(new Set());
    expect(await commit(promise(other, to).commit)).toEqual(new Set());
    expect(await signalsOf(other)).toEqual([]);
  });

  it.each([
    ["waits for another signal", { awaited_signal: "stop" }, "go"],
    ["is in quarantine", { paused_reason: "quarantine" }, "go"],
    ["has ended", { state: "failed", terminal_at: AT }, "go"],
  ])("loses if the run %s", async (_, about, name) => {
    const [from, to] = [await created(), await waiter(about)];
    const before = await rows(to);
    expect(await commit(promise(from, to, { name }).commit)).toEqual(new Set());
    expect([await signalsOf(from), await rows(to)]).toEqual([[], before]);
  });

  it("is one of two in a group", async () => {
    const [one, other, to] = [await created(), await created(), await waiter()];
    const won = await commit(promise(one, to).commit, promise(other, to).commit);
    expect(won.size).toBe(1);
    expect([...(await signalsOf(one)), ...(await signalsOf(other))]).toEqual([to]);
  });

  it("is read first by its run, and by no other run before that has ended", async () => {
    const [root, to] = [await created(), await waiter()];
    const older = signal(uuidv7(), { payload: "older" });
    await commit(update(root, 1, { signal: [older] }));
    const { id, commit: promised } = promise(root, to, { expected: 2 });
    await commit(promised);
    const seenBy = (run: RunId) => signalFor(store.sql, { id: run, family: [root] }, "go");
    expect(await seenBy(to)).toMatchObject({ id, runId: root, promised: true });
    expect(await seenBy(newRunId())).toMatchObject({ id: older.id, promised: false });
    await store.sql`update signals set consumed_at = now() where id = ${older.id as string}`;
    expect(await seenBy(newRunId())).toBeNull();
    await store.sql`update runs set terminal_at = now() where id = ${to}`;
    expect(await seenBy(newRunId())).toMatchObject({ id, promised: false });
  });
});

describe("user tasks", () => {
  const opened = async (runId: RunId, expected: number) => {
    const id = uuidv7();
    const task = {
      id,
      stepId: "ask",
      assignee: "ann",
      title: "Order 7",
      dueAt: AT + 9,
      formSchema: { type: "object" },
    };
    await commit(update(runId, expected, rowsOf(taskOpened(by(runId), task))));
    return id;
  };
  const submitted = (runId: RunId, id: string) =>
    rowsOf(taskClosed(by(runId, AT + 1), id, { result: { n: 1 }, by: "ann" }));
  const closed = (runId: RunId, id: string) => rowsOf(taskClosed(by(runId, AT + 2), id));

  it("are opened with all their members", async () => {
    const runId = await created();
    const id = await opened(runId, 1);
    expect((await rows(runId)).user_tasks).toEqual([
      {
        ...{ id, run_id: runId, step_id: "ask", assignee: "ann", title: "Order 7", form_schema: { type: "object" } },
        ...{ due_at: new Date(AT + 9), opened_at: new Date(AT), closed_at: null },
        ...{ submitted_at: null, submitted_by: null, result: null },
      },
    ]);
  });

  it("end once: a submitted task is not closed, a closed one is not submitted", async () => {
    const runId = await created();
    const [one, other] = [await opened(runId, 1), await opened(runId, 2)];
    const both = (...rest: ReturnType<typeof closed>[]) => ({
      closed_task: rest.flatMap((owed) => owed.closed_task ?? []),
    });
    await commit(update(runId, 3, both(submitted(runId, one), closed(runId, other))));
    const after = (await rows(runId)).user_tasks;
    await commit(update(runId, 4, both(closed(runId, one), submitted(runId, other))));
    expect((await rows(runId)).user_tasks).toEqual(after);
    const end = { closed_at: new Date(AT + 1), submitted_at: new Date(AT + 1), submitted_by: "ann", result: { n: 1 } };
    expect(after.find(({ id }) => id === one)).toMatchObject(end);
    expect(after.find(({ id }) => id === other)).toMatchObject({
      ...{ closed_at: new Date(AT + 2), submitted_at: null, submitted_by: null, result: null },
    });
  });

  it("stay as they are if the run lost, or if they belong to another run", async () => {
    const [runId, stranger] = [await created(), await created()];
    const id = await opened(runId, 1);
    const before = (await rows(runId)).user_tasks;
    await commit(update(runId, 1, submitted(runId, id)));
    await commit(update(stranger, 1, submitted(stranger, id)));
    expect((await rows(runId)).user_tasks).toEqual(before);
  });
});

describe("the undo list", () => {
  const owed = (step_id: string, action?: string) => ({
    ...{ step_id, entry: 1, action, inputs: {}, forward_key: step_id, state: "owed" },
  });
  const ordered = async (runId: string) =>
    (await rows(runId)).undo.sort((left, right) => Number(left.ordinal) - Number(right.ordinal));

  it("is in the order of completion, within a commit and over commits", async () => {
    const mates = [await created(), await created(), await created()];
    const names = Array.from({ length: 20 }, (_, nth) => `s${nth}`);
    const shares = (revision: number, steps: string[]) =>
      mates.map((runId) => update(runId, revision, { undo_entry: steps.map((step) => owed(step, "shop.refund@1")) }));
    await commit(...shares(1, names.slice(0, 12)));
    await commit(...shares(2, names.slice(12)));
    for (const runId of mates) expect((await ordered(runId)).map(({ step_id }) => step_id)).toEqual(names);
  });

  it("is settled entry by entry, by its owner only", async () => {
    const [runId, other] = [await created(), await created()];
    await commit(update(runId, 1, { undo_entry: [owed("a", "shop.refund@1"), owed("b", "shop.refund@1")] }));
    const ordinal = String((await ordered(runId))[1]?.ordinal);
    await commit(update(other, 1, { undo_settled: [{ ordinal, state: "done" }] }));
    expect((await ordered(runId)).map(({ state }) => state)).toEqual(["owed", "owed"]);
    await commit(update(runId, 2, { undo_settled: [{ ordinal, state: "done" }] }));
    expect((await ordered(runId)).map(({ state }) => state)).toEqual(["owed", "done"]);
  });

  it("passes entries without an action, and no others", async () => {
    const runId = await created();
    await commit(update(runId, 1, { undo_entry: [owed("a"), owed("b", "shop.refund@1")] }));
    await commit(update(runId, 2, { undo_passed: [{ since: 0, every: false }] }));
    expect((await ordered(runId)).map(({ state }) => state)).toEqual(["passed", "owed"]);
  });

  const undo = (of: RunId, stepId: string, entry: number, action?: string) =>
    undoOwed(by(of), { stepId, entry, action, forwardIdempotencyKey: stepId });
  const REFUND = "shop.refund@1";

  it("is handed over whole, with the entries of the same commit, but without those that it settles or passes", async () => {
    const [child, heir] = [await created(), await created()];
    const first = [undo(child, "a", 1, REFUND), undo(child, "b", 2, REFUND), undo(child, "c", 3)];
    await commit(update(child, 1, rowsOf(...first)));
    const ordinal = String((await ordered(child))[1]?.ordinal);
    const then = [
      undoSettled(by(child), ordinal, "failed"),
      undoPassed(by(child), { since: 1 }),
      undo(child, "d", 4, REFUND),
      undo(child, "e", 5),
      undoHanded(by(child), heir, 7),
    ];
    await commit(update(child, 2, rowsOf(...then)));
    const left = (await ordered(child)).map(({ step_id, state }) => [step_id, state]);
    expect(left).toEqual([
      ["b", "failed"],
      ["c", "passed"],
    ]);
    const handed = (await ordered(heir)).map(({ step_id, state, entry, child_run_id }) => [
      step_id,
      state,
      entry,
      child_run_id,
    ]);
    expect(handed).toEqual(["a", "d", "e"].map((step) => [step, "owed", 7, child]));
  });

  it("begins as passed in a batch that drops or passes it", async () => {
    const [dropped, passed] = [await created(), await created()];
    const drop = [undo(dropped, "a", 1, REFUND), undoPassed(by(dropped), { every: true })];
    await commit(update(dropped, 1, rowsOf(...drop)));
    const pass = [
      undo(passed, "a", 1),
      undo(passed, "b", 2),
      undoPassed(by(passed), { since: 1 }),
      undo(passed, "c", 3),
    ];
    await commit(update(passed, 1, rowsOf(...pass)));
    expect((await ordered(dropped)).map(({ state }) => state)).toEqual(["passed"]);
    expect((await ordered(passed)).map(({ state }) => state)).toEqual(["owed", "passed", "owed"]);
  });
});
