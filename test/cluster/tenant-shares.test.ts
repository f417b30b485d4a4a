// Shares of tenants, with access on: two tenants queue calls for one worker of the platform, which takes one at a time, and the file of shares says
// how many turns in a row each has.
// @module-tag long
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createWorker } from "../../src/sdk/worker/index.js";
import { handleAll } from "../harness/actions.js";
import { createTestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { newKeyIn, OTHER, type Rights, TENANT } from "./access-rig.js";
import { silentWorker } from "./canary-rig.js";
import { livingNodes } from "./rig.js";

const BACKLOG = 40;
/** Whole cycles of turns while both have calls waiting. */
const WINDOW = 40;
const SHARES = { "*": 1, [TENANT]: 3 };

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "saga-shares-"));
  writeFileSync(join(folder, "shares.json"), JSON.stringify(SHARES));
});
afterAll(() => rmSync(folder, { recursive: true }));

async function ask<T>(service: ServiceProcess, key: string, path: string, body?: object): Promise<T> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const answer = await fetch(`${service.url}/api/v1${path}`, {
    ...{ headers, ...(body && { method: "POST", body: JSON.stringify(body) }) },
  });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as T;
}

describe.each([1, 3])("two tenants whose calls wait for one worker, at %i node(s),", (nodes) => {
  it("have their turns by the file of shares, and one that waits alone has all", async () => {
    const database = await createTestDatabase({ max: 2 });
    const key = (rights: Rights) => newKeyIn(database, rights);
    const [platform, theirs, others, token] = [
      await key({ roles: ["admin", "platform"] }),
      await key({ roles: ["admin"], tenantId: TENANT }),
      await key({ roles: ["admin"], tenantId: OTHER }),
      await key({ roles: ["worker", "platform"], services: ["*"] }),
    ];
    const service = await createService({
      ...{ DATABASE_URL: database.url, SAGA_WORKERS: String(nodes), SAGA_AUTH: "api_key" },
      SAGA_TENANT_SHARES_FILE: join(folder, "shares.json"),
    });
    await service.start();
    if (nodes > 1) await until(() => livingNodes(service).length === nodes, { what: "all nodes" });
    const served: string[] = [];
    let letGo = () => {};
    const held = new Promise<void>((resolve) => (letGo = resolve));
    const worker = createWorker({
      ...{ service: "line", grpc: service.grpcAddress, api: service.url, token, log: silentWorker, maxInFlight: 1 },
    });
    const execute = async ({ of }: { of?: unknown }) => {
      if (of === "first") await held;
      served.push(String(of));
      return {};
    };
    handleAll(worker, "line", [{ name: "serve", timeoutMs: 600_000, execute }]);
    await worker.start();
    try {
      const step = { id: "call", type: "action", action: "line.serve", inputs: { of: "${inputs.of}" } };
      const document = { id: "call", name: "call", start: "call", steps: [step], published: true };
      await ask(service, platform, "/workflows", document);
      const start = (bearer: string, of: string) =>
        ask(service, bearer, "/sagas/start", { workflow_id: "call", inputs: { of } });
      const queued = async (count: number) => {
        const [row] = await database.sql<[{ waiting: number; given: number }]>`
          select count(*) filter (where record -> 'wait' ->> 'kind' = 'queued')::int as waiting,
            count(*) filter (where record -> 'wait' ->> 'kind' = 'dispatched')::int as given from runs`;
        return row.given === 1 && row.waiting === count;
      };
      await start(theirs, "first");
      await until(() => queued(0), { what: "the call that the worker holds" });
      for (let count = 0; count < BACKLOG; count++)
        await Promise.all([start(theirs, "three turns"), start(others, "one turn")]);
      await until(() => queued(2 * BACKLOG), { what: "the queued calls" });
      letGo();
      await until(() => served.length === 2 * BACKLOG + 1, { what: "all calls" });
      const window = served.slice(1, WINDOW + 1);
      const more = window.filter((of) => of === "three turns").length;
      console.info(`${nodes} node(s): of ${WINDOW} turns the tenant with three had ${more}`);
      if (nodes === 1) expect(more).toBe(30);
      else {
        // The node of the worker knows of calls at other nodes what they last announced, and the worker moves its credit every second: some turns are
        // given without them.
        expect(more).toBeGreaterThan(WINDOW / 2);
        expect(more).toBeLessThanOrEqual(WINDOW - 4);
      }
      // One of them has no call left: the other has the worker alone.
      expect(new Set(served.slice(-20))).toEqual(new Set(["one turn"]));
    } finally {
      await worker.stop();
      await service.stop();
      await database.drop();
    }
  });
});
