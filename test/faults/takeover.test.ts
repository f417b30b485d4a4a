// Takeover and its delay: a node is killed or frozen under its primary, or a whole service beside another one. A frozen process
// thaws with everything that it held in memory, and must not change what others have done since.
// @module-tag long
// @access both
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { uuidv7 } from "../../src/ids.js";
import { lives, livingNodes, type NodeSeen } from "../cluster/rig.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { describeWithRedis } from "../harness/services.js";
import { until } from "../harness/until.js";
import { nothingUnwatched, report } from "../run/seen.js";
import { Client } from "./client.js";
import { Load } from "./load.js";
import { openShop, type Shop } from "./shop.js";
import { databaseTime, endTicking, startTicking, untilAllAdvance } from "./ticking.js";

const TICKING = 12;

let database: TestDatabase;
const services: ServiceProcess[] = [];
const shops: Shop[] = [];
const clients: Client[] = [];

async function open(count: number, env: Readonly<Record<string, string>>): Promise<void> {
  database = await createTestDatabase({ max: 3 });
  for (let nth = 0; nth < count; nth++) {
    const service = await (await createService({ DATABASE_URL: database.url, ...env })).start();
    services.push(service);
    shops.push(await openShop({ grpc: service.grpcAddress, api: service.url }));
    clients.push(new Client(service.url));
  }
}

async function close(): Promise<void> {
  clients.length = 0;
  for (const shop of shops.splice(0)) await shop.stop();
  for (const service of services.splice(0)) await service.stop();
  await database.drop();
}

const service = (nth: number) => services[nth] as ServiceProcess;
const client = (nth: number) => clients[nth] as Client;

/** The ids of the living nodes, oldest first. */
async function nodeIds(count: number): Promise<string[]> {
  const ids = () => database.sql<{ node_id: string }[]>`
    select node_id from nodes where heartbeat_at > now() - interval '3 s' order by started_at`;
  await until(async () => (await ids()).length === count, { what: `${count} nodes that live` });
  return (await ids()).map((row) => row.node_id);
}

/** Strikes the node, and reports how long it takes until all its runs advance elsewhere. */
async function measure(what: string, nodeId: string, by: Client, strike: () => unknown): Promise<string[]> {
  const runIds = await startTicking(database.sql, by, nodeId, TICKING);
  await strike();
  const since = await databaseTime(database.sql);
  report({ what, runs: TICKING, ...(await untilAllAdvance(database.sql, runIds, since)) });
  return runIds;
}

describe("two nodes of one service, without Redis", () => {
  beforeAll(() => open(1, { SAGA_WORKERS: "2" }));
  afterAll(close);

  async function nodes(): Promise<[NodeSeen, NodeSeen]> {
    const living = () => livingNodes(service(0));
    await until(() => living().length === 2, { what: "two nodes" });
    await nodeIds(2);
    return living() as [NodeSeen, NodeSeen];
  }

  it("a killed one is taken over, and every run under load comes to its expected end", async () => {
    const [victim] = await nodes();
    const load = new Load([client(0)], shops);
    await load.begin({ atOnce: 3 });
    const runIds = await measure("a node killed under its primary", victim.nodeId, client(0), () =>
      process.kill(victim.pid, "SIGKILL"),
    );
    await load.more(10);
    await endTicking(client(0), runIds);
    await load.finish();
    await nothingUnwatched(database.sql);
  }, 400_000);

  it("a frozen one is taken over, again and again, and changes nothing after its thaw", async () => {
    const load = new Load([client(0)], shops);
    await load.begin({ atOnce: 3 });
    const ticking: string[] = [];
    for (const nth of [0, 1]) {
      const victim = (await nodes())[nth] as NodeSeen;
      const strike = () => process.kill(victim.pid, "SIGSTOP");
      try {
        ticking.push(...(await measure("a node frozen under its primary", victim.nodeId, client(0), strike)));
      } finally {
        process.kill(victim.pid, "SIGCONT");
      }
      await load.more(10);
      expect(lives(victim.pid)).toBe(true);
    }
    await endTicking(client(0), ticking);
    await load.finish();
    await nothingUnwatched(database.sql);
  }, 180_000);
});

describeWithRedis("two services", (redisUrl) => {
  beforeAll(() => open(2, { SAGA_WORKERS: "1", REDIS_URL: redisUrl, REDIS_PREFIX: `test:${uuidv7()}:` }));
  afterAll(close);

  it("a frozen one is taken over, and changes nothing after its thaw", async () => {
    const [nodeId = ""] = await nodeIds(2);
    const load = new Load(clients, shops);
    await load.begin({ atOnce: 3 });
    const runIds = await measure("a service frozen", nodeId, client(1), () => service(0).freeze()).finally(() =>
      service(0).thaw(),
    );
    await load.more(10);
    await endTicking(client(0), runIds);
    await load.finish();
    await nothingUnwatched(database.sql);
  }, 180_000);

  it("a killed one is taken over", async () => {
    const [, nodeId = ""] = await nodeIds(2);
    const load = new Load(clients, shops);
    await load.begin({ atOnce: 3 });
    const runIds = await measure("a service killed", nodeId, client(0), () => service(1).kill());
    await endTicking(client(0), runIds);
    await service(1).start();
    await load.more(10);
    await load.finish();
    await nothingUnwatched(database.sql);
  });
});
