// Concurrency keys on a service of four node processes, of which one after the other is killed (SIGKILL): many contenders for one slot, and
// steps that share two. Never more than the limit at once, every run ends, no slot is left, and the queue keeps its order.
// @module-tag long
import type { Sql } from "postgres";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { uuidv7 } from "../../src/ids.js";
import { createWorker, type Worker } from "../../src/sdk/worker/index.js";
import { livingNodes } from "../cluster/rig.js";
import { credential, workerToken } from "../harness/access.js";
import { type Action, handleAll } from "../harness/actions.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { nothingUnwatched, report } from "../run/seen.js";
import { Client } from "./client.js";

const NODES = 4;
/** A service without nodes shows nothing. */
const LEFT_ALIVE = 2;
const CONTENDERS = 40;
const KILLS = 2;
const PATIENCE_MS = 120_000;
const silent = { debug() {}, info() {}, warn() {}, error() {} };

let database: TestDatabase;
let service: ServiceProcess;
let client: Client;
let worker: Worker;

/** Durable, in the order in which it happened. */
const note = (sql: Sql, runId: string, what: string) =>
  sql`insert into visits (run_id, what) values (${runId}, ${what})`;

const recording = (what: string): Action => ({
  name: what,
  execute: async (_input, { runId }) => {
    await note(database.sql, runId, what);
    return {};
  },
});

const visit: Action = {
  name: "visit",
  execute: async (_input, { runId }) => {
    await note(database.sql, runId, "enter");
    await note(database.sql, runId, "leave");
    return {};
  },
};

beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
  await database.sql`create table visits (nth bigserial primary key, run_id uuid not null, what text not null)`;
  service = await createService({ DATABASE_URL: database.url, SAGA_WORKERS: String(NODES) });
  await service.start({ within: 60_000 });
  await until(() => livingNodes(service).length === NODES, { what: "all nodes" });
  client = new Client(service.url);
  const timing = { resendMs: 100, backoffMs: 50, backoffMaxMs: 500, abortGraceMs: 100, lookAgainMs: 1_000 };
  worker = createWorker({
    ...workerToken(),
    ...{ service: "room", grpc: service.grpcAddress, api: service.url, log: silent, timing, maxInFlight: 256 },
  });
  handleAll(worker, "room", [recording("enter"), recording("leave"), visit]);
  await worker.start();
  await client.publish(
    "alone",
    [
      { id: "gate", type: "switch", cases: [{ when: "inputs.waits", next: "hold" }], default: "enter" },
      { id: "hold", type: "wait_for_signal", signal_name: "go" },
      { id: "enter", type: "action", action: "room.enter", next: "stay" },
      { id: "stay", type: "wait_duration", duration_ms: 5, next: "leave" },
      { id: "leave", type: "action", action: "room.leave" },
    ],
    { concurrency: { key: "${inputs.key}", limit: 1 } },
  );
  await client.publish("visitors", [
    { id: "begin", type: "noop", next: "visit" },
    { id: "visit", type: "action", action: "room.visit", concurrency: { key: "fragile", limit: 2 } },
  ]);
}, 120_000);
afterAll(async () => {
  await worker.stop();
  await service.stop();
  await database.sql`drop table visits`;
  await database.drop();
});

const countOf = async (what: string) => {
  const [row] = await database.sql.unsafe<{ count: number }[]>(`select count(*)::int as count from ${what}`);
  return row?.count ?? 0;
};

/** Kills a node, any of them, whenever as many more have come through as make the kills evenly spread. */
async function killAlong(runs: number): Promise<number> {
  for (let nth = 1; nth <= KILLS; nth++) {
    const through = Math.floor((nth * runs) / (KILLS + 1));
    await until(async () => (await countOf("visits where what = 'leave'")) >= through, { within: PATIENCE_MS });
    const living = await until(() => livingNodes(service).length > LEFT_ALIVE && livingNodes(service), {
      within: PATIENCE_MS,
    });
    const victim = living[Math.floor(Math.random() * living.length)];
    if (victim) process.kill(victim.pid, "SIGKILL");
  }
  return KILLS;
}

