// Starts of the built service that meet something in their way: each says in one sentence what it is, and goes on if it can.
// @module-tag long
import { spawn } from "node:child_process";
import { mkdtempSync, openSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { ANYONE, makeApiKey } from "../../src/access/index.js";
import { parseDatabaseUrl } from "../../src/config/index.js";
import { packageRoot } from "../../src/config/package.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { freePorts } from "../harness/ports.js";
import { createService } from "../harness/service.js";
import { until } from "../harness/until.js";

let database: TestDatabase;
const servers: Server[] = [];
beforeAll(async () => {
  database = await createTestDatabase({ max: 1 });
});
afterAll(async () => {
  for (const server of servers) await new Promise((resolve) => server.close(resolve));
  await database.drop();
});

async function listen(port: number, serve: Parameters<typeof createServer>[1] = () => {}): Promise<void> {
  const server = createServer(serve as () => void);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
}

describe("a start", () => {
  it.each(["HTTP_PORT", "GRPC_PORT"])("at a taken %s ends with one line that names it", async (setting) => {
    const [port] = await freePorts(1);
    await listen(port as number);
    const service = await createService({ DATABASE_URL: database.url, SAGA_WORKERS: "2", [setting]: String(port) });
    await service.start({ ready: false });
    expect(await service.exit()).toBe(1);
    const lines = service.log.filter((line) => !line.startsWith("{"));
    expect(lines).toEqual([
      `${setting} ${port} is in use on 127.0.0.1: end the process that listens there, or set ${setting} to another port`,
    ]);
  });

  it("beyond loopback ends with one problem that names SAGA_AUTH and SAGA_INSECURE", async () => {
    const service = await createService({ DATABASE_URL: database.url, SAGA_WORKERS: "1", HOST: "0.0.0.0" });
    await service.start({ ready: false });
    expect(await service.exit()).toBe(1);
    const [first, problem, ...others] = service.log;
    expect(first).toBe("The configuration has 1 problem(s):");
    expect(problem).toMatch(/^ {2}- HOST is beyond loopback.*set SAGA_AUTH.*SAGA_INSECURE=1/);
    expect(others).toEqual([]);
  });

  it.each(["1", "2"])(
    "beyond loopback with SAGA_INSECURE=1 and %s node(s) serves there, with one warning",
    async (nodes) => {
      const env = { DATABASE_URL: database.url, SAGA_WORKERS: nodes, HOST: "0.0.0.0", SAGA_INSECURE: "1" };
      const service = await (await createService(env)).start();
      const warnings = service.log.filter((line) => line.startsWith('{"level":"warn"'));
      expect(warnings).toEqual([
        expect.stringContaining("SAGA_INSECURE is on: anyone who can reach this service at 0.0.0.0"),
      ]);
      const cluster = (await (await fetch(`${service.url}/api/v1/cluster`)).json()) as { access: string };
      expect(cluster.access).toBe("off");
      expect(await service.stop()).toBe(0);
    },
  );

  it("with access on stores the definitions of its folder as the platform: one whose name a tenant has taken ends it", async () => {
    const own = await createTestDatabase({ max: 1 });
    const folder = mkdtempSync(join(tmpdir(), "saga-definitions-"));
    onTestFinished(async () => {
      rmSync(folder, { recursive: true });
      await own.drop();
    });
    const env = { DATABASE_URL: own.url, SAGA_WORKERS: "1", SAGA_AUTH: "api_key" };
    const service = await (await createService(env)).start();
    const grant = { name: "admin", roles: ["admin"] as const, tenantId: "0190a000-0000-7000-8000-0000000000f1" };
    const { key } = await makeApiKey(own.sql, ANYONE, grant, { now: Date.now() });
    const document = { id: "taken", name: "taken", start: "a", published: true, steps: [{ id: "a", type: "noop" }] };
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const posted = { method: "POST", headers, body: JSON.stringify(document) };
    expect((await fetch(`${service.url}/api/v1/workflows`, posted)).status).toBe(201);
    await service.stop();
    writeFileSync(join(folder, "taken.workflow.json"), JSON.stringify({ ...document, name: "of the platform" }));
    const next = await createService({ ...env, SAGA_DEFINITIONS_DIR: folder });
    await next.start({ ready: false });
    expect(await next.exit()).toBe(1);
    expect(next.log.join("\n")).toContain("taken is taken");
  });

  it.each(["1", "2"])("with %s node(s) on a database of an unpublished build ends with one sentence", async (nodes) => {
    const unpublished = await createTestDatabase({ max: 1, migrated: false });
    await unpublished.sql.unsafe(`create schema drizzle;
      create table drizzle.__drizzle_migrations (id serial primary key, hash text not null, created_at bigint);
      insert into drizzle.__drizzle_migrations (hash, created_at) values ('unpublished', 1795237394586)`);
    const service = await createService({ DATABASE_URL: unpublished.url, SAGA_WORKERS: nodes });
    await service.start({ ready: false });
    expect(await service.exit()).toBe(1);
    expect(service.log.filter((line) => !line.startsWith("{"))).toEqual([
      "The database was made by an unpublished build of this service, which no release can read: start with an empty one. Nothing in it was changed",
    ]);
    await unpublished.drop();
  });

  it.each(["1", "2"])(
    "with %s node(s) waits for free sessions of Postgres, says so, and then serves",
    async (nodes) => {
      const few = await createTestDatabase({ max: 1, migrated: false });
      const [{ name }] = (await few.sql`select current_database() as name`) as unknown as [{ name: string }];
      const role = `few_${name}`;
      await few.sql.unsafe(
        `create role "${role}" login password 'few' connection limit 2; alter database "${name}" owner to "${role}"`,
      );
      const url = new URL(few.url);
      Object.assign(url, { username: role, password: "few" });
      const service = await createService({ DATABASE_URL: url.href, SAGA_WORKERS: nodes });
      try {
        await service.start({ ready: false });
        const waits = "Postgres went away during the";
        await until(() => service.log.some((line) => line.includes(waits)), { what: "a start that waits" });
        await few.sql.unsafe(`alter role "${role}" connection limit -1`);
        const answers = () => fetch(`${service.url}/readyz`).catch(() => undefined);
        await until(async () => (await answers())?.ok, { what: "a service that is ready" });
      } finally {
        await service.kill();
        await few.sql.unsafe(
          `reassign owned by "${role}" to current_user; drop owned by "${role}"; drop role "${role}"`,
        );
        await few.drop();
      }
    },
  );

  it.each(["1", "2"])("with %s node(s) waits for Postgres, says so, and then serves", async (nodes) => {
    const [port] = await freePorts(1);
    const { hosts = ["127.0.0.1"], ports = [5432] } = parseDatabaseUrl(database.url);
    const url = new URL(database.url);
    url.hostname = "127.0.0.1";
    url.port = String(port);
    const service = await createService({ DATABASE_URL: url.href, SAGA_WORKERS: nodes });
    await service.start({ ready: false });
    await until(() => service.log.some((line) => line.includes("the start waits for it")), {
      what: "a line that says so",
    });
    expect(service.log.join("\n")).not.toContain("    at ");
    await listen(port as number, (client) => {
      const behind = connect(ports[0] as number, hosts[0] as string);
      client.pipe(behind).pipe(client);
      for (const socket of [client, behind]) socket.on("error", () => [client, behind].map((each) => each.destroy()));
    });
    await service.waitUntilReady();
    expect(await service.stop()).toBe(0);
  });

  it("whose log cannot be written serves all the same", async () => {
    const [http, grpc] = await freePorts(2);
    const full = openSync("/dev/full", "w");
    const child = spawn(process.execPath, [join(packageRoot(), "dist", "service", "main.js")], {
      env: {
        ...{ PATH: process.env.PATH, DATABASE_URL: database.url, SAGA_WORKERS: "1", LOG_LEVEL: "debug" },
        ...{ HTTP_PORT: String(http), GRPC_PORT: String(grpc) },
      },
      stdio: ["ignore", full, "ignore"],
    });
    try {
      const metric = async () => (await fetch(`http://127.0.0.1:${http}/metrics`)).text();
      await until(async () => /^saga_log_lines_lost_total [1-9]/m.test(await metric()), { what: "lost lines" });
      expect((await fetch(`http://127.0.0.1:${http}/healthz`)).status).toBe(200);
    } finally {
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGTERM");
      expect(await ended).toBe(0);
    }
  });
});
