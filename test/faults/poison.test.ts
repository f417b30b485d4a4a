// Poison: a run that really brings its node down, again and again, is put into quarantine where it can be seen; its neighbours
// live, and it goes on when it is released by somebody who has removed the cause.
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/store/migrate.js";
import { livingNodes, logged } from "../cluster/rig.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { nothingUnwatched, report } from "../run/seen.js";
import { Client } from "./client.js";
import { Load } from "./load.js";
import { openShop, type Shop } from "./shop.js";

let database: TestDatabase;
let service: ServiceProcess;
let healthy: ServiceProcess;
let client: Client;
let shop: Shop;

beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
  const env = { DATABASE_URL: database.url, SAGA_WORKERS: "2" };
  const poison = `--import=${join(packageRoot(), "test", "faults", "falls-dead.mjs")}`;
  service = await (await createService({ ...env, NODE_OPTIONS: poison })).start();
  healthy = await createService({ ...env, HTTP_PORT: new URL(service.url).port });
  await until(() => livingNodes(service).length === 2, { within: 30_000 });
  client = new Client(service.url);
  shop = await openShop({ grpc: service.grpcAddress, api: service.url });
  const down = { id: "brings-its-node-down", type: "noop", next: "done" };
  const done = { id: "done", type: "end", output: "alive" };
  await client.publish("at-once", [{ id: "first", type: "noop", next: down.id }, down, done]);
  await client.publish("when-told", [
    { id: "wait", type: "wait_for_signal", signal_name: "go", next: down.id },
    down,
    done,
  ]);
});
afterAll(async () => {
  await shop.stop();
  await service.stop();
  await healthy.stop();
  await database.drop();
});

const deaths = () => logged(service, "a node died: starting another").length;
const inQuarantine = async (runId: string) => (await client.run(runId)).paused_reason === "quarantine";

/** Until the run is in quarantine and the service has all its nodes again; answers how many nodes died of it. */
async function untilQuarantined(runId: string, before: number): Promise<number> {
  await until(() => inQuarantine(runId), { within: 60_000, what: "the quarantine" });
  await until(() => livingNodes(service).length === 2, { within: 30_000, what: "both nodes" });
  return deaths() - before;
}

describe("a run that brings its node down", () => {
  const quarantined: string[] = [];

  it("is in quarantine after three nodes, and its neighbours live", async () => {
    const before = deaths();
    const began = performance.now();
    const load = new Load([client], [shop]);
    await load.begin({ atOnce: 8 });
    await load.more(10);
    // No answer is no surprise: its node dies.
    const runId = await client.start("at-once", { idempotency_key: "at-once" });
    const died = await untilQuarantined(runId, before);
    report({ poison: "at once", died, ms: performance.now() - began });
    // One more if two nodes had it at the same time.
    expect([3, 4]).toContain(died);
    await load.more(10);
    await load.finish();
    const [row] = await database.sql`select count(*)::int as count from runs where paused_reason = 'quarantine'`;
    expect(row?.count).toBe(1);
    expect(deaths() - before).toBe(died);
    const { events } = await client.look(runId);
    expect(events.at(-1)).toMatchObject({ event_type: "log", to_state: "paused", metadata: { kind: "quarantine" } });
    await nothingUnwatched(database.sql);
    quarantined.push(runId);
  }, 120_000);

  it("is so too where it is a client that brings it on, again and again", async () => {
    const runId = await client.start("when-told");
    await client.untilState(runId, "paused");
    const before = deaths();
    const { status } = await client.insist("POST", `/sagas/${runId}/signal/go`, { idempotency_key: "go", payload: {} });
    const died = await untilQuarantined(runId, before);
    report({ poison: "when told", died, status });
    // The first time nothing was durable by which it could be known.
    expect([4, 5]).toContain(died);
    quarantined.push(runId);
  }, 120_000);

  it("goes on when it is released, once the cause is gone", async () => {
    await service.stop();
    await healthy.start();
    for (const runId of quarantined) {
      expect(await inQuarantine(runId)).toBe(true);
      expect((await client.ask("POST", `/sagas/${runId}/release`)).status).toBe(202);
    }
    for (const { run } of await client.allEnd(quarantined)) expect(run.output).toBe("alive");
    await nothingUnwatched(database.sql);
  }, 120_000);
});
