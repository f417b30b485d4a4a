// Rate limits on real runtimes and Postgres: who begins when, and that no turn outlives its run.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import type { StartRequest } from "../../src/run/ports.js";
import { countTurns } from "../../src/store/engine/turns.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { cancel, type Half, type HalfOptions, publish, registerActions, start, startHalf } from "./rig.js";
import { allEnd, allSound, look, nothingUnwatched } from "./seen.js";

const TENANT = "0190a000-0000-7000-8000-00000000000a";
const HOURLY = { key: "${inputs.key}", limit: 1, per_ms: 3_600_000 };
const QUICK = { key: "${inputs.key}", limit: 1, per_ms: 100 };
const NOOP = { id: "n", type: "noop" };

let database: TestDatabase;
let half: Half;
const halves: Half[] = [];

beforeAll(async () => {
  database = await createTestDatabase({ max: 6 });
  await registerActions(database, "call");
  await publish(database, "hourly", [NOOP], { rate_limit: HOURLY });
  await publish(database, "quick", [NOOP], { rate_limit: QUICK });
  await publish(database, "both", [NOOP], { rate_limit: QUICK, concurrency: { key: "${inputs.key}", limit: 1 } });
  await publish(database, "call", [{ id: "call", type: "action", action: "shop.call", rate_limit: QUICK }]);
  await publish(database, "hourly-call", [{ id: "call", type: "action", action: "shop.call", rate_limit: HOURLY }]);
});
afterEach(async () => {
  for (const one of halves.splice(0)) await one.stop();
  await database.sql`delete from rate_tickets`;
});
afterAll(() => database.drop());

async function begin(options: HalfOptions = {}): Promise<Half> {
  half = await startHalf(database, options);
  halves.push(half);
  half.poller.start();
  return half;
}

let keys = 0;
const newKey = () => `rate-${++keys}`;
const startOf = (workflowId: string, key: string, more: Partial<StartRequest> = {}) =>
  start(half.starter, workflowId, { inputs: { key }, ...more });
const sql = () => database.sql;
const stateOf = async (runId: RunId) => (await look(sql(), runId)).run;
const ends = (runId: RunId, state: string) =>
  until(async () => (await stateOf(runId)).state === state, { what: `${runId} ${state}` });
const waits = (runId: RunId) =>
  until(async () => (await stateOf(runId)).paused_reason === "rate_limit", { what: `${runId} waits for its turn` });
const cancelled = (runId: RunId) => half.runtime.command(runId, cancel, { reach: EVERYTHING });
const turnOf = async (runId: RunId): Promise<number> => {
  await until(
    async () => (await sql()`select 1 from rate_tickets where run_id = ${runId} and at_us is not null`).length === 1,
  );
  const [row] = await sql()`select at_us::float8 as at from rate_tickets where run_id = ${runId}`;
  return row?.at as number;
};

/** Nothing waits for a turn, or has one, and the histories are right. */
async function nothingLeft(...runIds: RunId[]): Promise<void> {
  await allEnd(sql(), runIds);
  await until(async () => (await sql()`select 1 from rate_tickets`).length === 0, { what: "no ticket" });
  expect(await countTurns(sql())).toEqual({ waiting: 0, leaked: 0 });
  await allSound(sql(), runIds);
  await nothingUnwatched(sql());
}

