// A real node on a database of its own, with a worker, asked over HTTP.
import { afterAll, beforeAll } from "vitest";
import type { JsonObject } from "../../machines/index.js";
import { type NodeHandle, startNode } from "../../src/cluster/node.js";
import { loadConfig } from "../../src/config/index.js";
import { documented } from "../api/documented.js";
import { Client } from "../faults/client.js";
import { openShop, type Shop } from "../faults/shop.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";

export interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests read answers of any shape, and fail if the shape is wrong.
  readonly body: any;
  readonly headers: Headers;
}

export interface OperateRig {
  database: TestDatabase;
  node: NodeHandle;
  client: Client;
  shop: Shop;
  ask(method: "GET" | "POST", path: string, body?: unknown, key?: string): Promise<Answer>;
}

/** Call it at the top of a test file. */
export function useNode(env: Readonly<Record<string, string>> = {}): OperateRig {
  const rig = {} as OperateRig;
  rig.ask = async (method, path, body, key) => {
    const headers = { ...(body !== undefined && { "content-type": "application/json" }) };
    const response = await fetch(`${rig.client.url}/api/v1${path}`, {
      method,
      headers: { ...headers, ...(key !== undefined && { "idempotency-key": key }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const answer = { status: response.status, body: await response.json(), headers: response.headers };
    const contentType = response.headers.get("content-type") ?? undefined;
    documented().check({ method, path: `/api/v1${path}`, status: answer.status, contentType, body: answer.body });
    return answer;
  };
  beforeAll(async () => {
    rig.database = await createTestDatabase({ max: 2 });
    const { config } = loadConfig({ HTTP_PORT: "0", GRPC_PORT: "0", ...env });
    rig.node = await startNode({ config, databaseUrl: rig.database.url, log: silentLog });
    rig.client = new Client(`http://127.0.0.1:${rig.node.httpPort}`);
    rig.shop = await openShop({ grpc: `127.0.0.1:${rig.node.grpcPort}`, api: rig.client.url });
  });
  afterAll(async () => {
    rig.shop?.letAllGo();
    await rig.shop?.stop();
    await rig.node?.stop();
    await rig.database?.drop();
  });
  return rig;
}

/** Resolves with the run as it ended. */
export async function ended(rig: OperateRig, workflowId: string, more: JsonObject = {}) {
  const { body } = await rig.ask("POST", "/sagas/start?wait_ms=30000", { workflow_id: workflowId, ...more });
  return body.run;
}
