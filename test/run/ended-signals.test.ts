// Signals to a run that has ended: recorded, answered with the truth that nothing takes them, and bounded.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { MAX_KEPT_SIGNALS, type RunCommand, type RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { uuidv7 } from "../../src/ids.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { cancel, type Half, publish, start, startHalf } from "./rig.js";

let database: TestDatabase;
const halves: Half[] = [];
beforeAll(async () => {
  database = await createTestDatabase();
  await publish(database, "waits", [{ id: "wait", type: "wait_for_signal", signal_name: "go" }]);
});
afterEach(async () => {
  for (const half of halves.splice(0)) await half.stop();
});
afterAll(() => database.drop());

async function half(): Promise<Half> {
  const made = await startHalf(database);
  halves.push(made);
  return made;
}

const signal = (name = "late", id = uuidv7()): RunCommand => ({ type: "signal", id, name, payload: {}, actor: "api" });

async function kept(runId: RunId): Promise<number> {
  return (await database.sql`select 1 from signals where run_id = ${runId} and consumed_at is null`).length;
}

/** Records so many signals. */
async function record(runId: RunId, count: number): Promise<void> {
  await database.sql`
    insert into signals (id, run_id, signal_name, payload, received_at)
    select gen_random_uuid(), ${runId}, 'old', '{}', now() from generate_series(1, ${count})`;
}

describe("a signal to a run that has ended", () => {
  it("is recorded, and its answer says that the run has ended; so does that of a repeat", async () => {
    const [one, other] = [await half(), await half()];
    const runId = await start(one.starter, "waits");
    await one.runtime.command(runId, cancel, { reach: EVERYTHING });
    const late = signal();
    const options = { id: (late as { id: string }).id, keep: true };
    const first = await one.runtime.command(runId, late, { ...options, reach: EVERYTHING });
    expect(first).toMatchObject({ type: "signal", matched: false, ended: true });
    for (const { runtime } of [one, other])
      expect(await runtime.command(runId, late, { ...options, reach: EVERYTHING })).toEqual(first);
    expect(await kept(runId)).toBe(1);
  });

  it("is refused once as many are kept as may be, while a repeat of one before still gets its first answer", async () => {
    const { runtime, starter } = await half();
    const runId = await start(starter, "waits");
    await runtime.command(runId, cancel, { reach: EVERYTHING });
    const late = signal();
    const options = { id: (late as { id: string }).id, keep: true };
    const first = await runtime.command(runId, late, { ...options, reach: EVERYTHING });
    await record(runId, MAX_KEPT_SIGNALS - 1);
    const next = await runtime.command(runId, signal(), { reach: EVERYTHING });
    expect(next).toMatchObject({ type: "refused", reason: expect.stringContaining("has ended") });
    expect(await runtime.command(runId, late, { ...options, reach: EVERYTHING })).toEqual(first);
    expect(await kept(runId)).toBe(MAX_KEPT_SIGNALS);
  });
});

describe("a run that has not ended", () => {
  it("keeps no more signals that no step takes, but takes the one that it waits for", async () => {
    const { starter } = await half();
    const runId = await start(starter, "waits");
    await expect
      .poll(async () => (await database.sql`select 1 from runs where id = ${runId} and state = 'paused'`).length)
      .toBe(1);
    await record(runId, MAX_KEPT_SIGNALS);
    await database.sql`
      update runs set record = jsonb_set(record::jsonb, '{unconsumedSignals}', ${MAX_KEPT_SIGNALS}::text::jsonb)::json
      where id = ${runId}`;
    const fresh = await half();
    expect(await fresh.runtime.command(runId, signal(), { reach: EVERYTHING })).toMatchObject({
      ...{ type: "refused", reason: expect.stringContaining(`${MAX_KEPT_SIGNALS} signals`) },
    });
    expect(await fresh.runtime.command(runId, signal("go"), { reach: EVERYTHING })).toMatchObject({
      type: "signal",
      matched: true,
    });
  });

  it("counts again where its own number is too high: its branches took some", async () => {
    const { starter } = await half();
    const runId = await start(starter, "waits");
    await expect
      .poll(async () => (await database.sql`select 1 from runs where id = ${runId} and state = 'paused'`).length)
      .toBe(1);
    await database.sql`
      update runs set record = jsonb_set(record::jsonb, '{unconsumedSignals}', '20000')::json where id = ${runId}`;
    const fresh = await half();
    expect(await fresh.runtime.command(runId, signal(), { reach: EVERYTHING })).toMatchObject({
      type: "signal",
      matched: false,
    });
  });
});
