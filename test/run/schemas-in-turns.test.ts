// A schema with many patterns takes long to read. A node that has not read it yet reads it in turns with its other work, before the decision that
// checks a value with it (law 14).
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type JsonObject, Needed, type Slices } from "../../machines/index.js";
import { FactSource } from "../../src/run/facts.js";
import { register } from "../../src/store/lists/registry.js";
import { FairScheduler } from "../../src/work/fair-scheduler.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { type Half, publish, start, startHalf } from "./rig.js";
import { look } from "./seen.js";

const PATTERNS = 400;
/** Of texts whose names begin with its letter. Each text has a pattern of its own. */
const schemaOf = (letter: string): JsonObject => ({
  type: "object",
  properties: Object.fromEntries(
    Array.from({ length: PATTERNS }, (_, nth) => [`${letter}${nth}`, { type: "string", pattern: `^${letter}${nth}$` }]),
  ),
});

/** Counts the slices of what it computes in slices. */
class CountingScheduler extends FairScheduler {
  taken = 0;

  override computeSlices<T>(party: string, slices: Slices<T>): Promise<T> {
    return super.computeSlices(party, this.counted(slices));
  }

  private *counted<T>(slices: Slices<T>): Slices<T> {
    for (;;) {
      const slice = slices.next();
      if (slice.done) return slice.value;
      this.taken++;
      yield;
    }
  }
}

let database: TestDatabase;
let half: Half;
let scheduler: CountingScheduler;
let answer: JsonObject;

beforeAll(async () => {
  database = await createTestDatabase();
  const action = { service: "shop", action_name: "charge", version: 1, compensable: false, deprecated: false };
  const schemas = { input_schema: schemaOf("i"), output_schema: schemaOf("o") };
  await register(database.sql, [{ ...action, dry_run_supported: false, transport: "grpc", ...schemas }]);
  const charge = { id: "charge", type: "action", action: "shop.charge", inputs: { i0: "i0", i399: "${inputs.last}" } };
  await publish(database, "calls", [charge]);
  await publish(database, "starts", [{ id: "no", type: "noop" }], { input_schema: schemaOf("s") });
  await publish(database, "below", [
    { id: "sub", type: "sub_saga", workflow_id: "starts", inputs: { s399: "${inputs.last}" } },
  ]);
});
afterEach(() => half.stop());
afterAll(() => database.drop());

/** A node that has read no schema. */
async function freshNode(): Promise<void> {
  scheduler = new CountingScheduler(() => 0);
  half = await startHalf(database, { scheduler, reply: () => ({ result: answer }) });
  half.poller.start();
}

async function endOf(workflowId: string, inputs: JsonObject) {
  const runId = await start(half.starter, workflowId, { inputs });
  const { run } = await until(async () => {
    const seen = await look(database.sql, runId);
    return ["succeeded", "failed"].includes(seen.run.state) && seen;
  });
  return { state: run.state, code: run.error?.code };
}

const SUCCEEDED = { state: "succeeded", code: undefined };
const MISMATCH = { state: "failed", code: "schema_mismatch" };

describe("a node that has not read the schema", () => {
  it("reads that of a start in turns, and once", async () => {
    await freshNode();
    expect(await endOf("starts", { s0: "s0" })).toEqual(SUCCEEDED);
    expect(scheduler.taken).toBe(PATTERNS);
    await expect(start(half.starter, "starts", { inputs: { s399: "no" } })).rejects.toMatchObject({ status: 422 });
    expect(scheduler.taken).toBe(PATTERNS);
  });

  it.each([
    ["calls an action", { last: "i399" }, { o0: "o0" }, SUCCEEDED, 2],
    ["refuses the inputs of an action", { last: "no" }, {}, MISMATCH, 1],
    ["refuses the result of an action", { last: "i399" }, { o399: "no" }, MISMATCH, 2],
  ])("reads it in turns before it %s", async (_, inputs, result, end, schemas) => {
    await freshNode();
    answer = result;
    expect(await endOf("calls", inputs)).toEqual(end);
    expect(scheduler.taken).toBe(schemas * PATTERNS);
  });

  it.each([
    ["starts", { last: "s399" }, SUCCEEDED],
    ["refuses to start", { last: "no" }, MISMATCH],
  ])("reads it in turns before it %s a run below", async (_, inputs, end) => {
    await freshNode();
    expect(await endOf("below", inputs)).toEqual(end);
    expect(scheduler.taken).toBe(PATTERNS);
  });
});

it("a schema that is not kept is asked for once", async () => {
  await freshNode();
  const schemas = { conforms: () => [], isAtHand: () => false, *readSlices() {} };
  const options = { schemas, scheduler, catalog: half.catalog, clock: { now: () => 0 } } as never;
  const source = new FactSource(options);
  const conforms = (schema: JsonObject) => source.current(0, {}, {}).conforms(schema, {});
  const schema = schemaOf("k");
  expect(() => conforms(schema)).toThrow(Needed as never);
  await source.read({ workflowId: "w" } as never, { kind: "schema", schema }, {} as never);
  expect(conforms(schema)).toEqual([]);
});
