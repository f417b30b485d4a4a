// SIGHUP under load: all nodes are replaced one by one while orders come in, workers work and clients ask. No answer is worse than
// a 503 that can be repeated, and no order is lost.
// @module-tag long
// @access both
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { livingNodes, logged, primaryLogs } from "../cluster/rig.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { nothingUnwatched, report } from "../run/seen.js";
import { type Answer, Client } from "./client.js";
import { Load } from "./load.js";
import { openShop, type Shop } from "./shop.js";

/** Records the outcome of every single request, repeated ones included. */
class WatchfulClient extends Client {
  readonly statuses = new Map<number, number>();
  readonly broken: string[] = [];

  override async ask(method: "GET" | "POST", path: string, body?: unknown): Promise<Answer> {
    try {
      const answer = await super.ask(method, path, body);
      this.statuses.set(answer.status, (this.statuses.get(answer.status) ?? 0) + 1);
      return answer;
    } catch (error) {
      const { message, cause } = error as Error;
      this.broken.push(`${method} ${path}: ${message} ${cause ? String(cause) : ""}`);
      throw error;
    }
  }
}

let database: TestDatabase;
let service: ServiceProcess;
let shop: Shop;

beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
  service = await (await createService({ DATABASE_URL: database.url, SAGA_WORKERS: "2" })).start();
  await until(() => livingNodes(service).length === 2);
  shop = await openShop({ grpc: service.grpcAddress, api: service.url });
});
afterAll(async () => {
  await shop.stop();
  await service.stop();
  await database.drop();
});

const countRuns = async (): Promise<number> => {
  const [row] = await database.sql`select count(*)::int as count from runs`;
  return row?.count;
};

describe("a rolling restart under load", () => {
  it("fails no request except with a repeatable 503, loses no run, and brings all to their expected ends", async () => {
    const client = new WatchfulClient(service.url);
    // A second try is on the same service and the same database.
    const before = livingNodes(service).map(({ pid }) => pid);
    const died = logged(service, "node died, starting another").length;
    const runsBefore = await countRuns();
    const load = new Load([client], [shop]);
    onTestFinished(() => load.end());
    await load.begin({ atOnce: 4 });
    await load.more(10);
    const began = performance.now();
    const since = new Date();
    process.kill(service.pid, "SIGHUP");
    await until(primaryLogs(service, "all nodes replaced", since), { within: 90_000, what: "the new nodes" });
    const replacedMs = performance.now() - began;
    await load.more(10);
    const seen = await load.finish();
    report({
      runs: seen.length,
      replacedMs,
      statuses: Object.fromEntries(client.statuses),
      broken: client.broken.length,
    });
    expect(client.broken.join("\n")).toBe("");
    const worse = [...client.statuses.keys()].filter((status) => status >= 500 && status !== 503);
    expect(worse).toEqual([]);
    expect(livingNodes(service).filter(({ pid }) => before.includes(pid))).toEqual([]);
    expect(logged(service, "node died, starting another")).toHaveLength(died);
    expect((await countRuns()) - runsBefore).toBe(seen.length);
    await nothingUnwatched(database.sql);
  }, 180_000);
});
