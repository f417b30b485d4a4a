// Events over HTTP, on the built service: an event is published once and reaches every waiting run, also if all nodes are killed
// between its publication and its delivery.
// @module-tag long
// @access both
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { nothingUnwatched, report } from "../run/seen.js";
import { Client } from "./client.js";

const RUNS = 15;

let database: TestDatabase;
let service: ServiceProcess;
let client: Client;

beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
  service = await createService({ DATABASE_URL: database.url, LOG_LEVEL: "warn", SAGA_WORKERS: "2" });
  await service.start();
  client = new Client(service.url);
  const mine = { topic: "parcel.shipped", headers: { order: "${inputs.order}" } };
  await client.publish("parcel", [
    { id: "tell", type: "emit_event", topic: "order.made", payload: "${inputs.order}", next: "shipped" },
    { id: "shipped", type: "wait_for_event", ...mine, match: "event.payload.n > 1", next: "done" },
    { id: "done", type: "end", output: "${vars.shipped.payload.n}" },
  ]);
  await client.publish("book", [
    { id: "made", type: "wait_for_event", topic: "order.made", match: "event.payload == inputs.order" },
  ]);
});
afterAll(async () => {
  await service.stop();
  await database.drop();
});

const send = (body: object) => client.insist("POST", "/events", body);

describe("events", () => {
  it("pause the runs that wait for them, and reach only those that they match", async () => {
    const book = await client.start("book", { inputs: { order: "a" } });
    const runId = await client.start("parcel", { inputs: { order: "a" } });
    const run = await client.untilState(runId, "paused");
    expect(run).toMatchObject({
      paused_reason: "event",
      current_step: "shipped",
      awaited_event_topic: "parcel.shipped",
    });
    expect(run).toMatchObject({ awaited_event_headers: { order: "a" } });
    const event = { topic: "parcel.shipped", headers: { order: "a" }, payload: { n: 1 }, idempotency_key: "a1" };
    const first = await send(event);
    expect(first).toMatchObject({ status: 202, body: { event_id: expect.any(String) } });
    expect(await send(event)).toEqual(first);
    expect(await send({ ...event, payload: { n: 2 } })).toMatchObject({ status: 409, body: { error: "conflict" } });
    expect((await send({ ...event, headers: { order: "b" }, payload: { n: 3 }, idempotency_key: "b" })).status).toBe(
      202,
    );
    expect((await send({ ...event, payload: { n: 4 }, idempotency_key: "a4" })).status).toBe(202);
    const [parcel, booked] = await client.allEnd([runId, book]);
    expect(parcel?.run).toMatchObject({ state: "succeeded", output: 4 });
    expect(booked?.run).toMatchObject({ state: "succeeded", output: { topic: "order.made", payload: "a" } });
  });

  it("are refused with the paths of what is invalid in them", async () => {
    const bad = await send({ topic: "a b", headers: { n: 1 }, idempotency_key: "" });
    expect(bad).toMatchObject({ status: 400, body: { error: "bad_request" } });
    expect(bad.body.details.map(({ path }: { path: string }) => path).sort()).toEqual([
      "$.headers.n",
      "$.idempotency_key",
      "$.topic",
    ]);
    expect((await send({ topic: "x", headers: { "a b": "c" } })).status).toBe(400);
    expect((await send({})).status).toBe(400);
    expect((await send({ topic: "nobody.waits" })).status).toBe(202);
  });

  it("that were acknowledged reach their runs after all nodes were killed and restarted", async () => {
    const orders = Array.from({ length: RUNS }, (_, nth) => String(nth));
    const runIds = await Promise.all(orders.map((order) => client.start("parcel", { inputs: { order } })));
    await Promise.all(runIds.map((runId) => client.untilState(runId, "paused")));
    const sent = orders.map((order) =>
      send({ topic: "parcel.shipped", headers: { order }, payload: { n: 2, order }, idempotency_key: `k${order}` }),
    );
    // Some are acknowledged, some are on their way, hardly any has reached its run.
    await Promise.race(sent);
    await service.kill();
    const owed = await database.sql`select 1 from events where due_at is not null`;
    await service.start();
    client.url = service.url;
    for (const { status } of await Promise.all(sent)) expect(status).toBe(202);
    const seen = await client.allEnd(runIds);
    expect(seen.map(({ run }) => [run.state, run.output])).toEqual(orders.map(() => ["succeeded", 2]));
    const takes = await database.sql`select 1 from event_takes where run_id = any(${runIds}::text[]::uuid[])`;
    expect(takes).toHaveLength(RUNS);
    await until(async () => (await database.sql`select 1 from events where due_at is not null`).length === 0);
    await nothingUnwatched(database.sql);
    report({ runs: RUNS, owedAtKill: owed.length });
  }, 180_000);
});
