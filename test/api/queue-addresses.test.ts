// The queues that workers over RabbitMQ may register: never those of the events, and with access on only those whose names begin with the
// service's own, so that no service reads the calls of another.
import type { FastifyInstance } from "fastify";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { verifierOf } from "../harness/verifier.js";
import { otherApi, useRig } from "./rig.js";

const rig = useRig();
const TENANT = "0190a000-0000-7000-8000-0000000000f1";
const broker = { amqpUrl: "amqp://localhost", eventsExchange: "shop.events" };
const verifier = verifierOf({ worker: { roles: ["worker"], tenantId: TENANT, services: ["*"] } });

let [open, guarded]: FastifyInstance[] = [];
beforeAll(async () => {
  open = await otherApi(rig, {}, { config: broker });
  guarded = await otherApi(rig, {}, { config: broker, verifier });
});
afterAll(async () => {
  await open?.close();
  await guarded?.close();
});

async function register(app: FastifyInstance | undefined, service: string, address: string) {
  const answer = await app?.inject({
    ...{ method: "POST", url: "/api/v1/registry/register", headers: { authorization: "Bearer worker" } },
    payload: { service, actions: [{ action_name: "charge", transport: "rmq", address }] },
  });
  return [answer?.statusCode, answer?.json().details?.[0]] as const;
}

describe("the address of a RabbitMQ worker", () => {
  it.each(["shop.events.in", "shop.events.dead"])("is no queue of the events (%s)", async (address) => {
    const refused = [400, { path: "$.actions[0].address", message: "is a queue of the events" }];
    expect(await register(open, "shop", address)).toEqual(refused);
    expect(await register(guarded, "shop", address)).toEqual(refused);
    expect(await register(guarded, address, address)).toEqual(refused);
  });

  it("is any other queue with access off", async () => {
    expect((await register(open, "free", "whatever/queue"))[0]).toBe(200);
  });

  it("is the service, or the service and a name, with access on", async () => {
    const message = "must be pay, or pay/ and a name";
    for (const address of ["payouts", "pay.queue", "other/pay", "pay/", "Pay", "payouts/pay", " pay"])
      expect([address, ...(await register(guarded, "pay", address))]).toEqual([
        ...[address, 400, { path: "$.actions[0].address", message }],
      ]);
    expect((await register(guarded, "pay", "pay"))[0]).toBe(200);
    expect((await register(guarded, "pay2", "pay2/fast"))[0]).toBe(200);
  });
});
