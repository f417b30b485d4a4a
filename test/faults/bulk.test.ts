// Bulk jobs on a service of three node processes, of which the one that drives the job is killed (SIGKILL), twice. 3,000 runs stand at an incident
// because their worker was broken; it is repaired, and the runs are retried in bulk: each exactly once, and counted exactly.
// @module-tag alone
import { afterAll, beforeAll, expect, it } from "vitest";
import { shardOf } from "../../src/ids.js";
import { ActionError, createWorker, type Worker } from "../../src/sdk/worker/index.js";
import { ownerOf } from "../../src/shard/placement.js";
import { livingNodes } from "../cluster/rig.js";
import { workerToken } from "../harness/access.js";
import { type Action, handleAll } from "../harness/actions.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import type { Step } from "../run/rig.js";
import { nothingUnwatched, report } from "../run/seen.js";
import { Client } from "./client.js";

const NODES = 3;
const RUNS = 3_000;
const PER_SECOND = 400;
/** The driver is killed when so many are done. */
const KILLS_AT = [500, 1_600];
const STARTERS = 30;
/** For one fact: a busy machine takes ten times as long as a quiet one. */
const PATIENCE_MS = 120_000;
const silent = { debug() {}, info() {}, warn() {}, error() {} };

let database: TestDatabase;
let service: ServiceProcess;
let client: Client;
let worker: Worker;
let broken = true;

const charge: Action = {
  name: "charge",
  execute(_input, { idempotencyKey }) {
    if (broken) throw new ActionError("out_of_order", "the card reader is broken", { retryable: false });
    return { receipt: idempotencyKey };
  },
};

beforeAll(async () => {
  database = await createTestDatabase({ max: 3 });
  const env = { SAGA_WORKERS: String(NODES), SAGA_BULK_PER_SECOND: String(PER_SECOND) };
  service = await createService({ DATABASE_URL: database.url, ...env });
  await service.start({ within: 60_000 });
  await until(() => livingNodes(service).length === NODES, { what: "all nodes" });
  client = new Client(service.url);
  const timing = { resendMs: 100, backoffMs: 50, backoffMaxMs: 500, abortGraceMs: 100, lookAgainMs: 1_000 };
  worker = createWorker({
    ...workerToken(),
    ...{ service: "till", grpc: service.grpcAddress, api: service.url, log: silent, timing, maxInFlight: 256 },
  });
  handleAll(worker, "till", [charge]);
  await worker.start();
  await client.publish("paid", [{ id: "pay", type: "action", action: "till.charge" }], { on_failure: "incident" });
  await client.publish("starter", spawning());
}, 120_000);
afterAll(async () => {
  await worker?.stop();
  await service?.stop();
  await database?.drop();
});

/** Runs that start the others: a request for each of those would take longer than what the test is about. */
const spawning = (): readonly Step[] => [
  { id: "each", type: "while", condition: `iteration < ${RUNS / STARTERS}`, body: "spawn", keep_last: 1 },
  { id: "spawn", type: "spawn_saga", workflow_id: "paid" },
];

async function count(where: string): Promise<number> {
  const [row] = await database.sql.unsafe<{ count: number }[]>(`select count(*)::int as count from ${where}`);
  return row?.count ?? 0;
}

const untilCount = (where: string, wanted: number) =>
  until(async () => (await count(where)) === wanted, { within: PATIENCE_MS, what: `${wanted} of ${where}` });

const atIncidents = "runs where paused_reason = 'incident'";
const retries = "run_events where event_type = 'log' and metadata->>'kind' = 'retry_step'";

/** The node that the job belongs to, as all nodes see it. */
const driverOf = (bulkId: string) =>
  ownerOf(
    shardOf(bulkId),
    livingNodes(service).map(({ nodeId }) => nodeId),
  );

async function killDriver(bulkId: string): Promise<void> {
  const driver = driverOf(bulkId);
  const victim = livingNodes(service).find(({ nodeId }) => nodeId === driver);
  if (victim) process.kill(victim.pid, "SIGKILL");
  expect(victim).toBeDefined();
}

const seconds = (from: number, to: number) => Math.round((to - from) / 100) / 10;

