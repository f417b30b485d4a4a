// The master key is replaced on a service of two node processes under load, as the operator's guide says: the new key is added, then named, then the old
// one goes, and for each step one node after the other is killed (SIGKILL) and comes back with the file as it is by then. Every run reads what was sealed
// before. In the middle the keys of another tenant are destroyed.
// @module-tag long
// @access both
import { randomBytes, randomUUID } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import { livingNodes } from "../cluster/rig.js";
import { accessIsOn } from "../harness/access.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess, sealingSettings } from "../harness/service.js";
import { until } from "../harness/until.js";
import { nothingUnwatched, report } from "../run/seen.js";
import { Client } from "./client.js";
import { openShop, type Shop } from "./shop.js";

const NODES = 2;
const PATIENCE_MS = 240_000;
const OF_EACH = 6;
const OTHER = "0190a000-0000-7000-8000-0000000000e7";
const NOTE = "my note 🙂 19.99";

interface MasterKey {
  readonly id: string;
  readonly key: string;
}

const settings = sealingSettings();
const file = settings.SAGA_ENCRYPTION_KEYS_FILE ?? "";
const [old] = JSON.parse(readFileSync(file, "utf8")).keys as [MasterKey];
const next: MasterKey = { id: "next", key: randomBytes(32).toString("base64") };
const use = (current: MasterKey, ...keys: readonly MasterKey[]) =>
  writeFileSync(file, JSON.stringify({ current: current.id, keys }), { mode: 0o600 });

let database: TestDatabase;
let service: ServiceProcess;
let client: Client;
let shop: Shop;

beforeAll(async () => {
  database = await createTestDatabase({ max: 3 });
  service = await createService({ DATABASE_URL: database.url, SAGA_WORKERS: String(NODES), ...settings });
  await service.start({ within: 60_000 });
  await until(() => livingNodes(service).length === NODES, { within: 60_000 });
  client = new Client(service.url);
  shop = await openShop({ grpc: service.grpcAddress, api: service.url });
  const charge = { id: "charge", type: "action", action: "shop.charge" };
  const wait = { id: "wait", type: "wait_for_signal", signal_name: "go", next: "done" };
  const done = { id: "done", type: "end", output: "${inputs.note}" };
  await client.publish("waits", [{ ...charge, next: "wait" }, wait, done]);
  await client.publish("short", [{ ...charge, next: "done" }, done]);
}, 180_000);
afterAll(async () => {
  await shop?.stop();
  await service?.stop();
  await database?.drop();
});

const start = (workflow: string, more: object = {}) =>
  client.start(workflow, { run_id: randomUUID(), inputs: { note: NOTE }, ...more });
const startSome = (more?: object) => Promise.all(Array.from({ length: OF_EACH }, () => start("waits", more)));

/** Each node dies, and one that has read the file as it is now comes for it. */
async function replaceNodes(): Promise<void> {
  for (const { pid } of livingNodes(service)) {
    process.kill(pid, "SIGKILL");
    await until(() => livingNodes(service).filter((node) => node.pid !== pid).length === NODES, {
      ...{ within: PATIENCE_MS, pause: 50, what: "another node" },
    });
  }
}

const wrappedBy = async ({ id }: MasterKey) =>
  (await database.sql`select from data_keys where wrapped is not null and master_key = ${id}`).length;

it("under a master key that is replaced, runs go on and read what was sealed before, whichever nodes are killed", {
  timeout: 2 * PATIENCE_MS,
}, async () => {
  let over = false;
  const during: string[] = [];
  const loading = (async () => {
    while (!over) during.push(await start("short"));
  })();
  const waiting = await startSome();
  const doomed = accessIsOn() ? [] : await startSome({ tenant_id: OTHER });
  for (const runId of [...waiting, ...doomed]) await client.untilState(runId, "paused", PATIENCE_MS);

  use(old, old, next);
  await replaceNodes();
  waiting.push(...(await startSome()));
  expect(await wrappedBy(next)).toBe(0);

  use(next, old, next);
  const replacing = replaceNodes();
  const destroyed = await until(
    async () => {
      const answer = await client.send(client.url, "DELETE", `/data_keys/${OTHER}`).catch(() => undefined);
      return answer && [200, 404].includes(answer.status) && answer;
    },
    { within: PATIENCE_MS, pause: 50, what: "an answer to the destruction" },
  );
  await replacing;
  waiting.push(...(await startSome()));
  await until(async () => (await wrappedBy(old)) === 0, {
    ...{ within: PATIENCE_MS, pause: 200, what: "all keys under the new one" },
  });

  use(next, next);
  await replaceNodes();
  waiting.push(...(await startSome()));
  over = true;
  await loading;

  for (const runId of waiting) await client.insist("POST", `/sagas/${runId}/signal/go`, { payload: {} });
  for (const runId of [...waiting, ...during])
    expect(await client.untilState(runId, "succeeded", PATIENCE_MS)).toMatchObject({ output: NOTE });
  expect(destroyed.status).toBe(accessIsOn() ? 404 : 200);
  for (const runId of doomed)
    expect(await client.untilState(runId, "failed", PATIENCE_MS)).toMatchObject({ error: { code: "key_destroyed" } });
  const seen = await client.allEnd([...waiting, ...during, ...doomed]);
  report({ runs: seen.length, during: during.length, doomed: doomed.length });
  const plain = await database.sql`select from run_starts where inputs::text like ${`%${NOTE.slice(0, 7)}%`}`;
  expect(plain.length).toBe(0);
  await nothingUnwatched(database.sql);
});
