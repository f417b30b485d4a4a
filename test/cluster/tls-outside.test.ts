// Redis and RabbitMQ over TLS: a service reaches both through doors that end TLS before the shared ones, if it trusts the authority of their
// certificate, and neither if it does not.
import { connect } from "node:net";
import { createServer, type Server } from "node:tls";
import { afterAll, beforeAll, expect, it } from "vitest";
import { readCertificate } from "../../src/config/index.js";
import { type Authority, createAuthority, describeWithOpenssl } from "../harness/certificates.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { freePorts } from "../harness/ports.js";
import { createService } from "../harness/service.js";
import { describeWithRabbitMq, describeWithRedis } from "../harness/services.js";
import { until } from "../harness/until.js";
import { logged, request, sampled } from "./rig.js";
import { NAMES } from "./tls-rig.js";

describeWithOpenssl("a service", () => {
  describeWithRedis("with Redis over TLS", (redis) => {
    describeWithRabbitMq("and with RabbitMQ", (amqp) => {
      let database: TestDatabase;
      let authority: Authority;
      let other: Authority;
      const doors: Server[] = [];

      beforeAll(async () => {
        database = await createTestDatabase({ max: 2 });
        [authority, other] = [createAuthority("of the doors"), createAuthority("of another")];
      });
      afterAll(async () => {
        for (const door of doors) await new Promise((resolve) => door.close(resolve));
        await database.drop();
      });

      /** The URL of a door to the server of this URL. */
      async function doorTo(url: string, scheme: string, standard: number): Promise<string> {
        const { context } = readCertificate(authority.issue(NAMES));
        const { hostname, port } = new URL(url);
        const door = createServer(context, (client) => {
          const behind = connect(Number(port) || standard, hostname);
          for (const [one, another] of [
            [client, behind],
            [behind, client],
          ] as const)
            one.pipe(another).on("error", () => one.destroy());
        });
        door.on("tlsClientError", () => {});
        const [free = 0] = await freePorts(1);
        await new Promise<void>((resolve) => door.listen(free, "127.0.0.1", resolve));
        doors.push(door);
        const outside = new URL(url.replace(/^\w+:/, `${scheme}:`));
        outside.hostname = "localhost";
        outside.port = String(free);
        return outside.href;
      }

      async function start(trusted: Authority) {
        const service = await createService({
          DATABASE_URL: database.url,
          SAGA_WORKERS: "1",
          REDIS_URL: await doorTo(redis, "rediss", 6379),
          AMQP_URL: await doorTo(amqp, "amqps", 5672),
          NODE_EXTRA_CA_CERTS: trusted.caFile,
        });
        return service.start();
      }

      it("talks to both where it trusts their authority", async () => {
        const service = await start(authority);
        await until(() => logged(service, "bus connected to Redis").length === 1, { what: "Redis" });
        const away = async () =>
          sampled((await request(`${service.url}/metrics`)).text, "saga_event_links_away", "direction");
        await until(async () => (await away()) === 0, { what: "RabbitMQ" });
        expect(logged(service, "connection to RabbitMQ lost, connecting again")).toEqual([]);
        expect(await service.stop()).toBe(0);
      });

      it("talks to neither where it does not", async () => {
        const service = await start(other);
        const lines = () => [
          logged(service, "Redis unreachable, bus messages are dropped until it is back")[0],
          logged(service, "connection to RabbitMQ lost, connecting again")[0],
        ];
        await until(() => lines().every((line) => line !== undefined), { what: "both lines" });
        expect(lines()).toMatchObject([
          { err: expect.stringContaining("unable to verify the first certificate") },
          { reason: expect.stringContaining("unable to verify the first certificate") },
        ]);
        expect(logged(service, "bus connected to Redis")).toEqual([]);
        expect(await service.stop()).toBe(0);
      });
    });
  });
});
