// A service with two nodes as real processes: their shared ports and metrics, the replacement of a dead one, and the shutdown.
// @module-tag both
import { setTimeout as delay, setImmediate as turn } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { credential } from "../harness/access.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { lives, livingNodes, logged, nodeOfStream, primaryLogs, request, runService, sampled } from "./rig.js";

/** The rhythm of a client that asks on and on. */
const BETWEEN_REQUESTS_MS = 50;

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
});
const services: ServiceProcess[] = [];
afterAll(async () => {
  // Processes that a failed test has left behind.
  for (const service of services) await service.kill();
  await database.drop();
});

async function twoNodes(env: Readonly<Record<string, string>> = {}): Promise<ServiceProcess> {
  const service = await createService({ DATABASE_URL: database.url, SAGA_WORKERS: "2", ...env });
  services.push(service);
  return service;
}

const isReady = (service: ServiceProcess) => until(() => logged(service, "ready").length > 0);

async function rows(): Promise<string[]> {
  const found = await database.sql<{ node_id: string }[]>`select node_id from nodes order by node_id`;
  return found.map(({ node_id }) => node_id);
}

/** Over a new connection, which may reach any node. */
async function post({ url }: ServiceProcess, path: string, body: object) {
  const headers = { ...credential(), "content-type": "application/json", connection: "close" };
  const response = await fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  return { status: response.status, body: (await response.json()) as { version?: number } };
}

async function answers(service: ServiceProcess): Promise<boolean> {
  return (await request(`${service.url}/readyz`, 1_000)).status === 200;
}

/** How many nodes live. The line that says that a successor serves may still be in the pipe: then a few turns of the loop read it. */
async function countNodes(service: ServiceProcess): Promise<number> {
  for (let turns = 0; turns < 10 && livingNodes(service).length < 2; turns++) await turn();
  return livingNodes(service).length;
}

/** Sends one request after the other until it is stopped; returns the failures. */
function askOnAndOn(url: string): { count: number; end(): Promise<string[]> } {
  const failures: string[] = [];
  let going = true;
  const stream = { count: 0, end };
  const asking = (async () => {
    while (going) {
      const outcome = await request(url).then(
        ({ status }) => String(status),
        (error: NodeJS.ErrnoException) => error.code ?? error.message,
      );
      stream.count++;
      await delay(BETWEEN_REQUESTS_MS);
      if (!["200", "503"].includes(outcome)) failures.push(outcome);
    }
    return failures;
  })();
  async function end() {
    going = false;
    return asking;
  }
  return stream;
}