interface Visit {
  readonly run_id: string;
  readonly what: string;
}

/** The most that were inside at once. */
function mostInside(visits: readonly Visit[]): number {
  const inside = new Set<string>();
  let most = 0;
  for (const { run_id, what } of visits) {
    if (what === "enter") inside.add(run_id);
    else inside.delete(run_id);
    most = Math.max(most, inside.size);
  }
  return most;
}

const visits = () => database.sql<Visit[]>`select run_id, what from visits order by nth`;

/** No ticket is left, and the gauges of the cluster say so. */
async function nothingLeft(): Promise<void> {
  await until(async () => (await countOf("concurrency_tickets")) === 0, { what: "no ticket" });
  const gauges = ["waiting", "held", "leaked"].map((name) => `saga_concurrency_${name} 0`);
  await until(
    async () => {
      const page = await (await fetch(`${service.url}/metrics`, { headers: credential() })).text();
      return gauges.every((gauge) => page.includes(`\n${gauge}\n`));
    },
    { within: PATIENCE_MS, pause: 500, what: gauges.join(", ") },
  );
  await nothingUnwatched(database.sql);
}

describe("four nodes, of which one after the other is killed", () => {
  it(
    `let ${CONTENDERS} contenders for one slot through one by one, in the order in which they came`,
    async () => {
      const key = uuidv7();
      const begin = (waits: boolean) => client.start("alone", { inputs: { key, waits }, idempotency_key: uuidv7() });
      const holder = await begin(true);
      await until(async () => (await client.run(holder)).paused_reason === "signal");
      const ids = await Promise.all(Array.from({ length: CONTENDERS }, () => begin(false)));
      await until(async () => (await countOf("runs where paused_reason = 'concurrency'")) === CONTENDERS);
      const queue = await database.sql<{ run_id: string }[]>`
        select run_id from concurrency_tickets where granted_at is null order by ticket`;
      const began = performance.now();
      await client.insist("POST", `/sagas/${holder}/signal/go`, {});
      const kills = await killAlong(CONTENDERS);
      await until(async () => (await countOf("runs where terminal_at is null")) === 0, { within: PATIENCE_MS });
      const ms = Math.round(performance.now() - began);
      const seen = await visits();
      const most = mostInside(seen);
      report({ contenders: CONTENDERS, kills, most, ms, msEach: Math.round(ms / CONTENDERS) });
      expect(most, "at once").toBe(1);
      const entered = [...new Set(seen.map(({ run_id }) => run_id))];
      expect(entered, "in the order of the queue").toEqual(queue.map(({ run_id }) => run_id));
      expect([...entered].sort()).toEqual([...ids].sort());
      expect(await countOf("runs where state <> 'succeeded'")).toBe(0);
      await nothingLeft();
      await client.allEnd(ids.filter((_, nth) => nth % 10 === 0));
    },
    4 * PATIENCE_MS,
  );

  it(
    `let ${CONTENDERS} steps through two slots, never three at once`,
    async () => {
      await database.sql`truncate visits`;
      const began = performance.now();
      const starting = Promise.all(
        Array.from({ length: CONTENDERS }, () => client.start("visitors", { idempotency_key: uuidv7() })),
      );
      const kills = await killAlong(CONTENDERS);
      const ids = await starting;
      await until(async () => (await countOf("runs where terminal_at is null")) === 0, { within: PATIENCE_MS });
      const seen = await visits();
      const [most, ms] = [mostInside(seen), Math.round(performance.now() - began)];
      report({ steps: CONTENDERS, kills, most, ms });
      expect(most, "at once").toBeLessThanOrEqual(2);
      expect(new Set(seen.map(({ run_id }) => run_id)).size).toBe(CONTENDERS);
      expect(await countOf("runs where state <> 'succeeded'")).toBe(0);
      await nothingLeft();
      await client.allEnd(ids.filter((_, nth) => nth % 10 === 0));
    },
    4 * PATIENCE_MS,
  );
});
