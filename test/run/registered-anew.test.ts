// An action registered anew under its version: a dispatch in flight keeps what it was sent with, also its output schema; the next call
// gets the new registration.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { JsonObject, RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { register } from "../../src/store/lists/registry.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { type Half, publish, start, startHalf } from "./rig.js";
import { allEnd, look } from "./seen.js";

let database: TestDatabase;
let node: Half;

beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
  node = await startHalf(database, { reply: () => undefined });
  await publish(database, "pay", [{ id: "pay", type: "action", action: "shop.pay" }]);
});
afterAll(async () => {
  await node.stop();
  await database.drop();
});

const NEEDS = (...required: string[]) => ({ output_schema: { type: "object", required } });

async function registered(more: JsonObject): Promise<void> {
  const common = { version: 1, compensable: false, deprecated: false, dry_run_supported: false };
  const action = { service: "shop", action_name: "pay", ...common, input_schema: {}, output_schema: {}, ...more };
  await register(database.sql, [{ transport: "grpc", ...action }]);
  await node.catalog.refresh();
}

/** A run whose action is with the worker. */
async function inFlight() {
  const runId = await start(node.starter, "pay");
  return until(() => node.dispatcher.sent.find((dispatch) => dispatch.runId === runId), { what: "the dispatch" });
}

async function answered(runId: RunId, result: JsonObject, dispatchId: string) {
  await node.runtime.command(runId, { type: "result", actor: "worker:w", dispatchId, result } as never, {
    reach: EVERYTHING,
  });
  await allEnd(database.sql, [runId]);
  return (await look(database.sql, runId)).run;
}

describe("a dispatch in flight, its action registered anew", () => {
  it("is checked by the output schema that it was sent with, a call after it by the new one", async () => {
    await registered(NEEDS("old"));
    const before = await inFlight();
    await registered({ ...NEEDS("new"), transport: "http", address: "http://127.0.0.1:9/" });
    const after = await inFlight();
    expect([before.call.transport, before.call.address]).toEqual(["grpc", undefined]);
    expect([after.call.transport, after.call.address]).toEqual(["http", "http://127.0.0.1:9/"]);
    expect(await answered(before.runId, { old: 1 }, before.dispatchId)).toMatchObject({ state: "succeeded" });
    expect(await answered(after.runId, { old: 1 }, after.dispatchId)).toMatchObject({
      state: "failed",
      error: { code: "schema_mismatch" },
    });
  });

  it("is refused what its own schema refuses, although the new one allows it", async () => {
    await registered(NEEDS("old"));
    const { runId, dispatchId } = await inFlight();
    await registered({});
    expect(await answered(runId, {}, dispatchId)).toMatchObject({
      state: "failed",
      error: { code: "schema_mismatch" },
    });
  });

  it("keeps its schema through several registrations, and through one that restores it", async () => {
    await registered(NEEDS("old"));
    const [one, other] = [await inFlight(), await inFlight()];
    for (const name of ["second", "third"]) await registered(NEEDS(name));
    expect(await answered(one.runId, { old: 1 }, one.dispatchId)).toMatchObject({ state: "succeeded" });
    await registered(NEEDS("old"));
    expect(await answered(other.runId, { old: 1 }, other.dispatchId)).toMatchObject({ state: "succeeded" });
  });
});
