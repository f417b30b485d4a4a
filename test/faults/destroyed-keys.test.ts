// The keys of a tenant are destroyed on a service of four node processes, of which one after the other is killed (SIGKILL), while clients start runs of it. Each
// run that was acknowledged before ends failed with `key_destroyed`, whatever it was doing and whichever node had it, unless it had ended before; none
// undoes anything; runs that are started once all nodes know of it, and runs of others, end as ever.
// @module-tag long
// @access both
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, it } from "vitest";
import { livingNodes } from "../cluster/rig.js";
import { accessIsOn, TESTS_TENANT } from "../harness/access.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess, sealingSettings } from "../harness/service.js";
import { until } from "../harness/until.js";
import { nothingUnwatched, report } from "../run/seen.js";
import { Client } from "./client.js";
import { openShop, type Shop } from "./shop.js";

const NODES = 4;
const LEFT_ALIVE = 2;
const KILL_MS = 2_000;
const LEAST_KILLS = 4;
const OF_EACH = 12;
const PATIENCE_MS = 240_000;
const OTHER = "0190a000-0000-7000-8000-0000000000e7";

let database: TestDatabase;
let service: ServiceProcess;
let client: Client;
let shop: Shop;

beforeAll(async () => {
  database = await createTestDatabase({ max: 3 });
  const settings = { SAGA_WORKERS: String(NODES), ...sealingSettings() };
  service = await createService({ DATABASE_URL: database.url, ...settings });
  await service.start({ within: 60_000 });
  await until(() => livingNodes(service).length === NODES, { within: 60_000 });
  client = new Client(service.url);
  shop = await openShop({ grpc: service.grpcAddress, api: service.url });
  const charge = { id: "charge", type: "action", action: "shop.charge", compensation: { action: "shop.refund" } };
  const wait = { id: "wait", type: "wait_for_signal", signal_name: "go", next: "done" };
  const done = { id: "done", type: "end", output: "${inputs.note}" };
  await client.publish("waits", [{ ...charge, next: "wait" }, wait, done]);
  await client.publish("hangs", [{ id: "hang", type: "action", action: "shop.hang", next: "done" }, done]);
  await client.publish("sleeps", [
    { ...charge, next: "sleep" },
    { id: "sleep", type: "wait_duration", duration_ms: 3_600_000, next: "done" },
    done,
  ]);
  await client.publish("family", [
    { id: "each", type: "foreach", items: "[1, 2]", max_concurrency: 2, body: "inner", next: "done" },
    { ...wait, id: "inner", next: "each" },
    done,
  ]);
  await client.publish("short", [
    { ...charge, next: "rest" },
    { id: "rest", type: "wait_duration", duration_ms: 300, next: "done" },
    done,
  ]);
}, 180_000);
afterAll(async () => {
  await shop?.stop();
  await service?.stop();
  await database?.drop();
});

const NOTE = "my note 🙂";
const start = (workflow: string, tenant = TESTS_TENANT) =>
  client.start(workflow, {
    ...{ run_id: randomUUID(), inputs: { note: NOTE } },
    ...(!accessIsOn() && { tenant_id: tenant }),
  });

const KEYS = `/data_keys/${TESTS_TENANT}`;

/** Until there is an outcome: a node may die of a kill before it answers. */
const insist = (method: "GET" | "DELETE") =>
  until(
    async () => {
      const answer = await client.send(client.url, method, KEYS).catch(() => undefined);
      return answer?.status === 200 && answer.body;
    },
    { within: PATIENCE_MS, pause: 50, what: `an answer to ${method} ${KEYS}` },
  );

it("end what it had, and nothing else, whichever nodes are killed meanwhile", {
  timeout: 2 * PATIENCE_MS,
}, async () => {
  const doomed: string[] = [];
  for (let nth = 0; nth < OF_EACH; nth++)
    for (const workflow of ["waits", "hangs", "sleeps", "family"]) doomed.push(await start(workflow));
  const others = accessIsOn() ? [] : await Promise.all(Array.from({ length: OF_EACH }, () => start("waits", OTHER)));
  for (const runId of others) await client.untilState(runId, "paused", PATIENCE_MS);

  let over = false;
  let kills = 0;
  const killing = (async () => {
    for (let last = -KILL_MS; !over || kills < LEAST_KILLS; ) {
      await until(() => livingNodes(service).length > LEFT_ALIVE && performance.now() - last > KILL_MS, {
        ...{ within: PATIENCE_MS, pause: 50, what: "three nodes" },
      });
      const [victim] = livingNodes(service);
      if (victim) process.kill(victim.pid, "SIGKILL");
      last = performance.now();
      kills++;
    }
  })();
  const during: string[] = [];
  const loading = (async () => {
    while (!over) during.push(await start("short"));
  })();
  await until(() => kills >= 1 && during.length >= 10, { within: PATIENCE_MS, what: "runs and a kill" });
  const { destroyed } = await insist("DELETE");
  expect(destroyed).toBeGreaterThanOrEqual(1);
  const open = async () => (await insist("GET")).unfinished_runs;
  await until(async () => (await open()) === 0, { within: PATIENCE_MS, pause: 200, what: "the end of all of them" });
  over = true;
  await Promise.all([killing, loading]);

  // A node that did not answer in time knows of it within seconds.
  await until(
    async () =>
      (await database.sql`select 1 from data_keys where destroyed_at is not null and settled_at is null`).length === 0,
    {
      ...{ within: PATIENCE_MS, pause: 500, what: "keys without an unfinished run" },
    },
  );
  const after = await Promise.all(Array.from({ length: OF_EACH }, () => start("short")));
  for (const runId of others) await client.insist("POST", `/sagas/${runId}/signal/go`, { payload: {} });

  for (const runId of doomed) {
    const run = await client.untilState(runId, "failed", PATIENCE_MS);
    expect(run).toMatchObject({ error: { code: "key_destroyed" }, requires_manual_review: true });
  }
  for (const runId of [...after, ...others]) {
    const run = await client.untilState(runId, "succeeded", PATIENCE_MS);
    expect(run).toMatchObject({ output: NOTE });
  }
  const ends: Record<string, number> = {};
  for (const { run } of await client.allEnd(during)) {
    const code = run.error?.code ?? run.state;
    ends[code] = (ends[code] ?? 0) + 1;
  }
  report({ kills, during: during.length, ...ends });
  expect(Object.keys(ends).filter((end) => end !== "succeeded" && end !== "key_destroyed")).toEqual([]);
  await client.allEnd([...doomed, ...after, ...others]);
  expect(shop.ledger.filter(({ action }) => action === "refund")).toEqual([]);
  await nothingUnwatched(database.sql);
  const unsealed = await database.sql`select 1 from data_keys where destroyed_at is not null and wrapped is not null`;
  expect(unsealed.length).toBe(0);
});
