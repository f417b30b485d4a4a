// A run that crashes its node is tried in a process of its own, and put into quarantine with what was seen there; other runs are not
// affected. It continues when an operator has removed the cause and releases it.
// @module-tag long
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { JsonObject } from "../../machines/index.js";
import { packageRoot } from "../../src/config/package.js";
import { livingNodes, logged } from "../cluster/rig.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { nothingUnwatched, report } from "../run/seen.js";
import { Client } from "./client.js";
import { Load } from "./load.js";
import { openShop, type Shop } from "./shop.js";

const EVIL = "brings-its-node-down";
/** One, and another one if the run, or its client's repeat, reaches a second node before the primary does. */
const MOST_DEATHS = 2;

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
  const ports = { HTTP_PORT: new URL(service.url).port, GRPC_PORT: new URL(`tcp://${service.grpcAddress}`).port };
  healthy = await createService({ ...env, ...ports, SAGA_WORKERS: "1" });
  await until(() => livingNodes(service).length === 2);
  client = new Client(service.url);
  shop = await openShop({ grpc: service.grpcAddress, api: service.url });
  const down = (about: JsonObject) => ({ id: EVIL, type: "noop", next: "done", ...about });
  const done = { id: "done", type: "end", output: "alive" };
  const wait = { type: "wait_for_signal", signal_name: "go" };
  await client.publish("at-once", [{ id: "first", type: "noop", next: EVIL }, down({}), done]);
  await client.publish("with-a-signal", [down(wait), done]);
  await client.publish("with-an-answer", [
    { id: "wait", ...wait, next: EVIL },
    down({ type: "action", action: "shop.charge", timeout_ms: 600_000 }),
    done,
  ]);
  await client.publish(EVIL, [done]);
});
afterAll(async () => {
  await shop.stop();
  await service.stop();
  await healthy.stop();
  await database.drop();
});

/** Without those that the primary has killed: a busy machine starts a node too slowly, or gives it no share of the processor. No run ended these. */
function deaths(): number {
  const killed = ["node start timed out, killed", "node unresponsive, killed"].flatMap((msg) => logged(service, msg));
  const pids = new Set(killed.map(({ node }) => node));
  return logged(service, "node died, starting another").filter(({ node }) => !pids.has(node)).length;
}
const inQuarantine = async (runId: string) => (await client.run(runId)).paused_reason === "quarantine";

/** Waits until the run is in quarantine and both nodes are back; returns how many nodes died. */
async function untilQuarantined(runId: string, before: number): Promise<number> {
  await until(() => inQuarantine(runId), { within: 100_000, what: "the quarantine" });
  await until(() => livingNodes(service).length === 2, { what: "both nodes" });
  return deaths() - before;
}

describe("a run that crashes its node", () => {
  const quarantined: string[] = [];

  it("is put into quarantine after three deaths of a trial process, and other runs are not affected", async () => {
    const before = deaths();
    const began = performance.now();
    const load = new Load([client], [shop]);
    await load.begin({ atOnce: 2 });
    await load.more(4);
    // There may be no answer, because the node dies.
    const runId = await client.start("at-once", { idempotency_key: "at-once" });
    const died = await untilQuarantined(runId, before);
    report({ poison: "at once", died, ms: performance.now() - began });
    expect(died).toBeLessThanOrEqual(MOST_DEATHS);
    await load.more(4);
    await load.finish();
    const [row] = await database.sql`select count(*)::int as count from runs where paused_reason = 'quarantine'`;
    expect(row?.count).toBe(1);
    expect(deaths() - before).toBe(died);
    const { events } = await client.look(runId);
    // At least three: the count is durable, and the other node may try the run before the quarantine is committed.
    const trials = expect.toSatisfy((count: number) => count >= 3);
    const proof = { trials, end: "ended", signal: "SIGKILL" };
    const metadata = { kind: "quarantine", ...proof };
    expect(events.at(-1)).toMatchObject({ event_type: "log", to_state: "paused", metadata });
    expect(await client.run(runId)).toMatchObject({ quarantine: proof });
    await nothingUnwatched(database.sql);
    quarantined.push(runId);
  }, 400_000);

  for (const way of ["with-a-signal", "with-an-answer"])
    it(`is found as fast if a client or a worker repeats what crashes it: ${way}`, async () => {
      const runId = await client.start(way);
      await client.untilState(runId, "paused");
      const before = deaths();
      const given = { idempotency_key: way, payload: {} };
      const { status } = await client.insist("POST", `/sagas/${runId}/signal/go`, given);
      const died = await untilQuarantined(runId, before);
      report({ poison: way, died, status });
      expect(died).toBeGreaterThan(0);
      expect(died).toBeLessThanOrEqual(MOST_DEATHS);
      await nothingUnwatched(database.sql);
      quarantined.push(runId);
    }, 400_000);

  it("is not even created if its start crashes nodes: the start is refused, and others are not", async () => {
    const before = deaths();
    const { status } = await client.insist("POST", "/sagas/start", { workflow_id: EVIL, inputs: { n: 7 } });
    expect(status).toBe(422);
    await until(() => livingNodes(service).length === 2, { what: "both nodes" });
    report({ poison: "start", died: deaths() - before });
    expect(deaths() - before).toBeLessThanOrEqual(MOST_DEATHS);
    await client.allEnd([await client.start(EVIL, { inputs: { n: 8 } })]);
  }, 120_000);

  it("continues when it is released after the cause is gone", async () => {
    await service.stop();
    await healthy.start();
    for (const runId of quarantined) {
      expect(await inQuarantine(runId)).toBe(true);
      expect((await client.ask("POST", `/sagas/${runId}/release`)).status).toBe(202);
    }
    for (const { run } of await client.allEnd(quarantined)) expect(run.output).toBe("alive");
    await nothingUnwatched(database.sql);
  }, 400_000);
});
