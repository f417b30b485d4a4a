// Forks on a service of four node processes, of which one after the other is killed (SIGKILL), while clients fork runs that wait and runs that have ended.
// A fork that is not answered is asked for again under its key. Each undo is owed by one run and undone by one, every acknowledged fork exists, no
// original goes on beside its fork, and a key has one fork.
// @module-tag long
// @access both
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { livingNodes } from "../cluster/rig.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { allSound, nothingUnwatched, report } from "../run/seen.js";
import { Client } from "./client.js";
import { openShop, type Shop } from "./shop.js";

const NODES = 4;
const LEFT_ALIVE = 2;
const KILLS = 5;
const CLIENTS = 6;
const LEAST_OF_EACH = 8;
const PATIENCE_MS = 240_000;
const UNDONE = { action: "shop.refund" };

let database: TestDatabase;
let service: ServiceProcess;
let client: Client;
let shop: Shop;

beforeAll(async () => {
  database = await createTestDatabase({ max: 3 });
  service = await createService({ DATABASE_URL: database.url, SAGA_WORKERS: String(NODES) });
  await service.start({ within: 60_000 });
  await until(() => livingNodes(service).length === NODES, { within: 60_000 });
  client = new Client(service.url);
  shop = await openShop({ grpc: service.grpcAddress, api: service.url });
  const charge = (id: string, next: string) => ({
    id,
    type: "action",
    action: "shop.charge",
    compensation: UNDONE,
    next,
  });
  const steps = [
    charge("first", "wait"),
    { id: "wait", type: "wait_for_signal", signal_name: "go", next: "second" },
    charge("second", "check"),
    { id: "check", type: "assert", condition: "inputs.good", next: "done" },
    { id: "done", type: "noop" },
  ];
  await client.publish("order", steps, { history: "full" });
}, 180_000);
afterAll(async () => {
  await shop?.stop();
  await service?.stop();
  await database?.drop();
});

let kills = 0;
const counts = { waiting: 0, ended: 0, refused: 0, assumed: 0, repeated: 0 };
const isOver = () => kills >= KILLS && Math.min(...Object.values(counts)) >= LEAST_OF_EACH;

/** The one that has lived longest, again and again. */
async function kill(): Promise<void> {
  for (const ends = performance.now() + PATIENCE_MS; !isOver() && performance.now() < ends; ) {
    await until(() => isOver() || livingNodes(service).length > LEFT_ALIVE, { within: PATIENCE_MS, pause: 100 });
    const before = counts.waiting + counts.ended;
    const [victim] = livingNodes(service);
    if (!victim || isOver()) return;
    process.kill(victim.pid, "SIGKILL");
    kills++;
    // The next one dies when runs have been forked since.
    const goesOn = () => counts.waiting + counts.ended > before + 2;
    await until(() => isOver() || goesOn(), { within: PATIENCE_MS, pause: 100, what: "forks" });
  }
}

/** Forks that were acknowledged, with their originals and whether those waited. */
const acknowledged = new Map<string, { readonly original: string; readonly waited: boolean }>();

/** Asked for under one key until there is an outcome, and then once more: the repeat gets the same. */
async function fork(original: string, body: object, waited: boolean): Promise<string | undefined> {
  const key = randomUUID();
  const ask = () => insisted(`/sagas/${original}/fork`, body, key);
  const { status, body: answer } = await ask();
  expect([202, 409]).toContain(status);
  if (status !== 202) {
    counts.refused++;
    return undefined;
  }
  acknowledged.set(answer.run_id, { original, waited });
  expect((await ask()).body).toEqual(answer);
  counts.repeated++;
  return answer.run_id;
}

async function insisted(path: string, body: object, key: string) {
  return until(
    async () => {
      const answer = await client.send(client.url, "POST", path, body, key).catch(() => undefined);
      return answer && answer.status !== 503 ? answer : undefined;
    },
    { within: PATIENCE_MS, pause: 50, what: `an outcome of ${path}` },
  );
}

const go = (id: string) => insisted(`/sagas/${id}/signal/go`, { payload: {} }, randomUUID());

async function started(good: boolean): Promise<string> {
  const id = await client.start("order", { inputs: { good }, run_id: randomUUID() });
  await client.untilState(id, "paused", PATIENCE_MS);
  return id;
}

