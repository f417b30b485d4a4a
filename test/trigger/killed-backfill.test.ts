// A backfill on a service of three node processes that are killed (SIGKILL): while they answer the request, and while its fires are carried out. Afterwards each
// tick of the range has one fire and one run. What is fired, and in what order, is in backfill.test.ts.
// @module-tag long
// @waits
// @access both
import { afterAll, beforeAll, expect, it } from "vitest";
import { livingNodes } from "../cluster/rig.js";
import { Client } from "../faults/client.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { firstSeed } from "../harness/long.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { randomOf } from "../machines/scheduler.js";
import { nothingUnwatched, report } from "../run/seen.js";

const NODES = 3;
const MINUTE = 60_000;
/** One range after the other: of each, ticks every minute. */
const RANGES = 2;
const TICKS = 400;
const FROM = Date.UTC(2026, 0, 5);
/** Settled ticks between two kills, at most. */
const BETWEEN_KILLS = 150;

const seed = firstSeed();
const random = randomOf(seed);
const below = (count: number) => Math.floor(random() * count);

let database: TestDatabase;
let service: ServiceProcess;
let client: Client;
let kills = 0;
beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
  service = await createService({ DATABASE_URL: database.url, SAGA_WORKERS: String(NODES) });
  await service.start({ within: 60_000 });
  await until(() => livingNodes(service).length === NODES, { what: "all nodes" });
  client = new Client(service.url);
  await client.publish("minutely", [{ id: "a", type: "noop" }]);
}, 120_000);
afterAll(async () => {
  await service?.stop();
  await database?.drop();
});

async function killOne(): Promise<void> {
  const living = await until(() => livingNodes(service).length > 0 && livingNodes(service), { what: "a node to kill" });
  const victim = living[below(living.length)];
  if (!victim) return;
  process.kill(victim.pid, "SIGKILL");
  kills++;
}

const minute = (nth: number) => new Date(FROM + nth * MINUTE).toISOString();

async function settled(): Promise<number> {
  const [row] = await database.sql<{ count: number }[]>`
    select count(*)::int as count from trigger_fires where due_at is null`;
  return row?.count ?? 0;
}

/** Sends the same request from several clients while nodes die under them, until each has an answer. */
async function backfill(id: string, from: number, to: number): Promise<void> {
  const body = { from: minute(from), to: minute(to) };
  const asked = [0, 1, 2].map(() => client.insist("POST", `/triggers/${id}/backfill`, body));
  await killOne();
  const answers = await Promise.all(asked);
  for (const { status, body } of answers) expect([status, body.ticks]).toEqual([202, to - from + 1]);
  const fired = answers.reduce((sum, { body }) => sum + body.fired, 0);
  // The fires of a request that was not answered are in none of the answers.
  expect(fired).toBeLessThanOrEqual(to - from + 1);
}

it("every tick of the ranges has one run, whichever nodes are killed during and after the request", async () => {
  const config = { schedule: "* * * * *" };
  const document = { trigger_type: "cron", workflow_id: "minutely", config, enabled: false };
  const { body: trigger } = await client.insist("POST", "/triggers", document);
  for (let nth = 0; nth < RANGES; nth++) {
    // Each range has some ticks of the one before.
    const [first, last] = [nth * TICKS - (nth > 0 ? 50 : 0), (nth + 1) * TICKS - 1];
    await backfill(trigger.id, first, last);
    const all = (nth + 1) * TICKS;
    for (let due = nth * TICKS; due < all; due = Math.min(all, (await settled()) + 1 + below(BETWEEN_KILLS))) {
      const least = due;
      await until(async () => (await settled()) >= least, { within: 120_000, what: `${least} ticks carried out` });
      await killOne();
    }
    await until(async () => (await settled()) >= all, { within: 120_000, what: "the end of the range" });
  }
  const open = () => database.sql`select id from runs where terminal_at is null limit 1`;
  await until(async () => (await open()).length === 0, { within: 120_000, what: "the end of all runs" });
  await nothingUnwatched(database.sql);
  await service.stop();
  await expectOnce(trigger.id);
}, 600_000);

async function expectOnce(id: string): Promise<void> {
  const runs = await database.sql<{ tick: string; id: string }[]>`
    select s.inputs->'trigger'->>'scheduled_at' as tick, r.id from runs r join run_starts s on s.run_id = r.id
    where r.trigger_id = ${id} order by 1`;
  const fires = await database.sql<{ tick: Date; run: string; error: string | null; backfilled: boolean }[]>`
    select scheduled_at as tick, resulting_run_id as run, error, backfilled from trigger_fires where trigger_id = ${id}
    order by scheduled_at`;
  report({ seed, ticks: RANGES * TICKS, runs: runs.length, kills });
  const expected = Array.from({ length: RANGES * TICKS }, (_, nth) => minute(nth));
  expect(
    runs.map(({ tick }) => tick),
    `seed ${seed}`,
  ).toEqual(expected);
  expect(fires.map(({ tick }) => tick.toISOString())).toEqual(expected);
  expect(fires.map(({ run, error, backfilled }) => [run, error, backfilled])).toEqual(
    runs.map((run) => [run.id, null, true]),
  );
  expect(kills).toBeGreaterThan(2 * RANGES);
}
