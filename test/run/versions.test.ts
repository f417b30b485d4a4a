// Versions that a step computes: one that no definition can have is one that there is not.

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { readRuns } from "../../src/store/lists/runs.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { type Half, publish, start, startHalf } from "./rig.js";

let database: TestDatabase;
let node: Half;

beforeAll(async () => {
  database = await createTestDatabase();
  await publish(database, "child", [{ id: "c", type: "noop" }]);
  for (const type of ["sub_saga", "spawn_saga"])
    await publish(database, type, [{ id: "s", type, workflow_id: "child", version: "${inputs.version}" }]);
});
afterAll(() => database.drop());
beforeEach(async () => {
  node = await startHalf(database);
});
afterEach(() => node.stop());

const end = (runId: RunId) =>
  until(async () => {
    const view = (await readRuns(database.sql, EVERYTHING, [runId])).get(runId);
    return view?.terminal ? view.run : undefined;
  });

describe("a version that a step computes", () => {
  it.each([
    ["sub_saga", 2_147_483_647],
    ["sub_saga", 2_147_483_648],
    ["sub_saga", Number.MAX_SAFE_INTEGER],
    ["spawn_saga", 2_147_483_648],
  ])("of a %s, %i, that there is not, fails the step with not_found", async (type, version) => {
    await node.poller.start();
    const { state, last_error } = await end(await start(node.starter, type, { inputs: { version } }));
    expect([state, last_error]).toEqual(["failed", `there is no published workflow child version ${version}`]);
  });

  it.each([0, -1, 1.5, 1e21])("of a sub_saga, %d, fails the step with expression_error", async (version) => {
    await node.poller.start();
    const { state, last_error } = await end(await start(node.starter, "sub_saga", { inputs: { version } }));
    expect([state, last_error]).toEqual(["failed", expect.stringContaining("version must be")]);
  });
});
