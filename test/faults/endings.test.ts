// The ends of runs that are cancelled, time out or lose their worker, with the whole service, a real worker and plain HTTP. A
// step that may have happened is awaited and undone; a step that did not happen is not.
// @module-tag long
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import type { Seen } from "../run/seen.js";
import { nothingUnwatched, typesOf } from "../run/seen.js";
import type { Client } from "./client.js";
import { type Service, startService } from "./rig.js";
import type { Shop } from "./shop.js";

let database: TestDatabase;
let service: Service;
let client: Client;
let shop: Shop;

const compensation = { action: "shop.refund" };
const pay = { id: "pay", type: "action", action: "shop.charge", compensation };
/** Longer than a busy machine holds up a step on its way to its worker, or a heartbeat. */
const PATIENCE_MS = 3_000;
const once = { max_attempts: 1, initial_backoff_ms: 0 };

beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
  service = await startService(database.url);
  ({ client, shop } = service);
  const hang = (inputs: object, more: object = {}) => [
    { ...pay, next: "hang" },
    { id: "hang", type: "action", action: "shop.hang", inputs, compensation, retry: once, ...more },
  ];
  await client.publish("completes", hang({ on_abort: "complete" }));
  await client.publish("gives-up", hang({ on_abort: "give_up" }));
  await client.publish("never-answers", hang({}, { timeout_ms: PATIENCE_MS }));
  await client.publish("waits", [
    { ...pay, next: "wait" },
    { id: "wait", type: "wait_for_signal", signal_name: "go" },
  ]);
  const nobody = { service: "nobody", actions: [{ action_name: "there", transport: "grpc" }] };
  expect((await client.insist("POST", "/registry/register", nobody)).status).toBe(200);
  await client.publish("queues", [
    { ...pay, next: "queue" },
    { id: "queue", type: "action", action: "nobody.there", compensation, queue_timeout_ms: 250 },
  ]);
  await client.publish("queues-for-ever", [
    { ...pay, next: "queue" },
    { id: "queue", type: "action", action: "nobody.there", compensation },
  ]);
  const beat = { heartbeat_timeout_ms: PATIENCE_MS, compensation };
  await client.publish("falls-silent", [
    { ...pay, next: "beat" },
    { id: "beat", type: "action", action: "shop.silent", retry: { ...once, max_attempts: 2 }, ...beat },
  ]);
  await client.publish("beats", [
    { id: "beat", type: "action", action: "shop.slow", inputs: { ms: PATIENCE_MS + 500 }, ...beat },
  ]);
});
afterAll(async () => {
  await service.stop();
  await database.drop();
});

const untilHanging = (runId: string) => until(() => shop.hanging(runId).length > 0, { what: "the hanging step" });

async function ends(runId: string, state: string): Promise<Seen> {
  await client.untilState(runId, state);
  const [seen] = await client.allEnd([runId]);
  if (!seen) throw new Error("nothing was seen");
  await nothingUnwatched(database.sql);
  return seen;
}

/** The undone steps in order, which the worker's ledger and the run's own list must agree on. */
const undone = (runId: string) => shop.of(runId, "refund").map(({ stepId }) => stepId);
const undoList = async (runId: string) =>
  (await client.insist("GET", `/sagas/${runId}/undo`)).body.items.map(
    ({ step_id, state }: Record<string, string>) => `${step_id} ${state}`,
  );

const codesOf = ({ events }: Seen, step: string) =>
  events
    .filter(({ event_type, step_id }) => event_type === "step.failed" && step_id === step)
    .map(({ metadata }) => metadata?.code);

async function cancel(runId: string, body: object = {}) {
  const { status, body: answer } = await client.insist("POST", `/sagas/${runId}/cancel`, body);
  expect(status).toBe(202);
  return answer;
}