async function forkSome(nth: number): Promise<void> {
  for (let turn = nth; !isOver(); turn++) {
    const original = await started(turn % 4 !== 3);
    if (turn % 2 === 0) {
      // Two clients want to fork a run that waits: one of them does, or the other.
      const step = turn % 4 === 0 ? "wait" : "first";
      const made = await Promise.all([1, 2].map(() => fork(original, { step, inputs: { good: turn % 3 > 0 } }, true)));
      expect(made.filter((id) => id !== undefined)).toHaveLength(1);
      counts.waiting++;
      continue;
    }
    await go(original);
    await until(async () => (await client.run(original)).terminal_at !== undefined, { within: PATIENCE_MS, pause: 50 });
    const inherits = turn % 4 === 1;
    const made = await Promise.all([1, 2].map(() => fork(original, { step: "check", inputs: { good: false } }, false)));
    expect(made.filter((id) => id !== undefined)).toHaveLength(inherits ? 1 : 0);
    counts.ended++;
    if (inherits) continue;
    expect(await fork(original, { step: "check", inputs: { good: true }, effects: "assume" }, false)).toBeDefined();
    counts.assumed++;
  }
}

/** The forks that wait get their signal, until none is left. */
async function letAllEnd(): Promise<void> {
  const { sql } = database;
  const open = () =>
    sql<{ id: string; paused_reason: string | null }[]>`select id, paused_reason from runs where terminal_at is null`;
  await until(
    async () => {
      const runs = await open();
      for (const { id, paused_reason } of runs) if (paused_reason === "signal") await go(id);
      return runs.length === 0;
    },
    { within: PATIENCE_MS, pause: 250, what: "the end of all runs" },
  );
}

describe("four nodes that are killed in turn, while runs are forked", () => {
  it("owe each undo once and undo it at most once, and no original goes on beside its fork", async () => {
    await Promise.all([kill(), ...Array.from({ length: CLIENTS }, (_, nth) => forkSome(nth))]);
    await letAllEnd();
    report({ ...counts, kills, acknowledged: acknowledged.size });
    expect(kills).toBeGreaterThanOrEqual(KILLS);
    await expectForks();
    await expectUndos();
    const runs = await database.sql<
      { id: string }[]
    >`select id from runs where id not in (select fork_id from forks) order by started_at, id limit 100`;
    await allSound(
      database.sql,
      runs.map(({ id }) => id),
    );
    await nothingUnwatched(database.sql);
  }, 600_000);
});

async function expectForks(): Promise<void> {
  const stored = await database.sql<{ fork: string; original: string; ended: string; steps: string[] | null }[]>`
    select f.fork_id as fork, f.origin_id as original, o.state as ended, (
      select array_agg(e.step_id) from run_events e where e.run_id = o.id and e.event_type = 'step.started' and e.step_id <> 'first') as steps
    from forks f join runs o on o.id = f.origin_id join runs n on n.id = f.fork_id`;
  const byFork = new Map(stored.map((row) => [row.fork, row]));
  for (const [id, { original, waited }] of acknowledged) {
    const row = byFork.get(id);
    expect([id, row?.original]).toEqual([id, original]);
    if (waited) expect([id, row?.ended, row?.steps]).toEqual([id, "cancelled", ["wait"]]);
  }
  expect(byFork.size, "no fork that was never acknowledged: each client asked until it was").toBe(acknowledged.size);
  const twice = await database.sql`select origin_id from forks where inherits group by origin_id having count(*) > 1`;
  expect(twice).toEqual([]);
}

async function expectUndos(): Promise<void> {
  const twice = await database.sql`select forward_idempotency_key from undo group by 1 having count(*) > 1`;
  expect(twice, "an entry is in one list").toEqual([]);
  const rows = await database.sql<{ key: string; owner: string; state: string }[]>`
    select forward_idempotency_key as key, owner_run_id as owner, state from undo`;
  const owners = new Map(rows.map(({ key, owner }) => [key, owner]));
  const refunds = shop.ledger.filter(({ action }) => action === "refund");
  for (const { forwardKey = "", runId } of refunds)
    expect([forwardKey, owners.get(forwardKey)]).toEqual([forwardKey, runId]);
  const charged = new Set(shop.ledger.filter(({ action }) => action === "charge").map(({ key }) => key));
  expect(
    [...charged].filter((key) => !owners.has(key)),
    "no effect is in no list",
  ).toEqual([]);
  const undone = new Set(refunds.map(({ forwardKey }) => forwardKey));
  for (const { key, state } of rows) expect([key, undone.has(key)]).toEqual([key, state === "done"]);
}
