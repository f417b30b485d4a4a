// Redis is killed while two services work, stays away, and comes back. It carries hints only, so every run still ends.
import { afterAll, beforeAll, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { long } from "../harness/long.js";
import { openPrivateRedis, type PrivateRedis } from "../harness/redis.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { describeWithRedis } from "../harness/services.js";
import { nothingUnwatched, report } from "../run/seen.js";
import { Client } from "./client.js";
import { Load } from "./load.js";
import { openShop, type Shop } from "./shop.js";

/** Orders that come in before Redis is killed, half of those while it is away, and those after it is back. */
const SHARE = long(3, 16);

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

  it(
    "continue without it and after its return, and bring every run to its expected end",
    async () => {
      const load = new Load(
        services.map(({ url }) => new Client(url)),
        shops,
      );
      const began = performance.now();
      await load.begin({ atOnce: 8 });
      await load.more(SHARE);
      const with_ = performance.now() - began;
      await redis.kill();
      await load.more(2 * SHARE);
      const without = performance.now() - began - with_;
      // The runs that were in progress when it died end as well.
      const dead = load.runIds.slice(0, SHARE);
      await new Client(services[0]?.url ?? "").allEnd(dead);
      await redis.start();
      await load.more(SHARE);
      const seen = await load.finish();
      report({ runs: seen.length, msEachWith: with_ / SHARE, msEachWithout: without / (2 * SHARE) });
      for (const service of services) expect(service.log.some((line) => line.includes('"level":"fatal"'))).toBe(false);
      await nothingUnwatched(database.sql);
    },
    long(120_000, 400_000),
  );
});