describe("the rate limit of a workflow", () => {
  it("runs begin in the order of their starts, each in its turn", async () => {
    await begin();
    const key = newKey();
    const ids: RunId[] = [];
    for (let nth = 0; nth < 4; nth++) ids.push(await startOf("quick", key));
    for (const id of ids) await ends(id, "succeeded");
    const began = await sql()<{ run_id: RunId; ms: number }[]>`
      select run_id, (extract(epoch from recorded_at) * 1000)::float8 as ms from run_events
      where event_type = 'step.started' and run_id = any(${ids}) order by recorded_at`;
    expect(began.map(({ run_id }) => run_id)).toEqual(ids);
    await nothingLeft(...ids);
  });

  it("runs behind a slot take their turn when they have it", async () => {
    await begin();
    const key = newKey();
    const ids = [await startOf("both", key), await startOf("both", key)];
    for (const id of ids) await ends(id, "succeeded");
    await nothingLeft(...ids);
  });

  it("keys are independent, of each value, of each workflow and of each tenant", async () => {
    await begin();
    const key = newKey();
    const ids = [
      await startOf("hourly", key),
      await startOf("hourly", newKey()),
      await startOf("quick", key),
      await startOf("hourly", key, { tenantId: TENANT }),
    ];
    for (const id of ids) await ends(id, "succeeded");
    const waiting = await startOf("hourly", key);
    await waits(waiting);
    await nothingUnwatched(sql());
    await cancelled(waiting);
    await nothingLeft(...ids, waiting);
  });

  it("turns that are cancelled go back, the newest first, and those that stay keep theirs", async () => {
    await begin();
    const key = newKey();
    const ids = [await startOf("hourly", key)];
    await ends(ids[0] as RunId, "succeeded");
    for (let nth = 0; nth < 3; nth++) ids.push(await startOf("hourly", key));
    const [, one, two, three] = ids as [RunId, RunId, RunId, RunId];
    const turns = [await turnOf(one), await turnOf(two), await turnOf(three)];
    await cancelled(two);
    await half.turns.tick();
    expect(await turnOf(three), "it keeps its turn").toBe(turns[2]);
    await cancelled(three);
    await half.turns.tick();
    const next = await startOf("hourly", key);
    expect(await turnOf(next), "both are there again").toBe(turns[1]);
    for (const id of [one, next]) await cancelled(id);
    await nothingLeft(...ids, next);
  });

  it("a start beyond the queue is refused, and one of a run that begins later fails", async () => {
    await begin({ turnRoom: 1 });
    const key = newKey();
    const first = await startOf("hourly", key);
    await ends(first, "succeeded");
    const second = await startOf("hourly", key);
    await turnOf(second);
    await expect(startOf("hourly", key)).rejects.toMatchObject({ status: 429, code: "rate_limit_queue_full" });
    const delayed = await startOf("hourly", key, { delayMs: 1 });
    await ends(delayed, "failed");
    expect((await stateOf(delayed)).last_error).toContain("too many wait for their turn");
    await expect(start(half.starter, "hourly", { inputs: {} })).rejects.toMatchObject({ status: 422 });
    await cancelled(second);
    await nothingLeft(first, second, delayed);
  });

  it("a node that loses every hint gives turns by its poll alone", async () => {
    await begin({ hints: false });
    half.turns.start();
    const key = newKey();
    const ids = [await startOf("quick", key), await startOf("quick", key)];
    for (const id of ids) await ends(id, "succeeded");
    await nothingLeft(...ids);
  });
});

describe("the rate limit of an action", () => {
  it("calls go out in their turns, shared by all workflows, runs and tenants", async () => {
    await begin();
    const key = newKey();
    const ids = [
      await startOf("call", key),
      await startOf("call", key, { tenantId: TENANT }),
      await startOf("call", key),
    ];
    for (const id of ids) await ends(id, "succeeded");
    const turns = await sql()<{ ms: number }[]>`
      select (extract(epoch from (metadata->>'at')::timestamptz) * 1000)::float8 as ms from run_events
      where run_id = any(${ids}) and metadata->>'kind' = 'turn_taken' order by 1`;
    expect(turns).toHaveLength(3);
    for (const [nth, { ms }] of turns.entries())
      if (nth > 0) expect(ms - (turns[nth - 1]?.ms ?? 0)).toBeGreaterThanOrEqual(99);
    await nothingLeft(...ids);
  });

  it("a step that waits is cancelled with its run, and nothing is left", async () => {
    await begin();
    const key = newKey();
    const first = await startOf("hourly-call", key);
    await ends(first, "succeeded");
    const second = await startOf("hourly-call", key);
    await waits(second);
    expect(await turnOf(second)).toBeGreaterThan(0);
    await nothingUnwatched(sql());
    await cancelled(second);
    await ends(second, "cancelled");
    await nothingLeft(first, second);
  });
});
