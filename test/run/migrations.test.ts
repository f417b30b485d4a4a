// A run that has moved to another version, on nodes that have not seen the move: one that has the run in memory with the old program, and one
// that takes it over.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { RunCommand, RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { uuidv7 } from "../../src/ids.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { joined, leave, type Node } from "./mixed-nodes.js";
import { type Half, publish, registerActions, type Step, signal, start, startHalf } from "./rig.js";
import { allEnd, allSound, look, nothingUnwatched } from "./seen.js";

const by = { actor: "user:ops" } as const;
const migrate = (steps?: Record<string, string>): RunCommand => ({
  ...{ type: "migrate", version: 1, ...by },
  ...(steps && { steps }),
});

let database: TestDatabase;
const halves: Half[] = [];
const nodes: Node[] = [];

/** Runs begin with version 2, the latest, and move to version 1. */
async function versions(id: string, one: readonly Step[], two: readonly Step[]): Promise<void> {
  await publish(database, id, one, { version: 1 });
  await publish(database, id, two, { version: 2 });
}

const inLoop = (body: Step, out: string): Step[] => [
  { id: "w", type: "while", condition: "iteration < 2", body: body.id, next: "out" },
  body,
  { id: "out", type: "end", output: `\${'${out}'}` },
];
const go = (id: string): Step => ({ id, type: "wait_for_signal", signal_name: "go" });
const hear = (match: string): Step => ({ id: "e", type: "wait_for_event", topic: "made", match });

beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
  await registerActions(database, "charge", "refund");
  await versions("loops", inLoop(go("hold"), "one"), inLoop(go("wait"), "two"));
  await versions("hears", [hear("event.payload.n == 1")], [hear("event.payload.n == 2")]);
  const pay = { id: "pay", type: "action", action: "shop.charge" };
  const undone = { ...pay, compensation: { action: "shop.refund", inputs: { of: "${output.receipt}" } }, next: "wait" };
  await versions("undoes", [{ ...pay, id: "other", next: "wait" }, go("wait")], [undone, go("wait")]);
});
afterEach(async () => {
  for (const half of halves.splice(0)) await half.stop();
  for (const node of nodes.splice(0)) await leave(node);
});
afterAll(() => database.drop());

async function join(): Promise<Half> {
  const half = await startHalf(database, { reply: ({ call }) => ({ result: { receipt: call.idempotencyKey } }) });
  halves.push(half);
  return half;
}

async function comesTo(half: Half, workflow: string, reason: string): Promise<RunId> {
  const runId = await start(half.starter, workflow);
  await until(async () => (await look(database.sql, runId)).run.paused_reason === reason);
  return runId;
}

const give = (half: Half, runId: RunId, command: RunCommand) =>
  half.runtime.command(runId, command, { id: uuidv7(), reach: EVERYTHING });
const version = async (runId: RunId) => {
  const [row] = await database.sql<{ version: number; v: number; of: number }[]>`
    select r.version, (r.record->>'v')::int as v, d.version as of
    from runs r join definitions d on d.definition_id = r.definition_id where r.id = ${runId}`;
  return row;
};

describe("a run that has moved", () => {
  it("loses the next commit of a node that has it in memory, which goes on under the new version", async () => {
    const [one, other] = [await join(), await join()];
    const runId = await comesTo(one, "loops", "signal");
    expect(await give(other, runId, migrate({ wait: "hold" }))).toMatchObject({ type: "acted", changed: true });
    // Its actor is still at the step `wait` of version 2.
    for (const half of [one, other]) {
      const id = uuidv7();
      expect(await half.runtime.command(runId, signal(id, "go"), { id, reach: EVERYTHING })).toMatchObject({
        matched: true,
      });
    }
    await allEnd(database.sql, [runId]);
    const [seen] = await allSound(database.sql, [runId]);
    expect(seen?.run).toMatchObject({ state: "succeeded", version: 1, output: "one" });
    await nothingUnwatched(database.sql);
  });

  it("is taken over as one of the new version", async () => {
    const one = await join();
    const runId = await comesTo(one, "loops", "signal");
    await give(one, runId, migrate({ wait: "hold" }));
    expect(await version(runId)).toEqual({ version: 1, of: 1, v: 1 });
    await one.stop();
    halves.length = 0;
    const other = await joined(database, nodes);
    for (let rounds = 0; rounds < 2; rounds++) await give(other, runId, signal(uuidv7(), "go"));
    await allEnd(database.sql, [runId]);
    const [seen] = await allSound(database.sql, [runId]);
    expect(seen?.run).toMatchObject({ state: "succeeded", version: 1, output: "one" });
  });

  it("is offered the events that its new match takes", async () => {
    const one = await join();
    const runId = await comesTo(one, "hears", "event");
    const conditions = async () => {
      const [row] = await database.sql<{ conditions: { equal: object } }[]>`
        select conditions from event_waits where run_id = ${runId}`;
      return Object.values(row?.conditions.equal ?? {});
    };
    expect(await conditions()).toEqual([2]);
    await give(one, runId, migrate());
    expect(await conditions()).toEqual([1]);
  });

  it("is undone by the actions that its undo list has, on a node that never had the old program", async () => {
    const one = await join();
    const runId = await comesTo(one, "undoes", "signal");
    await give(one, runId, migrate());
    const other = await join();
    await give(other, runId, { type: "cancel", compensate: true, ...by });
    await allEnd(database.sql, [runId]);
    await allSound(database.sql, [runId]);
    const rows = await database.sql<{ step: string; action: string; state: string }[]>`
      select step_id as step, action, state from undo where owner_run_id = ${runId}`;
    expect(rows).toEqual([{ step: "pay", action: "shop.refund@1", state: "done" }]);
    expect(await version(runId)).toMatchObject({ version: 1, of: 1 });
    await nothingUnwatched(database.sql);
  });
});
