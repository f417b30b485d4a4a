// The kill loop: four nodes, one of them killed every two seconds for two minutes, under load, with one poisonous run in the middle of
// it. Every acknowledged run ends right, and the poisonous one alone is quarantined.
import { request } from "node:http";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect } from "vitest";
import { packageRoot } from "../../src/package.js";
import { livingNodes, logged } from "../cluster/rig.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { describeLong, itLong } from "../harness/long.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { nothingUnwatched, report } from "../run/seen.js";
import { Client } from "./client.js";
import { openShop, type Shop } from "./shop.js";

const NODES = 4;
const LASTS_MS = 120_000;
const KILL_MS = 2_000;
const LEFT_ALIVE = 2;
const RUNS_PER_SECOND = 60;
/** Starts without an answer yet; more would only wait. */
const MOST_WAITING = 150;

let database: TestDatabase;
let service: ServiceProcess;
let client: Client;
let shop: Shop;

beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
  const NODE_OPTIONS = `--import=${join(packageRoot(), "test", "faults", "falls-dead.mjs")}`;
  service = await createService({ DATABASE_URL: database.url, SAGA_WORKERS: String(NODES), NODE_OPTIONS });
  await service.start({ within: 60_000 });
  await until(() => livingNodes(service).length === NODES, { within: 60_000 });
  client = new Client(service.url);
  shop = await openShop({ grpc: service.grpcAddress, api: service.url });
  const retry = { max_attempts: 20, initial_backoff_ms: 50, max_backoff_ms: 500 };
  const rest = [
    { id: "rest", type: "wait_duration", duration_ms: 200, next: "pay" },
    { id: "pay", type: "action", action: "shop.charge", retry, next: "done" },
    { id: "done", type: "end", output: "alive" },
  ];
  await client.publish("healthy", [{ id: "first", type: "noop", next: "rest" }, ...rest]);
  const id = "brings-its-node-down";
  await client.publish("poisonous", [
    { id: "first", type: "noop", next: id },
    { id, type: "noop", next: "rest" },
    ...rest,
  ]);
}, 120_000);
afterAll(async () => {
  await shop.stop();
  await service.stop();
  await database.drop();
});

/** The id of the run once it is acknowledged; undefined if that did not happen in time. */
async function acknowledgedStart(workflowId: string, key: string, until: number): Promise<string | undefined> {
  while (performance.now() < until) {
    const answer = await post(JSON.stringify({ workflow_id: workflowId, idempotency_key: key }));
    if (answer.status === 202) return (JSON.parse(answer.text) as { run_id: string }).run_id;
    await delay(1_000);
  }
  return undefined;
}

/** Over a new connection: a node that is killed takes no other request with it. */
function post(body: string): Promise<{ status: number; text: string }> {
  return new Promise((resolve) => {
    const headers = { "content-type": "application/json", connection: "close" };
    const options = { method: "POST", agent: false, timeout: 10_000, headers } as const;
    let text = "";
    const sent = request(`${service.url}/api/v1/sagas/start`, options, (response) => {
      response.setEncoding("utf8").on("data", (part) => {
        text += part;
      });
      response.on("close", () => resolve({ status: response.complete ? (response.statusCode ?? 0) : 0, text }));
    });
    sent.on("timeout", () => sent.destroy());
    sent.on("error", () => resolve({ status: 0, text }));
    sent.end(body);
  });
}

/** Starts so many runs a second until the time is over; answers those that were acknowledged. */
async function load(over: number): Promise<{ acknowledged: string[]; unanswered: number }> {
  const acknowledged: string[] = [];
  let [unanswered, waiting] = [0, 0];
  const one = async (key: string) => {
    waiting++;
    const runId = await acknowledgedStart("healthy", key, over);
    if (runId === undefined) unanswered++;
    else acknowledged.push(runId);
    waiting--;
  };
  const all: Promise<void>[] = [];
  for (let nth = 0, begins = performance.now(); performance.now() < over; nth++) {
    if (nth % (10 * RUNS_PER_SECOND) === 0)
      report({ nodes: livingNodes(service).length, acknowledged: acknowledged.length, waiting });
    if (waiting < MOST_WAITING) all.push(one(`healthy-${nth}`));
    begins = Math.max(begins + 1_000 / RUNS_PER_SECOND, performance.now() - 1_000);
    await delay(Math.max(0, begins - performance.now()));
  }
  await Promise.all(all);
  return { acknowledged, unanswered };
}

async function killNodes(over: number): Promise<number> {
  let kills = 0;
  for (; performance.now() < over; await delay(KILL_MS)) {
    const nodes = livingNodes(service);
    const victim = nodes[kills % nodes.length];
    // On a slow machine a start takes longer than the time between two kills, and a service without nodes shows nothing.
    if (!victim || nodes.length < LEFT_ALIVE + 1) continue;
    process.kill(victim.pid, "SIGKILL");
    kills++;
  }
  return kills;
}

async function counted(state: string): Promise<number> {
  const [row] = await database.sql.unsafe<{ count: number }[]>(
    `select count(*)::int as count from runs where ${state}`,
  );
  return row?.count ?? 0;
}

describeLong("four nodes, of which one is killed every two seconds", () => {
  itLong(
    "bring every acknowledged run to its end, and quarantine the poisonous one among them, and only it",
    async () => {
      const over = performance.now() + LASTS_MS;
      const loading = load(over);
      const killing = killNodes(over);
      await delay(LASTS_MS / 4);
      const poisonous = (await acknowledgedStart("poisonous", "poisonous", over)) ?? "";
      const [{ acknowledged, unanswered }, kills] = await Promise.all([loading, killing]);
      const ended = performance.now();
      const open = "terminal_at is null and paused_reason is distinct from 'quarantine'";
      await until(async () => (await counted(open)) === 0, {
        within: 120_000,
        pause: 500,
        what: "the end of all runs",
      });
      const ms = performance.now() - ended;
      await until(async () => (await counted(`id = '${poisonous}' and paused_reason = 'quarantine'`)) === 1, {
        within: 60_000,
        what: "the quarantine",
      });
      const deaths = logged(service, "node died, starting another").length;
      report({ acknowledged: acknowledged.length, unanswered, kills, deaths, restMs: Math.round(ms) });
      expect(new Set(acknowledged).size).toBe(acknowledged.length);
      const succeeded = await database.sql<
        { id: string }[]
      >`select id from runs where state = 'succeeded' and output::text = '"alive"'`;
      const right = new Set(succeeded.map(({ id }) => id));
      expect(acknowledged.filter((runId) => !right.has(runId))).toEqual([]);
      const quarantined = await database.sql<{ id: string }[]>`select id from runs where paused_reason = 'quarantine'`;
      expect(quarantined.map(({ id }) => id)).toEqual([poisonous]);
      const { events } = await client.look(poisonous);
      report({ proof: events.at(-1)?.metadata });
      expect(events.at(-1)?.metadata).toMatchObject({ kind: "quarantine", trials: 3, signal: "SIGKILL" });
      await client.allEnd(acknowledged.filter((_, nth) => nth % 25 === 0));
      await nothingUnwatched(database.sql);
    },
    600_000,
  );
});
