// Business keys on a service of four node processes, of which one after the other is killed (SIGKILL), while clients start runs of few keys and signal them.
// A start that is not answered is sent again. Never do two runs hold a key at once, every signal that was accepted reached one run, and every run ends.
// @module-tag long
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { livingNodes } from "../cluster/rig.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { allSound, nothingUnwatched, report } from "../run/seen.js";
import { Client } from "./client.js";

const NODES = 4;
/** A service without nodes shows nothing. */
const LEFT_ALIVE = 2;
const KILLS = 5;
const KEYS = 2;
const CLIENTS = 8;
const LEAST_OF_EACH = 10;
const PATIENCE_MS = 240_000;

let database: TestDatabase;
let service: ServiceProcess;
let client: Client;

beforeAll(async () => {
  database = await createTestDatabase({ max: 3 });
  service = await createService({ DATABASE_URL: database.url, SAGA_WORKERS: String(NODES) });
  await service.start({ within: 60_000 });
  await until(() => livingNodes(service).length === NODES, { within: 60_000 });
  client = new Client(service.url);
  await client.publish("short", [
    { id: "rest", type: "wait_duration", duration_ms: 150, next: "undone" },
    { id: "undone", type: "set_var", name: "done", value: "${true}" },
  ]);
  await client.publish("counting", [
    { id: "first", type: "wait_for_signal", signal_name: "add", next: "second" },
    { id: "second", type: "wait_for_signal", signal_name: "add", timeout_ms: 1_500, on_timeout: "end" },
    { id: "end", type: "noop" },
  ]);
}, 180_000);
afterAll(async () => {
  await service?.stop();
  await database?.drop();
});

let kills = 0;
const counts = { started: 0, refused: 0, returned: 0, signalled: 0 };
const isOver = () =>
  kills >= KILLS && Math.min(counts.started, counts.returned, counts.signalled, counts.refused) >= LEAST_OF_EACH;

/** The one that has lived longest, again and again. */
async function kill(): Promise<void> {
  for (const ends = performance.now() + PATIENCE_MS; !isOver() && performance.now() < ends; ) {
    await until(() => isOver() || livingNodes(service).length > LEFT_ALIVE, { within: PATIENCE_MS, pause: 100 });
    const before = { ...counts };
    const [victim] = livingNodes(service);
    if (!victim || isOver()) return;
    process.kill(victim.pid, "SIGKILL");
    kills++;
    // The next one dies when the service has answered clients of each kind since.
    const goesOn = () => counts.started > before.started + 2 && counts.signalled > before.signalled + 2;
    await until(() => isOver() || goesOn(), { within: PATIENCE_MS, pause: 100, what: "answers" });
  }
}

/** Signals that were accepted, by their ids, and their run. */
const accepted = new Map<string, string>();

async function startSome(nth: number): Promise<void> {
  for (let turn = 0; !isOver(); turn++) {
    const policy = (["reject", "return", "cancel_old"] as const)[(nth + turn) % 3];
    const body = { workflow_id: "short", business_key: `key ${turn % KEYS}`, on_conflict: policy, labels: { policy } };
    const once = { ...body, idempotency_key: randomUUID() };
    const { status, body: answer } = await client.insist("POST", "/sagas/start", once);
    if (status === 409) counts.refused++;
    else if (answer.deduplicated) counts.returned++;
    else counts.started++;
  }
}

async function signalSome(nth: number): Promise<void> {
  for (let turn = 0; !isOver(); turn++) {
    const signal = { name: "add", payload: { nth, turn, price: 12.5 }, idempotency_key: randomUUID() };
    const body = { workflow_id: "counting", business_key: `sum ${turn % 2}`, signal };
    const { status, body: answer } = await client.insist("POST", "/sagas/signal_with_start", body);
    expect([202, 409]).toContain(status);
    if (status !== 202) continue;
    counts.signalled++;
    expect(accepted.has(answer.signal_id)).toBe(false);
    accepted.set(answer.signal_id, answer.run_id);
  }
}

describe("four nodes that are killed in turn", () => {
  it("have one run a key at a time, and lose no signal", async () => {
    const clients = Array.from({ length: CLIENTS }, (_, nth) => (nth % 2 === 0 ? startSome(nth) : signalSome(nth)));
    await Promise.all([kill(), ...clients]);
    const { sql } = database;
    const open = () => sql`select from runs where terminal_at is null limit 1`;
    await until(async () => (await open()).length === 0, {
      within: PATIENCE_MS,
      pause: 250,
      what: "the end of all runs",
    });
    report({ ...counts, kills, accepted: accepted.size });
    expect(kills).toBeGreaterThanOrEqual(KILLS);
    await expectOneAtATime();
    await expectSignals();
    const runs = await sql<{ id: string }[]>`select id from runs order by started_at, id limit 200`;
    await allSound(
      sql,
      runs.map(({ id }) => id),
    );
    await nothingUnwatched(sql);
  }, 600_000);
});

/**
 * A run whose place another has taken by `cancel_old` may still be at work, or roll back; no other two overlap. The nodes' clocks differ by some
 * milliseconds.
 */
async function expectOneAtATime(): Promise<void> {
  const overlapping = await database.sql`
    with held as (
      select r.id, r.business_key as key, r.started_at as began, r.terminal_at as ended, l.value = 'cancel_old' as replaces
      from runs r join run_labels l on l.run_id = r.id and l.name = 'policy'
    )
    select a.id as first, b.id as second, a.key from held a join held b on b.key = a.key and b.id <> a.id
    where b.began >= a.began and a.ended > b.began + interval '100 milliseconds' and not exists (
      select from held c where c.replaces and c.key = a.key and c.id <> a.id and c.began between a.began and b.began)`;
  expect(overlapping).toEqual([]);
}

async function expectSignals(): Promise<void> {
  const stored = await database.sql<{ id: string; run_id: string }[]>`select id, run_id from signals`;
  const runs = new Map(stored.map(({ id, run_id }) => [id, run_id]));
  for (const [id, runId] of accepted) expect([id, runs.get(id)]).toEqual([id, runId]);
  expect(new Set(accepted.keys()).size).toBe(accepted.size);
  // Each run was started with a signal, and has it.
  const without = await database.sql`
    select id from runs where workflow_id = 'counting' and not exists (select from signals where run_id = runs.id)`;
  expect(without).toEqual([]);
}