async function bulk(body: object): Promise<string> {
  const answer = await client.insist("POST", "/bulk", body);
  expect(answer.status).toBe(202);
  return answer.body.bulk_id;
}

const jobOf = async (id: string, query = "") => (await client.insist("GET", `/bulk/${id}${query}`)).body;

/**
 * A later job, driven to its end by the node that drove this one: the node has looked for running jobs again, and its acts begin in order, sixteen
 * at once, so those of the earlier job are over.
 */
async function laterJobOfDriver(earlier: string): Promise<void> {
  for (;;) {
    const id = await bulk({ filter: { workflow_id: "starter" }, action: "skip_step" });
    await until(async () => (await jobOf(id)).state === "done", {
      within: PATIENCE_MS,
      what: "the end of a later job",
    });
    if (driverOf(id) === driverOf(earlier)) return;
  }
}

it(
  "retries 3,000 runs in bulk, each once, though the node that drives it is killed twice",
  async () => {
    const began = performance.now();
    await Promise.all(Array.from({ length: STARTERS }, () => client.start("starter")));
    await untilCount(atIncidents, RUNS);
    broken = false;
    const ready = performance.now();
    const id = await bulk({ filter: { workflow_id: "paid" }, action: "retry_step" });
    const takeovers: number[] = [];
    for (const kill of KILLS_AT) {
      await until(async () => (await jobOf(id)).done >= kill, { within: PATIENCE_MS, pause: 20, what: `${kill} done` });
      await killDriver(id);
      const killed = performance.now();
      await until(async () => (await jobOf(id)).done > kill + PER_SECOND / 2, {
        within: PATIENCE_MS,
        pause: 20,
        what: "a takeover",
      });
      takeovers.push(seconds(killed, performance.now()));
    }
    const job = await until(
      async () => {
        const now = await jobOf(id, "?wait_ms=5000");
        return now.state === "done" && now;
      },
      { within: PATIENCE_MS, what: "the end of the job" },
    );
    const bulked = performance.now();
    expect(job).toMatchObject({ matched: RUNS, done: RUNS, refused: 0, refusals: [] });
    expect(await count(`bulk_targets where state = 'done'`)).toBe(RUNS);
    await untilCount("runs where workflow_id = 'paid' and state = 'succeeded'", RUNS);
    const each = await database.sql<{ acts: number; runs: number }[]>`
    select acts, count(*)::int as runs from (
      select count(*)::int as acts from run_events where event_type = 'log' and metadata->>'kind' = 'retry_step' group by run_id
    ) each group by acts`;
    expect([...each], "each run was retried exactly once").toEqual([{ acts: 1, runs: RUNS }]);
    await nothingUnwatched(database.sql);
    report({ runs: RUNS, takeovers, startS: seconds(began, ready), bulkS: seconds(ready, bulked) });
  },
  4 * PATIENCE_MS,
);

it(
  "lists what runs refuse, counts it exactly, and stops in the middle",
  async () => {
    const refused = await bulk({ filter: { workflow_id: "paid" }, action: "skip_step", limit: RUNS });
    await until(async () => (await jobOf(refused)).refused >= 200, {
      within: PATIENCE_MS,
      pause: 20,
      what: "refusals",
    });
    expect((await client.insist("POST", `/bulk/${refused}/stop`)).body).toMatchObject({
      state: "stopped",
      changed: true,
    });
    // What was on its way is counted: then nothing more is.
    await laterJobOfDriver(refused);
    const job = await jobOf(refused);
    expect(job).toMatchObject({ state: "stopped", matched: RUNS, done: 0 });
    expect(job.refusals).toHaveLength(100);
    expect(job.refusals[0]).toEqual({
      run_id: expect.any(String),
      message: "no step of the run stands at an incident",
    });
    expect(job.refused).toBeLessThan(RUNS);
    await laterJobOfDriver(refused);
    expect((await jobOf(refused)).refused, "a stopped job goes on with nothing").toBe(job.refused);
    expect(await count(`bulk_targets where bulk_id = '${refused}' and state = 'refused'`)).toBe(job.refused);
    expect(await count(retries)).toBe(RUNS);
  },
  PATIENCE_MS,
);
