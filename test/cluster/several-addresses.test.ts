// Two services of one installation, as two machines have them, and a worker that is given the addresses of both: it meets the nodes of both, and goes on
// with one when the other is gone, whichever it is.
// @module-tag long
import { afterAll, beforeAll, expect, it } from "vitest";
import { createWorker, defineAction, type Worker } from "../../src/sdk/worker/index.js";
import { credential, workerToken } from "../harness/access.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { ownExchange } from "../harness/rabbitmq.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { describeWithRedis } from "../harness/services.js";
import { until } from "../harness/until.js";

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const pay = defineAction({
  ...{ service: "payments", name: "pay", input: { type: "object" }, output: { type: "object" }, compensable: true },
});

describeWithRedis("a worker with the addresses of two machines", (redisUrl) => {
  let database: TestDatabase;
  let machines: ServiceProcess[];
  let worker: Worker;

  beforeAll(async () => {
    database = await createTestDatabase({ max: 2 });
    const env = { DATABASE_URL: database.url, REDIS_URL: redisUrl, REDIS_PREFIX: `${ownExchange()}:` };
    machines = await Promise.all([0, 1].map(() => createService({ ...env, SAGA_WORKERS: "2" })));
    for (const machine of machines) await machine.start();
    worker = createWorker({
      ...{ service: "payments", api: machines[0]?.url ?? "", ...workerToken(), log: silent },
      grpc: machines.map(({ grpcAddress }) => grpcAddress),
      timing: { lookAgainMs: 500, backoffMs: 50 },
    }).handle(pay, () => ({}));
    await worker.start();
  });
  afterAll(async () => {
    await worker?.stop();
    for (const machine of machines ?? []) await machine.kill();
    await database.drop();
  });

  async function ask<T>(machine: ServiceProcess, path: string, body?: object): Promise<T> {
    const answer = await fetch(`${machine.url}/api/v1${path}`, {
      headers: { ...credential(), ...(body && { "content-type": "application/json" }) },
      ...(body && { method: "POST", body: JSON.stringify(body) }),
    });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as T;
  }

  /** The streams of the worker, one for each node that it has met. */
  async function streams(machine: ServiceProcess): Promise<number> {
    return (await ask<{ items: readonly unknown[] }>(machine, "/workers")).items.length;
  }

  const runs = (machine: ServiceProcess) =>
    ask<{ state: string }>(machine, "/sagas/start?wait_ms=20000", { workflow_id: "paid" });

  it("serves runs of both, and of the one that is left", async () => {
    const [left, gone] = machines as [ServiceProcess, ServiceProcess];
    const steps = [{ id: "pay", type: "action", action: "payments.pay" }];
    await ask(left, "/workflows", { id: "paid", name: "paid", version: 1, published: true, start: "pay", steps });
    await until(async () => (await streams(left)) === 4);
    for (const machine of machines) expect((await runs(machine)).state).toBe("succeeded");
    await gone.kill();
    expect((await runs(left)).state).toBe("succeeded");
    await gone.start();
    await left.kill();
    expect(await until(async () => (await runs(gone)).state)).toBe("succeeded");
  });
});
