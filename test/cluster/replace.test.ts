// SIGHUP: all nodes are replaced one by one, while requests come in.
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { lives, livingNodes, logged, request } from "./rig.js";

const BETWEEN_REQUESTS_MS = 10;

let database: TestDatabase;
let service: ServiceProcess;
beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
  service = await (await createService({ DATABASE_URL: database.url, SAGA_WORKERS: "2" })).start();
  await until(() => logged(service, "ready").length > 0);
});
afterAll(async () => {
  await service.stop();
  await database.drop();
});

/** Sends one request after the other until it is stopped; returns the failures. */
function askOnAndOn(path: string): { count: number; end(): Promise<string[]> } {
  const failures: string[] = [];
  let going = true;
  const stream = { count: 0, end };
  const asking = (async () => {
    while (going) {
      const outcome = await request(`${service.url}${path}`).then(
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

describe("SIGHUP", () => {
  it("replaces every node, and no request fails except with 503", async () => {
    const before = livingNodes(service);
    const streams = [askOnAndOn("/api/v1/sagas"), askOnAndOn("/readyz"), askOnAndOn("/metrics")];
    process.kill(service.pid, "SIGHUP");
    let fewest = 2;
    await until(
      () => {
        fewest = Math.min(fewest, livingNodes(service).length);
        return logged(service, "all nodes replaced").length === 1;
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
    const rows = await database.sql<{ node_id: string }[]>`select node_id from nodes order by node_id`;
    expect(rows.map(({ node_id }) => node_id)).toEqual(after.map(({ nodeId }) => nodeId).sort());
    expect(logged(service, "node died, starting another")).toEqual([]);
  });
});
