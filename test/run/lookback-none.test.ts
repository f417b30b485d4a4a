// `lookback: none` and events that commit late.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { JsonObject, RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { uuidv7 } from "../../src/ids.js";
import { publishEvent } from "../../src/store/engine/events.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { type Half, publish, start, startHalf } from "./rig.js";

let database: TestDatabase;
let node: Half;

beforeAll(async () => {
  database = await createTestDatabase({ max: 6 });
  await publish(database, "hear", [{ id: "s", type: "wait_for_event", topic: "sent", lookback: "none" }]);
  node = await startHalf(database);
});
afterAll(async () => {
  await node?.stop();
  await database.drop();
});

const event = (n: number) => ({ id: uuidv7(), topic: "sent", headers: {}, payload: { n }, hash: "" });
const rowOf = async (runId: RunId) => {
  const [row] = await database.sql<{ state: string; output: JsonObject | null; record: JsonObject }[]>`
    select state, output, record from runs where id = ${runId}`;
  return row;
};
const announce = (runId: RunId, eventId: string) =>
  node.runtime.command(runId, { type: "event", eventId }, { id: uuidv7(), reach: EVERYTHING });

/** A run whose wait is committed, and which has looked at the events before it. */
async function listening(): Promise<RunId> {
  const runId = await start(node.starter, "hear");
  const waits = async () => {
    const wait = (await rowOf(runId))?.record.wait as JsonObject | undefined;
    return (wait?.kind === "event" && wait.look === undefined) || undefined;
  };
  await until(waits, { what: "the run waits" });
  return runId;
}

/** A run begins to wait while an event with a lower ordinal than the newest one is not committed yet. */
async function overtaken(): Promise<{ readonly runId: RunId; readonly late: string; readonly early: string }> {
  const [late, early] = [event(1), event(2)];
  const runId = await database.sql.begin(async (transaction) => {
    await transaction`insert into events (id, topic, headers, payload, size)
      values (${late.id}, 'sent', '{}', ${JSON.stringify(late.payload)}::text::json, 7)`;
    await publishEvent(database.sql, early);
    return listening();
  });
  return { runId, late: late.id, early: early.id };
}

describe("lookback none", () => {
  it("an event that commits after the wait is taken, whatever its ordinal; an earlier one is not", async () => {
    const { runId, late, early } = await overtaken();
    await announce(runId, early);
    expect(await rowOf(runId)).toMatchObject({ state: "paused" });
    await announce(runId, late);
    expect(await rowOf(runId)).toMatchObject({ state: "succeeded", output: { payload: { n: 1 } } });
  });

  it("an event published after a restore to lower transaction ids is not counted as earlier", async () => {
    const runId = await listening();
    const one = event(3);
    await publishEvent(database.sql, one);
    await database.sql`update events set xid = '3' where id = ${one.id}`;
    await announce(runId, one.id);
    expect(await rowOf(runId)).toMatchObject({ state: "succeeded", output: { payload: { n: 3 } } });
  });
});
