// Nodes are killed (SIGKILL) at random moments, with gRPC workers connected and commits in flight, and started again. Two
// services share one database; either of them continues the work of the killed one.
// @module-tag long
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { nothingUnwatched, report } from "../run/seen.js";
import { Client } from "./client.js";
import { Load } from "./load.js";
import { openShop, type Shop } from "./shop.js";

const RUNS = 45;
const KILLS = 3;

let database: TestDatabase;
let services: ServiceProcess[];
let clients: Client[];
let shops: Shop[];

beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
  const env = { DATABASE_URL: database.url, LOG_LEVEL: "warn", SAGA_WORKERS: "1" };
  services = [await createService(env), await createService(env)];
  for (const service of services) await service.start();
  clients = services.map(({ url }) => new Client(url));
  shops = await Promise.all(services.map(({ grpcAddress, url }) => openShop({ grpc: grpcAddress, api: url })));
});
afterAll(async () => {
  for (const shop of shops) await shop.stop();
  for (const service of services) await service.stop();
  await database.drop();
});

describe("nodes killed at random with workers attached", () => {
  it("lose nothing acknowledged, execute every step under one key, and end every run", async () => {
    const began = performance.now();
    const load = new Load(clients, shops);
    await load.begin({ atOnce: 15, count: RUNS });
    for (let nth = 0; nth < KILLS; nth++) {
      const victim = services[nth % 2] as ServiceProcess;
      // After a share of the work, at a random point of it.
      const due = Math.floor(((nth + 0.3 + Math.random() * 0.5) * RUNS) / KILLS);
      await load.more(Math.max(0, due - load.started.size));
      await victim.kill();
      await victim.start();
    }
    await load.finish();
    const [row] = await database.sql`select count(*)::int as count from runs`;
    expect([load.started.size, row?.count]).toEqual([RUNS, RUNS]);
    await nothingUnwatched(database.sql);
    const executions = shops.reduce((sum, { ledger }) => sum + ledger.length, 0);
    const keys = new Set(shops.flatMap(({ ledger }) => ledger.map(({ key }) => key))).size;
    report({ runs: RUNS, kills: KILLS, executions, keys, ms: performance.now() - began });
  }, 400_000);
});
