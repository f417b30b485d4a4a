// A service is frozen (SIGSTOP) in the middle of a commit: the statement has left it, and has reached the store or not. Another
// service takes over; then the statement arrives and the frozen service thaws. The history must stay a single line.
// @module-tag long
// @access both
import { afterAll, beforeAll, expect, it } from "vitest";
import { uuidv7 } from "../../src/ids.js";
import { ownerOf, SHARDS } from "../../src/shard/placement.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { describeWithRedis } from "../harness/services.js";
import { until } from "../harness/until.js";
import { CuttingProxy } from "../run/cutting-proxy.js";
import { nothingUnwatched, report, type Seen } from "../run/seen.js";
import { Client } from "./client.js";
import { openShop, receiptFor, type Shop } from "./shop.js";

const RUNS = 5;

describeWithRedis("a service that is frozen in the middle of a commit", (redisUrl) => {
  let database: TestDatabase;
  let proxy: CuttingProxy;
  /** The first one freezes. */
  let services: [ServiceProcess, ServiceProcess];
  let clients: [Client, Client];
  let shops: Shop[];

  beforeAll(async () => {
    database = await createTestDatabase({ max: 3 });
    proxy = await CuttingProxy.before(database.url);
    const env = { SAGA_WORKERS: "1", REDIS_URL: redisUrl, REDIS_PREFIX: `test:${uuidv7()}:` };
    services = [
      await createService({ ...env, DATABASE_URL: proxy.url }),
      await createService({ ...env, DATABASE_URL: database.url }),
    ];
    for (const service of services) await service.start();
    clients = [new Client(services[0].url), new Client(services[1].url)];
    shops = await Promise.all(services.map(({ grpcAddress, url }) => openShop({ grpc: grpcAddress, api: url })));
    await clients[0].publish("order", [
      { id: "wait", type: "wait_for_signal", signal_name: "go", next: "ship" },
      { id: "ship", type: "action", action: "shop.charge", next: "received" },
      { id: "received", type: "wait_for_signal", signal_name: "received" },
    ]);
  });
  afterAll(async () => {
    for (const shop of shops) await shop.stop();
    for (const service of services) await service.stop();
    await proxy.close();
    await database.drop();
  });

  /** Runs of the service that will freeze, all waiting for their signal. */
  async function startWaiting(): Promise<string[]> {
    const rows = await database.sql<{ node_id: string }[]>`select node_id from nodes order by started_at`;
    const ids = rows.map((row) => row.node_id);
    expect(ids).toHaveLength(2);
    const owned = SHARDS.filter((shard) => ownerOf(shard, ids) === ids[0]);
    const runIds = Array.from({ length: RUNS }, (_, nth) => uuidv7(owned[nth]));
    for (const run_id of runIds) await clients[0].start("order", { run_id });
    for (const runId of runIds) await clients[0].untilState(runId, "paused");
    return runIds;
  }

  async function shipped(runIds: readonly string[]): Promise<Seen[]> {
    const waits = async (runId: string) => (await clients[1].run(runId)).awaited_signal === "received";
    for (const runId of runIds) await until(() => waits(runId), { what: "a shipped order" });
    return Promise.all(runIds.map((runId) => clients[1].look(runId)));
  }

  it.each(["before", "after"] as const)(
    "%s its statement reaches the store: nothing is written twice",
    async (when) => {
      const runIds = await startWaiting();
      const marker = uuidv7();
      const signal = (client: Client, runId: string) =>
        client.insist("POST", `/sagas/${runId}/signal/go`, { payload: { marker }, idempotency_key: "once" });
      const holding = proxy.holdAt(marker, when);
      const asked = runIds.map((runId) => signal(clients[0], runId));
      const held = await holding;
      services[0].freeze();
      const began = performance.now();
      // The other service gets the same commands, and executes them itself because the owner does not answer.
      const answers = await Promise.all(runIds.map((runId) => signal(clients[1], runId)));
      const answeredMs = performance.now() - began;
      for (const { status, body } of answers) expect([status, body.matched]).toEqual([202, true]);
      // The runs have not ended: only the revision and the command's id can stop the late statement.
      const seen = await shipped(runIds);
      report({ frozen: `${when} the store had it`, runs: RUNS, answeredMs, endedMs: performance.now() - began });
      held.release();
      services[0].thaw();
      // The clients of the frozen service get the same answers, late.
      expect(await Promise.all(asked)).toEqual(answers);
      await until(() => clients[0].ask("GET", "/sagas").then(({ status }) => status === 200));
      expect(await shipped(runIds)).toEqual(seen);
      for (const { run } of seen) {
        const keys = new Set(shops.flatMap((shop) => shop.of(run.id)).map(({ key }) => key));
        expect(keys.size).toBe(1);
        expect(run).toMatchObject({
          state: "paused",
          variables: { ship: { receipt: receiptFor([...keys][0] ?? "") } },
        });
        const { body } = await clients[0].insist("GET", `/sagas/${run.id}/signals`);
        expect(body.items).toHaveLength(1);
      }
      for (const runId of runIds) await clients[0].insist("POST", `/sagas/${runId}/signal/received`, {});
      await clients[0].allEnd(runIds);
      await nothingUnwatched(database.sql);
      await until(
        async () => (await database.sql`select 1 from nodes where heartbeat_at > now() - interval '2 s'`).length === 2,
      );
    },
    120_000,
  );
});
