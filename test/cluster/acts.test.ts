// The acts of an operator at two services on one database: each act is first sent to the service that does not own the run, or to the one that
// does, and then under the same idempotency key to the other. It is done once, and both give the same answer.
// @module-tag long
// @access both
import { afterAll, beforeAll, expect, it } from "vitest";
import { uuidv7 } from "../../src/ids.js";
import { Client } from "../faults/client.js";
import { ACTS, charge, HELPED, refused } from "../faults/helping.js";
import { openShop, type Shop } from "../faults/shop.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { describeWithRedis } from "../harness/services.js";
import { until } from "../harness/until.js";
import { nothingUnwatched } from "../run/seen.js";

/** An act, the workflow whose runs allow it, the act before it, the kind of its audit row, and the state in which a run may end then. */
const CASES = [
  ["pause", "waits", [], "pause"],
  ["resume", "waits", ["pause"], "resume"],
  ["retry_step", "breaks", [], "retry_step"],
  ["skip_step", "breaks", [], "skip_step"],
  ["fail", "breaks", [], "fail"],
  ["compensations/retry", "stuck", [], "retry_undo"],
  ["compensations/skip", "stuck", [], "skip_undo"],
  ["terminate", "stuck", [], "terminate"],
  ["terminate", "waits", [], "terminate"],
  ["migrate", "waits", [], "migrate"],
] as const;
const OTHER: Readonly<Record<string, object>> = {
  retry_step: { variables: { n: 2 } },
  skip_step: { output: 2 },
  "compensations/retry": { ordinal: 1 },
  "compensations/skip": { ordinal: 1 },
  migrate: { version: 1, steps: { pay: "pay" } },
};

describeWithRedis("the acts at two services", (redis) => {
  let database: TestDatabase;
  let services: ServiceProcess[];
  let clients: Client[];
  let shop: Shop;

  beforeAll(async () => {
    database = await createTestDatabase({ max: 2 });
    const REDIS_PREFIX = `test:${uuidv7()}:`;
    const env = { DATABASE_URL: database.url, REDIS_URL: redis, REDIS_PREFIX, LOG_LEVEL: "info", SAGA_WORKERS: "1" };
    services = [await createService(env), await createService(env)];
    for (const service of services) await service.start();
    clients = services.map(({ url }) => new Client(url));
    const [{ grpcAddress: grpc = "", url: api = "" } = {}] = services;
    shop = await openShop({ grpc, api });
    const go = { id: "wait", type: "wait_for_signal", signal_name: "go" };
    const waits = [charge("pay", { next: "wait" }), go];
    for (const version of [1, 2]) await client(0).publish("waits", waits, { ...HELPED, version });
    await client(0).publish("breaks", [charge("pay", { next: "no" }), charge("no", { action: "shop.refuse" })], HELPED);
    const compensation = { action: "shop.refuse" };
    await client(0).publish("stuck", [charge("pay", { compensation, next: "no" }), refused], HELPED);
    await until(() => services.every(({ log }) => log.some((line) => line.includes('"nodes":2'))), {
      what: "two nodes that know of each other",
    });
  });
  afterAll(async () => {
    await shop.stop();
    await Promise.all(services.map((service) => service.stop()));
    await database.drop();
  });

  const client = (index: number) => clients[index % 2] as Client;
  const url = (index: number) => (services[index % 2] as ServiceProcess).url;

  /** Two runs of one shard, so that one service owns both. */
  async function pair(workflow: string): Promise<string[]> {
    const shard = uuidv7().slice(-2);
    const runIds = [0, 1].map(() => uuidv7().slice(0, -2) + shard);
    for (const runId of runIds) await client(0).start(workflow, { run_id: runId });
    const stands = ({ paused_reason: reason, incident }: { paused_reason?: string; incident?: object }) =>
      workflow === "waits" ? reason === "signal" : incident;
    for (const runId of runIds) await until(async () => stands(await client(0).run(runId)), { what: "the stand" });
    return runIds;
  }

  it.each(CASES)("%s, of a run that %s, is done once at either of them", async (act, workflow, before, kind) => {
    for (const [first, runId] of (await pair(workflow)).entries()) {
      for (const earlier of before) await client(first).insist("POST", `/sagas/${runId}/${earlier}`, {});
      const key = uuidv7();
      const send = (index: number, body: object | undefined) =>
        client(index).send(url(index), "POST", `/sagas/${runId}/${act}`, body, key);
      const done = await send(first, ACTS[act]);
      expect(done).toMatchObject({ status: 202, body: { run_id: runId, changed: true } });
      for (const index of [first + 1, first]) {
        expect(await send(index, ACTS[act])).toMatchObject({ status: 202, body: done.body });
        const other = await send(index, OTHER[act] ?? { reason: "another one" });
        expect(other).toMatchObject({ status: 409, body: { message: expect.stringContaining("another body") } });
      }
      const { events } = await client(first).look(runId);
      expect(events.filter(({ metadata }) => metadata?.kind === kind)).toHaveLength(1);
      // Another key is another act.
      const state = (await client(first).run(runId)).state;
      const again = await client(first + 1).send(url(first + 1), "POST", `/sagas/${runId}/${act}`, ACTS[act], uuidv7());
      if (act === "pause") expect(again).toMatchObject({ status: 202, body: { changed: false } });
      else if (["cancelled", "failed", "succeeded"].includes(state)) expect(again.status).toBe(409);
    }
  });

  it("and what was helped here goes on there", async () => {
    const runIds = (await Promise.all([pair("waits"), pair("waits")])).flat();
    for (const [index, runId] of runIds.entries()) {
      await client(index).insist("POST", `/sagas/${runId}/pause`, {});
      await client(index + 1).insist("POST", `/sagas/${runId}/signal/go`, {});
      await client(index + 1).insist("POST", `/sagas/${runId}/resume`, {});
    }
    const ends = await client(0).allEnd(runIds);
    expect(ends.map(({ run }) => run.state)).toEqual(runIds.map(() => "succeeded"));
    await nothingUnwatched(database.sql);
  });
});
