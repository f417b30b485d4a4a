// Redis is killed in the middle of the work of two services, stays away, and comes back: it carries hints only, so everything
// still ends.
import { afterAll, beforeAll, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { openPrivateRedis, type PrivateRedis } from "../harness/redis.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { describeWithRedis } from "../harness/services.js";
import { nothingUnwatched, report } from "../run/seen.js";
import { Client } from "./client.js";
import { Load } from "./load.js";
import { openShop, type Shop } from "./shop.js";

describeWithRedis("two services whose Redis is killed", (shared) => {
  let database: TestDatabase;
  let redis: PrivateRedis;
  const services: ServiceProcess[] = [];
  const shops: Shop[] = [];

  beforeAll(async () => {
    database = await createTestDatabase({ max: 2 });
    redis = await openPrivateRedis(shared);
    for (const _ of ["one", "other"]) {
      const env = { DATABASE_URL: database.url, REDIS_URL: redis.url, SAGA_WORKERS: "1" };
      const service = await (await createService(env)).start();
      services.push(service);
      shops.push(await openShop({ grpc: service.grpcAddress, api: service.url }));
    }
  });
  afterAll(async () => {
    for (const shop of shops) await shop.stop();
    for (const service of services) await service.stop();
    await redis.kill();
    await database.drop();
  });

  it("go on without it, and with it when it is back: every run ends as it has to", async () => {
    const load = new Load(
      services.map(({ url }) => new Client(url)),
      shops,
    );
    const began = performance.now();
    await load.begin({ atOnce: 8 });
    await load.more(16);
    const with_ = performance.now() - began;
    await redis.kill();
    await load.more(32);
    const without = performance.now() - began - with_;
    // Those that were under way when it died have ended, too.
    const dead = load.runIds.slice(0, 16);
    await new Client(services[0]?.url ?? "").allEnd(dead);
    await redis.start();
    await load.more(16);
    const seen = await load.finish();
    report({ runs: seen.length, msEachWith: with_ / 16, msEachWithout: without / 32 });
    for (const service of services) expect(service.log.some((line) => line.includes('"level":"fatal"'))).toBe(false);
    await nothingUnwatched(database.sql);
  }, 120_000);
});
