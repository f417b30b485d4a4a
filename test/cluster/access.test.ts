// A node with access control, composed as the service composes it: an API key opens its doors, and no node of the other mode starts beside it.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type NodeHandle, startNode } from "../../src/cluster/node.js";
import { ConfigError, type Env, loadConfig } from "../../src/config/index.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { newKeyIn, TENANT } from "./access-rig.js";

const PORTS = { HTTP_PORT: "0", GRPC_PORT: "0" };
let database: TestDatabase;
let node: NodeHandle;

beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
  node = await start({ SAGA_AUTH: "api_key", SAGA_RATE_LIMIT: "1/s,2", SAGA_AUTH_ROLLOUT: "1" });
});
afterAll(async () => {
  await node?.stop();
  await database?.drop();
});

function start(env: Env): Promise<NodeHandle> {
  const { config } = loadConfig({ ...PORTS, ...env });
  return startNode({ config, databaseUrl: database.url, log: silentLog });
}

const newKey = (roles: readonly string[]) =>
  newKeyIn(database, { roles, ...(!roles.includes("platform") && { tenantId: TENANT }) });

const ask = (path: string, key?: string) =>
  fetch(
    `http://127.0.0.1:${node.httpPort}${path}`,
    key === undefined ? {} : { headers: { authorization: `Bearer ${key}` } },
  );

describe("a node with access control", () => {
  it("opens its doors to a key by its role, and its probes to everyone", async () => {
    const key = await newKey(["viewer"]);
    expect((await ask("/healthz")).status).toBe(200);
    expect((await ask("/api/v1/workflows")).status).toBe(401);
    expect((await ask("/api/v1/workflows", key)).status).toBe(200);
    expect((await ask("/api/v1/cluster", key)).status).toBe(403);
  });

  it("says so in /cluster, as each of its nodes does", async () => {
    const cluster = await (await ask("/api/v1/cluster", await newKey(["platform"]))).json();
    expect(cluster).toMatchObject({
      access: "on",
      access_rollout: true,
      nodes: [{ node_id: node.nodeId, access: "on" }],
    });
  });

  it("limits the requests of a key, as SAGA_RATE_LIMIT says", async () => {
    const key = await newKey(["viewer"]);
    const statuses: number[] = [];
    for (let nth = 0; nth < 4; nth++) statuses.push((await ask("/api/v1/workflows", key)).status);
    expect(statuses.slice(0, 2)).toEqual([200, 200]);
    expect(statuses).toContain(429);
  });
});

describe("a node without access control", () => {
  it("does not start beside one with it, and leaves no row", async () => {
    await expect(start({})).rejects.toThrow(ConfigError);
    await expect(start({})).rejects.toThrow(
      /SAGA_AUTH: access control is off here and on at node .*SAGA_AUTH_ROLLOUT=1/,
    );
    expect(await database.sql`select from nodes where access = 'off'`).toHaveLength(0);
  });

  it("does not start beside one with it, and stores none of its definitions", async () => {
    const folder = mkdtempSync(join(tmpdir(), "saga-definitions-"));
    const workflow = { id: "of-the-folder", name: "x", start: "out", steps: [{ id: "out", type: "end" }] };
    writeFileSync(join(folder, "a.workflow.json"), JSON.stringify(workflow));
    await expect(start({ SAGA_DEFINITIONS_DIR: folder })).rejects.toThrow(ConfigError);
    rmSync(folder, { recursive: true });
    expect(await database.sql`select from definitions where workflow_id = ${workflow.id}`).toHaveLength(0);
  });

  it("starts beside it while SAGA_AUTH_ROLLOUT is on", async () => {
    const open = await start({ SAGA_AUTH_ROLLOUT: "1" });
    expect((await fetch(`http://127.0.0.1:${open.httpPort}/api/v1/workflows`)).status).toBe(200);
    await open.stop();
  });
});
