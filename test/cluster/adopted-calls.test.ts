// A call that waits for a worker while its run is given to a tenant: the tenant's worker gets it from the nodes as they are.
import { Metadata } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type NodeHandle, startNode } from "../../src/cluster/node.js";
import { loadConfig } from "../../src/config/index.js";
import { adopt } from "../../src/store/upkeep/adoption.js";
import { RawWorker } from "../dispatch/rig.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { newKeyIn, type Rights, TENANT } from "./access-rig.js";

describe("a call that waits for a worker when its run is adopted", () => {
  let database: TestDatabase;
  let node: NodeHandle;
  let platform = "";
  let worker = "";

  beforeAll(async () => {
    database = await createTestDatabase({ max: 2 });
    const { config } = loadConfig({ HTTP_PORT: "0", GRPC_PORT: "0", SAGA_AUTH: "api_key" });
    node = await startNode({ config, databaseUrl: database.url, log: silentLog });
    platform = await newKey({ roles: ["platform", "admin"] });
    worker = await newKey({ roles: ["worker"], services: ["*"], tenantId: TENANT });
  });
  afterAll(async () => {
    await node?.stop();
    await database?.drop();
  });

  const newKey = (rights: Rights) => newKeyIn(database, rights);

  async function ask(method: string, path: string, body?: object): Promise<Record<string, unknown>> {
    const headers = { authorization: `Bearer ${platform}`, ...(body && { "content-type": "application/json" }) };
    const sent = { method, headers, ...(body && { body: JSON.stringify(body) }) };
    const response = await fetch(`http://127.0.0.1:${node.httpPort}/api/v1${path}`, sent);
    expect([path, response.ok]).toEqual([path, true]);
    return (await response.json()) as Record<string, unknown>;
  }

  /** A run of no tenant, whose call waits. */
  async function start(service: string): Promise<string> {
    await ask("POST", "/registry/register", { service, actions: [{ action_name: "charge", transport: "grpc" }] });
    const steps = [{ id: "charge", type: "action", action: `${service}.charge`, inputs: {} }];
    await ask("POST", "/workflows", { id: service, name: service, published: true, start: "charge", steps });
    const { run_id: runId } = await ask("POST", "/sagas/start", { workflow_id: service });
    await until(async () => JSON.stringify(await ask("GET", `/sagas/${runId}/explain`)).includes("worker"), {
      ...{ what: "the wait for a worker", within: 8_000 },
    });
    return String(runId);
  }

  /** As if the time until the next look at each row were over. */
  const makeDue = async () => {
    await database.sql`update wakes set due_at = now() - interval '1 s' where due_at > now()`;
    await database.sql`update outbox set due_at = now() - interval '1 s' where due_at > now()`;
  };
  const hasRow = async (runId: string) => (await database.sql`select from outbox where run_id = ${runId}`).length === 1;

  it.each([
    ["early", false],
    ["late", true],
  ])("goes to the tenant's worker, without a restart (%s)", async (service, isLookedAt) => {
    const runId = await start(service);
    await until(
      async () => {
        if (isLookedAt) await makeDue();
        return (await hasRow(runId)) === isLookedAt;
      },
      { what: "a look at the run", within: 15_000 },
    );
    expect((await adopt(database.sql, TENANT)).runs).toBe(1);
    // Adopted before it was looked at: the look is over before there is a worker.
    const isOver = async () => {
      await makeDue();
      return hasRow(runId);
    };
    await until(isOver, { what: "a look at the adopted run", within: 15_000 });
    const metadata = new Metadata();
    metadata.set("authorization", `Bearer ${worker}`);
    const connected = new RawWorker(`127.0.0.1:${node.grpcPort}`, undefined, { metadata });
    connected.send({ hello: { worker_id: "w", service, max_in_flight: 1 } });
    await until(
      async () => {
        await makeDue();
        return connected.of("execute").length === 1;
      },
      { what: "the step", within: 15_000 },
    );
    expect(connected.of("execute")[0]).toMatchObject({ run_id: runId, tenant_id: TENANT });
    connected.cut();
  });
});