describe("two nodes of one primary", () => {
  let service: ServiceProcess;
  beforeAll(async () => {
    service = await (await twoNodes()).start();
    await isReady(service);
  });
  afterAll(() => service.stop());

  it("find the files that the documentation page consists of", { tags: "short" }, async () => {
    const { status, text } = await request(`${service.url}/docs/static/swagger-ui.css`);
    expect({ status, isStyle: text.includes(".swagger-ui") }).toEqual({ status: 200, isStyle: true });
  });

  it("start the latest published version on either node, from the first request on", { tags: "short" }, async () => {
    const workflow = { id: "last", start: "a", steps: [{ id: "a", type: "noop" }], published: true };
    const published = async (name: string) =>
      expect((await post(service, "/api/v1/workflows", { ...workflow, name })).status).toBe(201);
    const versions = async () => {
      const ask = () => post(service, "/api/v1/sagas/start", { workflow_id: "last" });
      const answers = await Promise.all(Array.from({ length: 12 }, ask));
      return new Set(answers.map(({ body }) => body.version));
    };
    for (const version of [1, 2, 3]) {
      await published(`version ${version}`);
      expect(await versions()).toEqual(new Set([version]));
    }
  });

  it("are reported ready once, together, and are both members", async () => {
    expect(logged(service, "ready").map(({ pid }) => pid)).toEqual([service.pid]);
    const nodes = livingNodes(service);
    expect(new Set(nodes.map(({ pid }) => pid)).size).toBe(2);
    expect(await rows()).toEqual(nodes.map(({ nodeId }) => nodeId).sort());
  });

  const countOfProbes = async () => {
    const { status, text } = await request(`${service.url}/metrics`);
    expect(status).toBe(200);
    return sampled(text, "saga_http_request_seconds_count", 'route="/healthz"');
  };

  it("add up their counts on every page", { tags: "short" }, async () => {
    const requests = 30;
    for (let sent = 0; sent < requests; sent++) await request(`${service.url}/healthz`);
    for (let page = 0; page < 4; page++) expect(await countOfProbes()).toBe(requests);
  });

  it("both take worker streams on one port", { tags: "short" }, async () => {
    const ids = new Set<string>();
    await until(async () => ids.add(await nodeOfStream(service.grpcAddress)).size === 2);
    expect([...ids].sort()).toEqual(await rows());
  });

  it("each serve alone when the other is killed, and the row of the dead node is deleted at once", {
    tags: "short",
  }, async () => {
    const [victim, other] = livingNodes(service);
    if (!victim || !other) throw new Error("there are not two nodes");
    const counted = await countOfProbes();
    process.kill(victim.pid, "SIGKILL");
    await until(async () => !(await rows()).includes(victim.nodeId));
    expect(await until(() => answers(service))).toBe(true);
    await until(() => !lives(victim.pid) && livingNodes(service).length === 2);
    const members = await rows();
    expect(members).toHaveLength(2);
    expect(members).toContain(other.nodeId);
    const died = logged(service, "node died, starting another");
    expect(died.map(({ signal }) => signal)).toEqual(["SIGKILL"]);
    // Sums that fall look as if all that is left had been counted just now.
    expect(await countOfProbes()).toBe(counted);
  });

  it("close a connection that was on its way to a node that died", { tags: "long" }, async () => {
    const [frozen] = livingNodes(service);
    process.kill(frozen?.pid ?? 0, "SIGSTOP");
    const sent = performance.now();
    // Nodes get connections in turn: the frozen one is handed a connection that it never takes.
    const outcomes = Array.from({ length: 4 }, () =>
      request(`${service.url}/healthz`, 30_000).then(
        ({ status }) => status,
        (error: NodeJS.ErrnoException) => error.code,
      ),
    );
    let answered = 0;
    for (const outcome of outcomes) void outcome.then(() => answered++);
    await until(() => answered === 3);
    process.kill(frozen?.pid ?? 0, "SIGKILL");
    expect((await Promise.all(outcomes)).map(String).sort()).toEqual(["200", "200", "200", "ECONNRESET"]);
    expect(performance.now() - sent).toBeLessThan(15_000);
    await until(() => livingNodes(service).length === 2);
  });

  it("are started again after longer pauses the sooner they die", { tags: "long" }, async () => {
    const before = logged(service, "node died, starting another").length;
    // Always the newest node, so that none of them lives for long.
    for (let kill = 0; kill < 2; kill++) {
      process.kill(livingNodes(service).at(-1)?.pid ?? 0, "SIGKILL");
      await until(() => logged(service, "node died, starting another").length === before + kill + 1);
      await until(() => livingNodes(service).length === 2);
    }
    const [first = 0, second = 0] = logged(service, "node died, starting another")
      .slice(before)
      .map(({ pause }) => pause ?? 0);
    // Each is between half and all of a time that doubles.
    expect(second).toBeGreaterThanOrEqual(first);
  });

  it("SIGTERM to one node stops it in order, and it is replaced", { tags: "long" }, async () => {
    const [one] = livingNodes(service);
    process.kill(one?.pid ?? 0, "SIGTERM");
    await until(() => !lives(one?.pid ?? 0));
    await until(() => livingNodes(service).length === 2);
    expect(await rows()).not.toContain(one?.nodeId);
  });

  it("an unresponsive one is killed and replaced; the other one is left alone", {
    tags: "long",
    timeout: 100_000,
  }, async () => {
    const [stuck, other] = livingNodes(service);
    process.kill(stuck?.pid ?? 0, "SIGSTOP");
    await until(() => !lives(stuck?.pid ?? 0));
    await until(() => livingNodes(service).length === 2);
    expect(new Set(logged(service, "node unresponsive, killed").map(({ node }) => node))).toEqual(
      new Set([stuck?.pid]),
    );
    expect(lives(other?.pid ?? 0)).toBe(true);
  });

  it("are replaced one by one at SIGHUP, and no request fails except with 503", { tags: "long" }, async () => {
    const before = livingNodes(service);
    const died = logged(service, "node died, starting another").length;
    const streams = ["/api/v1/sagas", "/readyz", "/metrics"].map((path) => askOnAndOn(`${service.url}${path}`));
    const since = new Date();
    process.kill(service.pid, "SIGHUP");
    const replaced = primaryLogs(service, "all nodes replaced", since);
    let fewest = 2;
    await until(
      async () => {
        fewest = Math.min(fewest, await countNodes(service));
        return replaced();
      },
      { within: 60_000 },
    );
    for (const stream of streams) {
      const asked = stream.count;
      await until(() => stream.count > asked);
      expect(await stream.end()).toEqual([]);
    }
    // The successor serves before the old node stops.
    expect(fewest).toBe(2);
    const after = livingNodes(service);
    expect(after).toHaveLength(2);
    expect(before.filter(({ pid }) => lives(pid))).toEqual([]);
    expect(await rows()).toEqual(after.map(({ nodeId }) => nodeId).sort());
    expect(logged(service, "node died, starting another")).toHaveLength(died);
  });

  it("SIGTERM to the primary stops everything in order", async () => {
    const nodes = livingNodes(service);
    const died = logged(service, "node died, starting another").length;
    expect(await service.stop()).toBe(0);
    expect(nodes.filter(({ pid }) => lives(pid))).toEqual([]);
    expect(await rows()).toEqual([]);
    expect(logged(service, "node died, starting another")).toHaveLength(died);
  });
});

