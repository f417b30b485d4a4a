// A run that crashes its node is tried in a process of its own, and put into quarantine with what was seen there; other runs are not
// affected. It continues when an operator has removed the cause and releases it.
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/package.js";
import { livingNodes, logged } from "../cluster/rig.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { itLong, long } from "../harness/long.js";
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
  healthy = await createService({ ...env, SAGA_WORKERS: "1", HTTP_PORT: new URL(service.url).port });
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

const deaths = () => logged(service, "node died, starting another").length;
const inQuarantine = async (runId: string) => (await client.run(runId)).paused_reason === "quarantine";

/** Waits until the run is in quarantine and both nodes are back; returns how many nodes died. */
async function untilQuarantined(runId: string, before: number): Promise<number> {
  await until(() => inQuarantine(runId), { within: 60_000, what: "the quarantine" });
  await until(() => livingNodes(service).length === 2, { within: 30_000, what: "both nodes" });
  return deaths() - before;
}

describe("a run that crashes its node", () => {
  const quarantined: string[] = [];

  it("is put into quarantine after two crashes and three deaths of a trial process, and other runs are not affected", async () => {
    const before = deaths();
    const began = performance.now();
    const load = new Load([client], [shop]);
    await load.begin({ atOnce: 4 });
    await load.more(long(4, 10));
    // There may be no answer, because the node dies.
    const runId = await client.start("at-once", { idempotency_key: "at-once" });
    const died = await untilQuarantined(runId, before);
    report({ poison: "at once", died, ms: performance.now() - began });
    // There is a third crash if two nodes had the run at the same time.
    expect([2, 3]).toContain(died);
    await load.more(long(4, 10));
    await load.finish();
    const [row] = await database.sql`select count(*)::int as count from runs where paused_reason = 'quarantine'`;
    expect(row?.count).toBe(1);
    expect(deaths() - before).toBe(died);
    const { events } = await client.look(runId);
    const proof = { trials: 3, end: "ended", signal: "SIGKILL" };
    const metadata = { kind: "quarantine", ...proof };
    expect(events.at(-1)).toMatchObject({ event_type: "log", to_state: "paused", metadata });
    expect(await client.run(runId)).toMatchObject({ quarantine: proof });
    await nothingUnwatched(database.sql);
    quarantined.push(runId);
  }, 120_000);

  itLong(
    "is put into quarantine also if each crash is caused by a client that repeats its command",
    async () => {
      const runId = await client.start("when-told");
      await client.untilState(runId, "paused");
      const before = deaths();
      const { status } = await client.insist("POST", `/sagas/${runId}/signal/go`, {
        idempotency_key: "go",
        payload: {},
      });
      const died = await untilQuarantined(runId, before);
      report({ poison: "when told", died, status });
      // After the first crash nothing durable names the run.
      expect([3, 4]).toContain(died);
      quarantined.push(runId);
    },
    120_000,
  );

  it("continues when it is released after the cause is gone", async () => {
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
