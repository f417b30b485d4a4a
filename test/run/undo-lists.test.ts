// The undo list of a run that ended without undoing: it shows what its whole family owes, each entry once, whichever child has it.

import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { asRunId, type JsonObject, type RunCommand, type RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { listUndo } from "../../src/store/lists/history.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { cancel, type Half, publish, registerActions, start, startHalf } from "./rig.js";
import { allEnd, allSound } from "./seen.js";

const UNDONE = { action: "shop.undo" };
const call = (id: string, more = {}) => ({ id, type: "action", action: `shop.${id}`, compensation: UNDONE, ...more });

let database: TestDatabase;
let half: Half;

beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
  await registerActions(database, "hotel", "flight", "car", "seat", "train", "undo");
  await publish(database, "ride", [call("train", { next: "seat" }), call("seat")]);
  await publish(database, "trip", [
    call("hotel", { next: "fork" }),
    {
      id: "fork",
      type: "parallel",
      branches: { air: { next: "flight" }, road: { next: "sub" }, each: { next: "cars" } },
      next: "join",
    },
    call("flight"),
    { id: "sub", type: "sub_saga", workflow_id: "ride" },
    { id: "cars", type: "foreach", items: "['a', 'b']", item_var: "one", body: "car", max_concurrency: 2 },
    call("car"),
    { id: "join", type: "join" },
  ]);
});
afterEach(() => half.stop());
afterAll(() => database.drop());

const terminate: RunCommand = { type: "terminate", reason: "case 4711", actor: "api" };
const abandon: RunCommand = { type: "cancel", reason: "enough", compensate: false, actor: "api" };

const undoOf = async (runId: RunId, page = {}): Promise<readonly JsonObject[]> =>
  (await listUndo(database.sql, EVERYTHING, runId, { limit: 100, offset: 0, ...page })).items;
const stepsOf = async (runId: RunId) => (await undoOf(runId)).map(({ step_id }) => step_id);

interface Member {
  readonly id: RunId;
  readonly parent: string | null;
  readonly branch: string | null;
  readonly workflow: string;
}

async function familyOf(root: RunId): Promise<readonly Member[]> {
  return database.sql<Member[]>`
    select id, parent_run_id as parent, parent_branch_id as branch, workflow_id as workflow from runs
    where root_run_id = ${root} order by id`;
}

/** The hotel is booked; the flight, both cars and the seat of the train are with their workers. */
async function trip(): Promise<RunId> {
  const ready = new Set(["hotel", "train", "undo"]);
  half = await startHalf(database, {
    reply: ({ call: { action } }) => (ready.has(action) ? { type: "result", result: {} } : undefined),
  });
  half.poller.start();
  const root = await start(half.starter, "trip");
  await until(() => half.dispatcher.sent.filter(({ call: { action } }) => !ready.has(action)).length === 4, {
    what: "the calls in flight",
  });
  return root;
}