describe("a start", { tags: "long" }, () => {
  it("is ended by SIGTERM, and leaves nothing", async () => {
    const service = await (await twoNodes()).start({ ready: false });
    await until(() => livingNodes(service).length === 1);
    const [node] = livingNodes(service);
    expect(await service.stop()).toBe(0);
    expect(lives(node?.pid ?? 0)).toBe(false);
    expect(logged(service, "ready")).toEqual([]);
    await until(async () => (await rows()).length === 0);
  });

  it("that cannot succeed reports its reason once, fails, and leaves nothing", async () => {
    const env = { SAGA_DEFINITIONS_DIR: "/nowhere/to/be/found", HTTP_PORT: "0", GRPC_PORT: "0" };
    const { code, lines } = await runService({ DATABASE_URL: database.url, SAGA_WORKERS: "2", ...env });
    expect(code).toBe(1);
    expect(lines.filter((line) => line.includes("/nowhere/to/be/found"))).toHaveLength(1);
    expect(lines.filter((line) => line.includes("A node process did not start"))).toHaveLength(1);
  });
});

describe("two nodes on ports that are not chosen", { tags: "long" }, () => {
  let service: ServiceProcess;
  beforeAll(async () => {
    service = await (await twoNodes({ HTTP_PORT: "0", GRPC_PORT: "0" })).start({ ready: false });
    await isReady(service);
  });

  it("share one for HTTP and one for gRPC, and their successors keep them", async () => {
    const { http = 0, grpc = 0 } = logged(service, "ready")[0] ?? {};
    expect(Math.min(http, grpc)).toBeGreaterThan(0);
    // Each node writes its own lines: the second one's may come after the primary's "ready".
    const listening = () => logged(service, "gRPC server listening").map(({ port }) => port);
    await until(() => listening().length === 2);
    expect(listening()).toEqual([grpc, grpc]);
    const members = await rows();
    const victims = livingNodes(service).slice(0, 1);
    for (const { pid } of victims) process.kill(pid, "SIGKILL");
    await until(() => logged(service, "node ready").length === 2 + victims.length);
    expect((await request(`http://127.0.0.1:${http}/readyz`)).status).toBe(200);
    const ids = new Set<string>();
    await until(async () => ids.add(await nodeOfStream(`127.0.0.1:${grpc}`)).size === 2);
    expect([...ids].filter((id) => members.includes(id))).toHaveLength(2 - victims.length);
  });

  it("stop in order by themselves when their primary is killed", async () => {
    const nodes = livingNodes(service);
    expect(nodes).toHaveLength(2);
    await service.kill("primary");
    await until(() => nodes.every(({ pid }) => !lives(pid)));
    // A node that stops in order deletes its row before the row could become stale.
    expect(await rows()).toEqual([]);
  });
});
