// What begins at a node stays at it, and a worker serves all nodes with one credit. Two nodes of one service; every request goes over a
// new connection, so that the nodes get them in turns.
// @module-tag long
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { asRunId } from "../../machines/index.js";
import { shardOf } from "../../src/ids.js";
import { createWorker, type Worker } from "../../src/sdk/worker/index.js";
import { ownerOf } from "../../src/shard/placement.js";
import { credential, workerToken } from "../harness/access.js";
import { handleAll } from "../harness/actions.js";
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
    headers: { ...credential(), "content-type": "application/json", connection: "close", ...headers },
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

const CREDIT = 4;

/** Holds every step until it may answer. */
class Slow {
  private readonly held: (() => void)[] = [];
  private executing = 0;
  most = 0;
  executed = 0;
  private answering = true;

  async execute(): Promise<object> {
    this.executing++;
    this.executed++;
    this.most = Math.max(this.most, this.executing);
    if (!this.answering) await new Promise<void>((resolve) => this.held.push(resolve));
    this.executing--;
    return {};
  }

  hold(): void {
    [this.answering, this.most] = [false, 0];
  }

  /** How many are held. */
  get waiting(): number {
    return this.held.length;
  }

  letGo(): void {
    this.answering = true;
    for (const answer of this.held.splice(0)) answer();
  }
}

describe("a worker", () => {
  const slow = new Slow();
  let worker: Worker;
  beforeAll(async () => {
    worker = createWorker({
      ...workerToken(),
      ...{ service: "shop", grpc: service.grpcAddress, api: service.url, maxInFlight: CREDIT },
      log: { debug() {}, info() {}, warn() {}, error() {} },
    });
    handleAll(worker, "shop", [{ name: "pack", execute: () => slow.execute() }]);
    await worker.start();
    const steps = [{ id: "a", type: "action", action: "shop.pack" }];
    await post("/api/v1/workflows", { id: "packed", name: "packed", start: "a", steps, published: true });
  });
  afterAll(() => worker.stop());

  /** The credit that each node has of it. */
  async function credits(): Promise<Readonly<Record<string, number>>> {
    const { items } = JSON.parse((await request(`${service.url}/api/v1/workers`)).text) as {
      items: { node_id: string; max_in_flight: number }[];
    };
    return Object.fromEntries(items.map(({ node_id: nodeId, max_in_flight: credit }) => [nodeId, credit]));
  }

  /** Its credit is divided among the nodes that live. */
  async function shared(): Promise<void> {
    const wanted = () => Object.fromEntries(livingNodes(service).map(({ nodeId }) => [nodeId, CREDIT / 2]));
    const isShared = async () => {
      const seen = Object.entries(await credits()).sort();
      return seen.length === 2 && JSON.stringify(seen) === JSON.stringify(Object.entries(wanted()).sort());
    };
    await until(isShared, { what: "a share of the credit at each of two nodes" });
  }

  async function startWaiting(bodyOf: () => object = () => ({})): Promise<readonly string[]> {
    const started = Array.from({ length: STARTS }, () =>
      post("/api/v1/sagas/start", { workflow_id: "packed", ...bodyOf() }),
    );
    return (await Promise.all(started)).map(({ run_id: id }) => id);
  }

  async function ended(runIds: readonly string[]): Promise<void> {
    for (const id of runIds) {
      const { text } = await request(`${service.url}/api/v1/sagas/${id}?wait_ms=30000`);
      expect(JSON.parse(text)).toMatchObject({ state: "succeeded" });
    }
  }

  /** All of its credit is used, and never more, whichever nodes own the runs. */
  async function filled(bodyOf?: () => object): Promise<void> {
    const before = slow.executed;
    slow.hold();
    const runIds = await startWaiting(bodyOf);
    await until(() => slow.waiting === CREDIT, { what: "a step for each credit" });
    slow.letGo();
    await ended(runIds);
    expect(slow.most).toBe(CREDIT);
    expect(slow.executed - before).toBe(STARTS);
  }

  it("executes no more than its credit, of which each node has a share", async () => {
    await shared();
    await filled();
  });

  it("gives the share of a node without runs to the node that has them", async () => {
    const nodeIds = livingNodes(service).map(({ nodeId }) => nodeId);
    const [busy] = nodeIds;
    const ids = Array.from({ length: 1_000 }, () => newRunId()).filter((id) => ownerOf(shardOf(id), nodeIds) === busy);
    await filled(() => ({ run_id: ids.pop() }));
  });

  it("is met by a node that takes the place of another, and has the same credit there", async () => {
    const [victim] = livingNodes(service);
    process.kill(victim?.pid ?? 0, "SIGKILL");
    const replaced = () => {
      const living = livingNodes(service).map(({ nodeId }) => nodeId);
      return living.length === 2 && !living.includes(victim?.nodeId ?? "");
    };
    await until(replaced, { what: "a successor" });
    await shared();
    await filled();
  });
});