describe("a family that ends without undoing", () => {
  it.each([
    ["terminate", terminate, true],
    ["a cancel without compensation", abandon, false],
  ] as const)("%s: the root lists what each of its runs owes, once, and names the run", async (_, command, review) => {
    const root = await trip();
    await half.runtime.command(root, command, { reach: EVERYTHING });
    const family = await familyOf(root);
    await allEnd(database.sql, [root, ...family.map(({ id }) => id)]);
    const idOf = (found: (member: Member) => boolean) => family.filter(found).map(({ id }) => id);
    const [ride = ""] = idOf(({ workflow }) => workflow === "ride");
    const [flight = ""] = idOf(({ branch, parent }) => branch === "air" && parent === root);
    const entries = await undoOf(root);
    expect(entries.map(({ ordinal }) => ordinal)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(entries.every(({ state, action }) => state === "abandoned" && String(action).startsWith("shop.undo"))).toBe(
      true,
    );
    expect(entries[0]).toEqual({ ordinal: 1, step_id: "hotel", action: "shop.undo@1", state: "abandoned" });
    const children = entries.slice(1).map(({ step_id, child_run_id }) => `${step_id} ${child_run_id}`);
    const items = idOf(
      ({ parent }) =>
        parent !== root &&
        parent !== null &&
        parent !== ride &&
        family.some(({ id, branch }) => id === parent && branch === "each"),
    );
    expect(children.toSorted()).toEqual(
      [`flight ${flight}`, `train ${ride}`, `seat ${ride}`, ...items.map((id) => `car ${id}`)].toSorted(),
    );
    // In pages, too, and each child keeps its own.
    const pages = [await undoOf(root, { limit: 4 }), await undoOf(root, { limit: 4, offset: 4 })].flat();
    expect(pages).toEqual(entries);
    expect(await stepsOf(asRunId(ride))).toEqual(["train", "seat"]);
    expect((await listUndo(database.sql, EVERYTHING, root, { limit: 2, offset: 0 })).total).toBe(6);
    expect(await database.sql`select requires_manual_review as review from runs where id = ${root}`).toEqual([
      { review },
    ]);
    await allSound(database.sql, [root]);
  });
});

describe("a page of a root's list", () => {
  it("begins behind the entry that the one before it ended with, whichever entries have come in between", async () => {
    const root = await trip();
    await half.runtime.command(root, terminate, { reach: EVERYTHING });
    await allEnd(database.sql, [root, ...(await familyOf(root)).map(({ id }) => id)]);
    const whole = await undoOf(root);
    const { next_cursor: cursor, items } = await listUndo(database.sql, EVERYTHING, root, { limit: 3, offset: 0 });
    // One more of the run's own comes before all of its children.
    await database.sql`
      insert into undo (owner_run_id, step_id, entry, action, forward_idempotency_key, state)
      values (${root}, 'late', 99, 'shop.undo@1', 'k', 'failed')`;
    const rest = await undoOf(root, { cursor });
    const named = (entries: readonly JsonObject[]) =>
      entries.map(({ step_id, child_run_id }) => [step_id, child_run_id]);
    expect(named([...items, ...rest])).toEqual(named(whole));
    await database.sql`delete from undo where owner_run_id = ${root} and step_id = 'late'`;
  });
});

describe("what a child owes", () => {
  it("is listed once when it has succeeded and handed it over", async () => {
    half = await startHalf(database, { reply: () => ({ type: "result", result: {} }) });
    half.poller.start();
    const root = await start(half.starter, "trip");
    await allEnd(database.sql, [root]);
    const steps = ["hotel", "flight", "car", "car", "train", "seat"];
    expect((await stepsOf(root)).toSorted()).toEqual(steps.toSorted());
    for (const { id } of await familyOf(root)) expect(await stepsOf(id)).toEqual([]);
  });

  it("is not on the root's list while the child may still undo it, nor when it has", async () => {
    const root = await trip();
    expect(await stepsOf(root)).toEqual(["hotel"]);
    const [road] = (await familyOf(root)).filter(({ branch }) => branch === "road");
    await half.runtime.command(road?.id as RunId, cancel, { reach: EVERYTHING });
    const seat = half.dispatcher.sent.find(({ call: { action } }) => action === "seat");
    await half.runtime.command(
      seat?.runId as RunId,
      {
        ...{ type: "result", dispatchId: seat?.dispatchId ?? "", actor: "worker:w", result: {} },
      } as RunCommand,
      { reach: EVERYTHING },
    );
    await allEnd(database.sql, [road?.id as RunId]);
    expect(await stepsOf(root)).toEqual(["hotel"]);
    await half.runtime.command(root, terminate, { reach: EVERYTHING });
    await allEnd(database.sql, [root]);
    expect((await stepsOf(root)).toSorted()).toEqual(["car", "car", "flight", "hotel"]);
  });

  it("is on the list of the root behind its own entries, so that these keep their numbers", async () => {
    const root = await trip();
    const [air] = (await familyOf(root)).filter(({ branch }) => branch === "air");
    await half.runtime.command(air?.id as RunId, terminate, { reach: EVERYTHING });
    await allEnd(database.sql, [air?.id as RunId]);
    expect(await undoOf(root)).toMatchObject([
      { ordinal: 1, step_id: "hotel", state: "owed" },
      { ordinal: 2, step_id: "flight", state: "abandoned", child_run_id: air?.id },
    ]);
    await half.runtime.command(root, terminate, { reach: EVERYTHING });
    await allEnd(database.sql, [root]);
  });
});