describe("a cancel with a dispatch open", () => {
  it("awaits the worker's result, records it, and undoes the step before the others", async () => {
    const runId = await client.start("completes");
    await untilHanging(runId);
    expect(await cancel(runId, { reason: "enough" })).toMatchObject({ state: "compensating", already_terminal: false });
    const seen = await ends(runId, "cancelled");
    expect(undone(runId)).toEqual(["hang", "pay"]);
    expect(await undoList(runId)).toEqual(["pay done", "hang done"]);
    expect(seen.run.last_error).toBe("enough");
    const types = typesOf(seen.events);
    expect(types.indexOf("compensation.started")).toBeLessThan(types.lastIndexOf("run.cancelled"));
    const answered = seen.events.find(
      ({ event_type, step_id }) => event_type === "step.succeeded" && step_id === "hang",
    );
    expect(answered).toMatchObject({ to_state: "compensating" });
    const keys = shop.of(runId).filter(({ forwardKey }) => forwardKey === undefined);
    expect(shop.of(runId, "refund").map(({ forwardKey }) => forwardKey)).toEqual(keys.map(({ key }) => key).reverse());
  });

  it("does not undo a step that the worker reports as failed", async () => {
    const runId = await client.start("gives-up");
    await untilHanging(runId);
    await cancel(runId);
    const seen = await ends(runId, "cancelled");
    expect(undone(runId)).toEqual(["pay"]);
    expect(codesOf(seen, "hang")).toEqual(["cancelled"]);
  });

  it("undoes a step without an answer once its deadline has passed", async () => {
    const runId = await client.start("never-answers");
    await untilHanging(runId);
    const answered = await cancel(runId);
    expect(answered.state).toBe("compensating");
    const seen = await ends(runId, "cancelled");
    expect(undone(runId)).toEqual(["hang", "pay"]);
    const dispatched = seen.events.find(
      ({ event_type, step_id }) => event_type === "step.dispatched" && step_id === "hang",
    );
    const failed = seen.events.find(({ event_type, step_id }) => event_type === "step.failed" && step_id === "hang");
    // No timer fires early.
    expect(Date.parse(failed?.recorded_at ?? "")).toBeGreaterThanOrEqual(
      Date.parse(String(dispatched?.metadata?.deadline_at)),
    );
  });

  it("without compensation ends at once, undoes nothing, and the late answer changes nothing", async () => {
    const runId = await client.start("never-answers");
    await untilHanging(runId);
    expect(await cancel(runId, { compensate: false })).toMatchObject({ state: "cancelled", already_terminal: false });
    const before = await client.look(runId);
    for (const letGo of shop.hanging(runId)) letGo();
    const { status, body } = await client.insist("POST", `/sagas/${runId}/actions/hang/result`, { result: {} });
    expect({ status, body }).toEqual({ status: 202, body: { accepted: true, stale: true } });
    expect(await cancel(runId)).toMatchObject({ state: "cancelled", already_terminal: true });
    await ends(runId, "cancelled");
    expect(await client.look(runId)).toEqual(before);
    expect(undone(runId)).toEqual([]);
  });

  it("repeated during the rollback is accepted and changes nothing", async () => {
    const runId = await client.start("completes");
    await untilHanging(runId);
    const answers = await Promise.all(Array.from({ length: 5 }, () => cancel(runId)));
    expect(answers.every(({ already_terminal }) => already_terminal === false)).toBe(true);
    await ends(runId, "cancelled");
    expect(undone(runId)).toEqual(["hang", "pay"]);
  });
});

describe("a cancel of a run that waits", () => {
  it("for a signal undoes the completed steps", async () => {
    const runId = await client.start("waits");
    await client.untilState(runId, "paused");
    await cancel(runId);
    const seen = await ends(runId, "cancelled");
    expect(undone(runId)).toEqual(["pay"]);
    expect(codesOf(seen, "wait")).toEqual(["cancelled"]);
  });

  it("for a worker does not wait longer, and undoes only steps that were dispatched", async () => {
    const runId = await client.start("queues-for-ever");
    await until(async () => (await client.look(runId)).events.some(({ step_id }) => step_id === "queue"));
    await nothingUnwatched(database.sql);
    await cancel(runId);
    await ends(runId, "cancelled");
    expect(undone(runId)).toEqual(["pay"]);
  });
});

describe("a run that exceeds its timeout", () => {
  it.concurrent("fails with code timeout and is undone", async () => {
    const runId = await client.start("waits", { timeout_ms: PATIENCE_MS });
    const seen = await ends(runId, "failed");
    expect(seen.run.error?.code).toBe("timeout");
    expect(undone(runId)).toEqual(["pay"]);
    const started = Date.parse(seen.events[0]?.recorded_at ?? "");
    const began = seen.events.find(({ event_type }) => event_type === "compensation.started");
    expect(Date.parse(began?.recorded_at ?? "") - started).toBeGreaterThanOrEqual(PATIENCE_MS);
  });

  it.concurrent("awaits its open dispatch first, and undoes that step as well", async () => {
    const runId = await client.start("completes", { timeout_ms: PATIENCE_MS });
    const seen = await ends(runId, "failed");
    expect(seen.run.error?.code).toBe("timeout");
    expect(undone(runId)).toEqual(["hang", "pay"]);
  });
});

describe("an action", () => {
  it.concurrent("that no worker takes within its queue_timeout fails, and is not undone", async () => {
    const runId = await client.start("queues");
    const seen = await ends(runId, "failed");
    expect(codesOf(seen, "queue")).toEqual(["queue_timeout"]);
    expect(undone(runId)).toEqual(["pay"]);
    expect(await undoList(runId)).toEqual(["pay done"]);
  });

  it.concurrent("whose heartbeats stop is retried, fails after its last attempt, and is undone", async () => {
    const runId = await client.start("falls-silent");
    const seen = await ends(runId, "failed");
    expect(codesOf(seen, "beat")).toEqual(["heartbeat_timeout", "heartbeat_timeout"]);
    expect(seen.run.error?.code).toBe("heartbeat_timeout");
    expect(undone(runId)).toEqual(["beat", "pay"]);
    const attempts = shop.of(runId, "silent");
    expect(attempts.map(({ attempt }) => attempt)).toEqual([1, 2]);
    expect(new Set(attempts.map(({ key }) => key)).size).toBe(1);
  });

  it.concurrent("that sends heartbeats may take longer than its heartbeat timeout", async () => {
    const runId = await client.start("beats");
    const seen = await ends(runId, "succeeded");
    expect(codesOf(seen, "beat")).toEqual([]);
    expect(shop.of(runId, "slow")).toHaveLength(1);
  });
});
