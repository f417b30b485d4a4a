// A command with an idempotency key takes effect once, whatever happened between its repeats: the id that follows from the key is part
// of the commit, so every node that meets a repeat finds the first answer.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { RunCommand } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { uuidv7 } from "../../src/ids.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { cancel, type Half, publish, start, startHalf } from "./rig.js";

let database: TestDatabase;
const halves: Half[] = [];
beforeAll(async () => {
  database = await createTestDatabase();
  await publish(database, "waits", [{ id: "wait", type: "wait_for_signal", signal_name: "go" }]);
  await publish(database, "asks", [
    { id: "ask", type: "collect_input", assignee: "ann", form_schema: { required: ["a"] }, next: "wait" },
    { id: "wait", type: "wait_for_signal", signal_name: "go" },
  ]);
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

const keyed = (requestHash = "one") => ({ id: uuidv7(), keep: true, requestHash });

async function isAt(runId: string, step: string): Promise<void> {
  await expect
    .poll(async () => (await database.sql`select current_step from runs where id = ${runId}`)[0])
    .toEqual({ current_step: step });
}

async function rows(runId: string): Promise<number> {
  return (await database.sql`select 1 from run_events where run_id = ${runId}`).length;
}

describe("a repeat of a keyed command", () => {
  it("gets the first answer, on the same node and on another, and changes nothing", async () => {
    const [one, other] = [await half(), await half()];
    const runId = await start(one.starter, "waits");
    await isAt(runId, "wait");
    const options = keyed();
    const first = await one.runtime.command(runId, cancel, { ...options, reach: EVERYTHING });
    expect(first).toMatchObject({ type: "cancel", alreadyTerminal: false });
    const before = await rows(runId);
    for (const { runtime } of [one, other])
      expect(await runtime.command(runId, cancel, { ...options, reach: EVERYTHING })).toMatchObject(first);
    expect(await rows(runId)).toBe(before);
    // Without the key it is another command, and says what is now.
    expect(await other.runtime.command(runId, cancel, { reach: EVERYTHING })).toMatchObject({ alreadyTerminal: true });
  });

  it("with another body is a conflict, and changes nothing", async () => {
    const [one, other] = [await half(), await half()];
    const runId = await start(one.starter, "waits");
    await isAt(runId, "wait");
    const options = keyed();
    await one.runtime.command(runId, cancel, { ...options, reach: EVERYTHING });
    for (const { runtime } of [one, other]) {
      const repeat = runtime.command(runId, { ...cancel, reason: "other" } as RunCommand, {
        ...options,
        requestHash: "two",
        reach: EVERYTHING,
      });
      await expect(repeat).rejects.toMatchObject({ status: 409, message: expect.stringContaining("idempotency key") });
    }
  });

  it("gets the first answer although the run would refuse it by now", async () => {
    const { runtime, starter } = await half();
    const runId = await start(starter, "asks");
    await isAt(runId, "ask");
    const [task] = await database.sql<{ id: string }[]>`select id from user_tasks where run_id = ${runId}`;
    const submit: RunCommand = { type: "submit", taskId: task?.id ?? "", result: { a: 1 }, actor: "api" };
    const options = keyed();
    const first = await runtime.command(runId, submit, { ...options, reach: EVERYTHING });
    expect(first.type).toBe("submit");
    await isAt(runId, "wait");
    expect(await runtime.command(runId, submit, { ...options, reach: EVERYTHING })).toMatchObject(first);
    expect(await runtime.command(runId, submit, { reach: EVERYTHING })).toMatchObject({ type: "closed" });

    await database.sql`update runs set record = jsonb_set(record::jsonb, '{quarantined}', 'true')::json where id = ${runId}`;
    const fresh = await half();
    const release: RunCommand = { type: "release", actor: "api" };
    const released = keyed();
    expect((await fresh.runtime.command(runId, release, { ...released, reach: EVERYTHING })).type).not.toBe("refused");
    expect((await fresh.runtime.command(runId, release, { ...released, reach: EVERYTHING })).type).not.toBe("refused");
    expect((await fresh.runtime.command(runId, release, { reach: EVERYTHING })).type).toBe("refused");
  });

  it("may come at the same time as the first, on two nodes", async () => {
    const [one, other] = [await half(), await half()];
    for (let nth = 0; nth < 10; nth++) {
      const runId = await start(one.starter, "waits");
      await isAt(runId, "wait");
      const options = keyed();
      const [left, right] = await Promise.all(
        [one, other].map(({ runtime }) => runtime.command(runId, cancel, { ...options, reach: EVERYTHING })),
      );
      expect(left).toMatchObject(right as object);
    }
  });
});

describe("a refusal", () => {
  it("uses up no key: what was refused may be accepted later", async () => {
    const { runtime, starter } = await half();
    const runId = await start(starter, "asks");
    await isAt(runId, "ask");
    const [task] = await database.sql<{ id: string }[]>`select id from user_tasks where run_id = ${runId}`;
    const submit = (result: object) => ({ type: "submit", taskId: task?.id ?? "", result, actor: "api" }) as RunCommand;
    const options = keyed();
    expect((await runtime.command(runId, submit({}), { ...options, reach: EVERYTHING })).type).toBe("unfit");
    expect(
      (await runtime.command(runId, submit({ a: 1 }), { ...options, requestHash: "two", reach: EVERYTHING })).type,
    ).toBe("submit");
  });
});
