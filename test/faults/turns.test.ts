// Rate limits on a service of four node processes, of which one after the other is killed (SIGKILL) while runs wait for their turn. The worker's
// ledger has no window with more attempts than the bucket allows, every run ends, no turn is left, and the key goes on.
// @module-tag long
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
const CALLS = 60;
const KILLS = 2;
const PATIENCE_MS = 120_000;
/** A bucket that let all callers through at once would be over by twice what late turns may come to. */
const RATE = { limit: 5, per_ms: 1_000, burst: 3 };
const STEP_MS = RATE.per_ms / RATE.limit;
/** A turn is good for so long: docs/workflows.md. */
const GOOD_MS = 5_000;
const silent = { debug() {}, info() {}, warn() {}, error() {} };

let database: TestDatabase;
let service: ServiceProcess;
let client: Client;
let worker: Worker;

/** Every other call fails once, so that retries need turns as well. */
const call: Action = {
  name: "call",
  execute: async (_input, { runId, attempt }) => {
    await database.sql`insert into calls (run_id, attempt) values (${runId}, ${attempt})`;
    if (attempt === 1 && /[02468ace]$/.test(runId.slice(0, -2))) throw new Error("once");
    return {};
  },
};

beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
  await database.sql`create table calls (run_id uuid not null, attempt int not null, at timestamptz not null default clock_timestamp(),
    primary key (run_id, attempt))`;
  service = await createService({ DATABASE_URL: database.url, SAGA_WORKERS: String(NODES) });
  await service.start({ within: 60_000 });
  await until(() => livingNodes(service).length === NODES, { what: "all nodes" });
  client = new Client(service.url);
  const timing = { resendMs: 100, backoffMs: 50, backoffMaxMs: 500, abortGraceMs: 100, lookAgainMs: 1_000 };
  worker = createWorker({
    ...workerToken(),
    ...{ service: "bank", grpc: service.grpcAddress, api: service.url, log: silent, timing, maxInFlight: 256 },
  });
  handleAll(worker, "bank", [call]);
  await worker.start();
  await client.publish("caller", [
    {
      ...{ id: "call", type: "action", action: "bank.call", rate_limit: { key: "bank", ...RATE } },
      retry: { max_attempts: 5, initial_backoff_ms: 0, jitter: false },
    },
  ]);
}, 120_000);
afterAll(async () => {
  await worker.stop();
  await service.stop();
  await database.sql`drop table calls`;
  await database.drop();
});

const countOf = async (what: string) => {
  const [row] = await database.sql.unsafe<{ count: number }[]>(`select count(*)::int as count from ${what}`);
  return row?.count ?? 0;
};

/** Kills a node, any of them, whenever as many more calls have come as make the kills evenly spread. */
async function killAlong(calls: number): Promise<void> {
  for (let nth = 1; nth <= KILLS; nth++) {
    const through = Math.floor((nth * calls) / (KILLS + 1));
    await until(async () => (await countOf("calls")) >= through, { within: PATIENCE_MS });
    const living = await until(() => livingNodes(service).length > LEFT_ALIVE && livingNodes(service), {
      within: PATIENCE_MS,
    });
    const victim = living[Math.floor(Math.random() * living.length)];
    if (victim) process.kill(victim.pid, "SIGKILL");
  }
}

/** By how many the fullest window has more than `burst` and the tokens of its time. */
function mostOver(times: readonly number[]): number {
  let most = Number.NEGATIVE_INFINITY;
  for (const [from, begin] of times.entries())
    for (const [more, end] of times.slice(from).entries())
      most = Math.max(most, more + 1 - RATE.burst - (end - begin) / STEP_MS);
  return most;
}

async function ends(): Promise<void> {
  await until(async () => (await countOf("runs where terminal_at is null")) === 0, { within: PATIENCE_MS });
}

describe("four nodes, of which one after the other is killed", () => {
  it(
    `let ${CALLS} callers through in their turns, never more than the bucket allows`,
    async () => {
      const starting = Promise.all(
        Array.from({ length: CALLS }, () => client.start("caller", { idempotency_key: uuidv7() })),
      );
      await killAlong(CALLS);
      const ids = await starting;
      await ends();
      const seen = await database.sql<{ ms: number }[]>`
        select (extract(epoch from at) * 1000)::float8 as ms from calls order by at`;
      const sent = await database.sql<{ ms: number }[]>`
        select (extract(epoch from recorded_at) * 1000)::float8 as ms from run_events
        where event_type = 'step.dispatched' order by recorded_at`;
      const [called, dispatched] = [mostOver(seen.map(({ ms }) => ms)), mostOver(sent.map(({ ms }) => ms))];
      report({ calls: seen.length, dispatches: sent.length, called, dispatched });
      const late = GOOD_MS / STEP_MS;
      expect(dispatched, "dispatches over the bucket").toBeLessThanOrEqual(late);
      expect(called, "calls over the bucket").toBeLessThanOrEqual(late);
      expect(await countOf("runs where state = 'succeeded'")).toBe(CALLS);
      expect(seen.length, "some were tried again").toBeGreaterThan(CALLS);

      // No token leaks: the key goes on at once.
      await client.start("caller", { idempotency_key: uuidv7() });
      await ends();
      await until(async () => (await countOf("rate_tickets")) === 0, { what: "no ticket" });
      await until(async () => (await countOf("rate_buckets")) === 0, { what: "no bucket that is full" });
      const gauges = ["waiting", "leaked"].map((name) => `saga_rate_limit_${name} 0`);
      await until(
        async () => {
          const page = await (await fetch(`${service.url}/metrics`, { headers: credential() })).text();
          return gauges.every((gauge) => page.includes(`\n${gauge}\n`));
        },
        { within: PATIENCE_MS, pause: 500, what: gauges.join(", ") },
      );
      await nothingUnwatched(database.sql);
      await client.allEnd(ids.filter((_, nth) => nth % 10 === 0));
    },
    4 * PATIENCE_MS,
  );
});
