// Starting once: what was started under a key or an id is found again, whatever became of its workflow since.
import { afterAll, beforeAll, expect, it } from "vitest";
import type { StartRequest } from "../../src/run/ports.js";
import { publishDefinition } from "../../src/store/definitions.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { type Half, publish, startHalf } from "./rig.js";

let database: TestDatabase;
let half: Half;

beforeAll(async () => {
  database = await createTestDatabase();
  await publish(database, "once", [{ id: "wait", type: "wait_for_signal", signal_name: "go" }]);
  half = await startHalf(database);
});
afterAll(async () => {
  await half.stop();
  await database.drop();
});

const request = (more: Partial<StartRequest>): StartRequest => {
  return { workflowId: "once", inputs: {}, variables: {}, dryRun: false, features: {}, actor: "api", ...more };
};

it("a hundred starts under one key at once are one run, and one of them is told that it is new", async () => {
  const answers = await Promise.all(
    Array.from({ length: 100 }, () => half.runtime.start(request({ idempotencyKey: "k" }))),
  );
  expect(new Set(answers.map(({ runId }) => runId)).size).toBe(1);
  expect(answers.filter(({ deduplicated }) => !deduplicated)).toHaveLength(1);
});

it("another body under the key or the run id is a conflict", async () => {
  const runId = "01900000-0000-7000-8000-00000000aa01";
  await half.runtime.start(request({ idempotencyKey: "k2", runId }));
  await expect(half.runtime.start(request({ idempotencyKey: "k2", inputs: { other: 1 } }))).rejects.toMatchObject({
    status: 409,
  });
  await expect(half.runtime.start(request({ runId, inputs: { other: 1 } }))).rejects.toMatchObject({ status: 409 });
});

it("a repeat finds its run after the workflow was unpublished; a new start does not", async () => {
  const first = await half.runtime.start(request({ idempotencyKey: "k3" }));
  await publishDefinition(database.sql, "once", 1, false);
  await half.catalog.refresh();
  expect(await half.runtime.start(request({ idempotencyKey: "k3" }))).toMatchObject({
    runId: first.runId,
    deduplicated: true,
  });
  await expect(half.runtime.start(request({ idempotencyKey: "k4" }))).rejects.toMatchObject({ status: 404 });
});
