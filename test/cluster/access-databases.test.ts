// Row-level security and the reading role on databases of other kinds: the embedded server, and one whose login may make no roles. There the
// start stops with the statements that are missing, and they are all that is missing.
// @module-tag long
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Sql } from "postgres";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type NodeHandle, startNode } from "../../src/cluster/node.js";
import { loadConfig } from "../../src/config/index.js";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "../../src/store/embedded/postgres.js";
import { type Database, openDatabase } from "../../src/store/engine/connection.js";
import { UnusableDatabase } from "../../src/store/engine/session.js";
import { PLATFORM_READER_ROLE, READER_ROLE } from "../../src/store/migrate/reader-role.js";
import { silentLog } from "../harness/database.js";
import { newKeyIn, OTHER, TENANT } from "./access-rig.js";

const dataDir = mkdtempSync(join(tmpdir(), "saga-access-"));
let server: EmbeddedPostgres;
let admin: Database;
const openAt = (url: string) => openDatabase(url, { max: 1, applicationName: "saga-test", log: silentLog });
beforeAll(async () => {
  server = await startEmbeddedPostgres({ dataDir, log: silentLog });
  admin = openAt(server.url);
});
afterAll(async () => {
  await admin?.close();
  await server?.stop();
  rmSync(dataDir, { recursive: true, force: true });
});

const open: NodeHandle[] = [];
async function start(databaseUrl: string): Promise<NodeHandle> {
  const { config } = loadConfig({ HTTP_PORT: "0", GRPC_PORT: "0", SAGA_AUTH: "api_key" });
  const node = await startNode({ config, databaseUrl, log: silentLog });
  open.push(node);
  return node;
}

const keyOf = (sql: Sql, tenantId: string) => newKeyIn({ sql }, { roles: ["author"], tenantId });

async function ask(node: NodeHandle, key: string, path: string, body?: object) {
  const answer = await fetch(`http://127.0.0.1:${node.httpPort}/api/v1${path}`, {
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    ...(body && { method: "POST", body: JSON.stringify(body) }),
  });
  return { status: answer.status, body: (await answer.json()) as { run_id?: string; items?: { id: string }[] } };
}

/** Two tenants, and a run of the first. What its reads run as is seen by what becomes of them without its rights, and without a policy. */
async function readsAreGuarded(sql: Sql, databaseUrl: string): Promise<void> {
  const node = await start(databaseUrl);
  const [own, other] = [await keyOf(sql, TENANT), await keyOf(sql, OTHER)];
  const id = "guarded";
  const steps = [{ id: "end", type: "end" }];
  const stored = await ask(node, own, "/workflows", { id, name: id, start: "end", steps, published: true });
  expect(stored.status, JSON.stringify(stored.body)).toBe(201);
  const { run_id: runId } = (await ask(node, own, "/sagas/start", { workflow_id: id })).body;
  const runs = async (key: string) => {
    const { status, body } = await ask(node, key, "/sagas");
    return [status, body.items?.map((item) => item.id)];
  };
  expect([await runs(own), await runs(other)]).toEqual([
    [200, [runId]],
    [200, []],
  ]);
  expect((await ask(node, other, `/sagas/${runId}`)).status).toBe(404);
  await sql.unsafe(`revoke select on runs from ${READER_ROLE}`);
  expect((await runs(own))[0]).not.toBe(200);
  await sql.unsafe(`grant select on runs to ${READER_ROLE}`);
  expect(await runs(own)).toEqual([200, [runId]]);
  await sql.unsafe("drop policy readers on runs");
  expect(await runs(own)).toEqual([200, []]);
}

describe("a login that may make no roles", () => {
  const [login, password] = ["plain", "a-password-of-the-tests"];
  const url = () => {
    const own = new URL(server.url);
    [own.username, own.password, own.pathname] = [login, password, `/${login}`];
    return own.href;
  };

  it("stops the start with statements; once an administrator has run them, it starts, and its reads are guarded", async () => {
    await admin.sql.unsafe(`create role ${login} login password '${password}'`);
    await admin.sql.unsafe(`create database ${login} owner ${login}`);
    const error = await start(url()).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(UnusableDatabase);
    const { message } = error as Error;
    const statements = message.split("\n").filter((line) => line.endsWith(";"));
    expect(statements.map((line) => line.trim())).toEqual([
      `create role ${READER_ROLE} nologin;`,
      `create role ${PLATFORM_READER_ROLE} nologin;`,
      `grant ${READER_ROLE} to ${login};`,
      `grant ${PLATFORM_READER_ROLE} to ${login};`,
    ]);
    for (const statement of statements) await admin.sql.unsafe(statement);
    const own = openAt(url());
    try {
      await readsAreGuarded(own.sql, url());
    } finally {
      for (const node of open.splice(0)) await node.stop();
      await own.close();
    }
  });
});

describe("the embedded server", () => {
  it("has the role of the reads, which are guarded", async () => {
    try {
      await readsAreGuarded(admin.sql, server.url);
    } finally {
      for (const node of open.splice(0)) await node.stop();
    }
  });
});
