// What begins at a node stays at it. Two nodes of one service; every request goes over a new connection, so that the nodes get them in
// turns.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { asRunId } from "../../machines/index.js";
import { shardOf } from "../../src/ids.js";
import { ownerOf } from "../../src/shard/placement.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { newRunId } from "../harness/ids.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { livingNodes, request, sampled } from "./rig.js";

const STARTS = 24;

let database: TestDatabase;
let service: ServiceProcess;
beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
  service = await (await createService({ DATABASE_URL: database.url, SAGA_WORKERS: "2" })).start();
  const bothPlaced = () => service.log.filter((line) => line.includes('"nodes":2')).length >= 2;
  await until(bothPlaced, { what: "two nodes that know of each other" });
  const steps = [{ id: "a", type: "noop" }];
  await post("/api/v1/workflows", { id: "brief", name: "brief", start: "a", steps, published: true });
});
afterAll(async () => {
  await service.stop();
  await database.drop();
});

interface Started {
  readonly run_id: string;
  readonly state: string;
  readonly deduplicated: boolean;
}

async function post(path: string, body: object, headers: Readonly<Record<string, string>> = {}): Promise<Started> {
  const response = await fetch(`${service.url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", connection: "close", ...headers },
    body: JSON.stringify(body),
  });
  expect(response.ok).toBe(true);
  return (await response.json()) as Started;
}

/** Each waits for the end of its run. */
async function startMany(bodyOf: () => object = () => ({})): Promise<readonly Started[]> {
  const started: Started[] = [];
  for (let nth = 0; nth < STARTS; nth++)
    started.push(await post("/api/v1/sagas/start?wait_ms=30000", { workflow_id: "brief", ...bodyOf() }));
  expect(started.map(({ state }) => state)).toEqual(Array(STARTS).fill("succeeded"));
  return started;
}

/** Messages between the nodes on behalf of runs. */
async function relayed(): Promise<number> {
  return sampled((await request(`${service.url}/metrics`)).text, "saga_relayed_total");
}

function owners(runs: readonly Started[]): ReadonlySet<string | undefined> {
  const nodeIds = livingNodes(service).map(({ nodeId }) => nodeId);
  return new Set(runs.map(({ run_id: id }) => ownerOf(shardOf(asRunId(id)), nodeIds)));
}

describe("a start", () => {
  it("without an id is a run of the node that it reached: the nodes have nothing to say to each other", async () => {
    const before = await relayed();
    const runs = await startMany();
    expect(owners(runs).size).toBe(2);
    expect(await relayed()).toBe(before);
  });

  it("with an id of the client's is the owner's, whichever node it reached", async () => {
    const before = await relayed();
    const runs = await startMany(() => ({ run_id: newRunId() }));
    expect(owners(runs).size).toBe(2);
    expect(await relayed()).toBeGreaterThan(before);
  });

  it("that is repeated under its key at another node gets the first run", async () => {
    const start = { workflow_id: "brief", idempotency_key: "order-7" };
    const answers = await Promise.all(Array.from({ length: 6 }, () => post("/api/v1/sagas/start", start)));
    for (let nth = 0; nth < 4; nth++)
      answers.push(
        await post("/api/v1/sagas/start", { workflow_id: "brief" }, { "Idempotency-Key": start.idempotency_key }),
      );
    expect(new Set(answers.map(({ run_id: id }) => id)).size).toBe(1);
    expect(answers.filter(({ deduplicated }) => !deduplicated)).toHaveLength(1);
  });
});
