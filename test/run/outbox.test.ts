// A node that dies between commit and send (law 5): the effects that it owes are in the database, and another node on the same
// database carries them out, unchanged.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Dispatch } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { cancel, type Half, type HalfOptions, publish, registerActions, start, startHalf } from "./rig.js";
import { allEnd, allSound, nothingUnwatched, report, type Seen } from "./seen.js";

const RUNS = 20;

let database: TestDatabase;
const halves: Half[] = [];

beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
  await registerActions(database, "charge", "refund", "ship");
  const charge = { action: "shop.charge", inputs: { of: "${run.id}" }, compensation: { action: "shop.refund" } };
  await publish(database, "beats", [{ id: "pay", type: "action", action: "shop.charge", heartbeat_timeout_ms: 1_000 }]);
  await publish(database, "order", [
    { id: "pay", type: "action", ...charge, next: "ship" },
    { id: "ship", type: "action", action: "shop.ship" },
  ]);
});
afterEach(async () => {
  for (const half of halves.splice(0)) await half.stop();
});
afterAll(() => database.drop());

async function half(options: HalfOptions = {}): Promise<Half> {
  const started = await startHalf(database, options);
  halves.push(started);
  return started;
}

const startAll = ({ starter }: Half) => Promise.all(Array.from({ length: RUNS }, () => start(starter, "order")));

const byId = (dispatches: readonly Dispatch[]) =>
  [...dispatches].sort((left, right) => (left.dispatchId < right.dispatchId ? -1 : 1));

const dispatchedIds = ({ events }: Seen) =>
  events.filter(({ event_type }) => event_type === "step.dispatched").map(({ metadata }) => metadata?.dispatch_id);

/** Every run of `order` must end with one dispatch of each of these steps, and no unanswered one. */
async function allEnded(runIds: readonly string[], state: string, dispatches: number): Promise<void> {
  await allEnd(database.sql, runIds);
  for (const seen of await allSound(database.sql, runIds)) {
    expect(seen.run.state).toBe(state);
    expect(dispatchedIds(seen)).toHaveLength(dispatches);
  }
  await nothingUnwatched(database.sql);
  const [row] = await database.sql`select count(*)::int as owed from outbox`;
  expect(row?.owed).toBe(0);
}

describe("a node that dies after its commit and before its send", () => {
  it("leaves its dispatches to another node, which sends them with the same id, key, attempt and deadline", async () => {
    const dying = await half();
    dying.dispatcher.drops = () => true;
    const runIds = await startAll(dying);
    await until(() => dying.dispatcher.dropped.length === RUNS);
    expect(dying.dispatcher.sent).toEqual([]);
    await dying.stop();

    const began = performance.now();
    const heir = await half();
    await heir.poller.start();
    await allEnded(runIds, "succeeded", 2);
    const taken = heir.dispatcher.sent.filter(({ call }) => call.action === "charge");
    expect(byId(taken)).toEqual(byId(dying.dispatcher.dropped));
    expect(new Set(taken.map(({ call }) => call.idempotencyKey)).size).toBe(RUNS);
    report({ runs: RUNS, takenOverAndEndedMs: performance.now() - began });
  });

  it("leaves dispatches to another node that listens to their workers before it judges their silence", async () => {
    const dying = await half();
    dying.dispatcher.drops = () => true;
    const runId = await start(dying.starter, "beats");
    const [lost] = await until(() => dying.dispatcher.dropped.length === 1 && dying.dispatcher.dropped);
    await dying.stop();
    // The heartbeat is overdue by the time the run is looked at.
    await database.sql`update wakes set due_at = now() - interval '1 s' where run_id = ${runId}`;
    await until(async () => {
      const [row] = await database.sql`
        select 1 from runs where id = ${runId} and to_timestamp((record #>> '{wait,heartbeatAt}')::float8 / 1000) < now()`;
      return row;
    });
    const heir = await half();
    await heir.poller.start();
    await allEnd(database.sql, [runId]);
    expect(heir.dispatcher.sent).toEqual([lost]);
    await nothingUnwatched(database.sql);
  });

  it("owes a dispatch over gRPC by the run's rows, until the run was looked at in vain: then by a row of its own", async () => {
    const silent = await half({ reply: () => undefined });
    const runId = await start(silent.starter, "order");
    const [{ dispatchId }] = await until(
      () => silent.dispatcher.sent.length === 1 && (silent.dispatcher.sent as [Dispatch]),
    );
    const rows = () => database.sql`select id from outbox where run_id = ${runId}`;
    const isSoon = () => database.sql`
      select 1 from wakes where run_id = ${runId} and due_at between now() and now() + interval '10 s'`;
    expect([await rows(), (await isSoon()).length]).toEqual([[], 1]);
    await database.sql`update wakes set due_at = now() - interval '1 s' where run_id = ${runId}`;
    await silent.poller.tick();
    await until(async () => (await rows()).length === 1);
    expect([await rows(), (await isSoon()).length]).toEqual([[{ id: dispatchId }], 0]);
    const result = { type: "result", dispatchId, result: {}, actor: "worker:w" } as const;
    await silent.runtime.command(runId, result, { reach: EVERYTHING });
    expect(await database.sql`select 1 from outbox where id = ${dispatchId}`).toEqual([]);
    await silent.runtime.command(runId, { type: "terminate", reason: "enough", actor: "api" }, { reach: EVERYTHING });
  });

  it("leaves queued calls to another node, with their dispatch ids", async () => {
    const dying = await half();
    dying.dispatcher.credit = false;
    const runIds = await startAll(dying);
    const owed = await until(async () => {
      const rows = await database.sql<{ id: string }[]>`
        select record #>> '{wait,dispatchId}' as id from runs where id = any(${runIds}) and record #>> '{wait,kind}' = 'queued'`;
      return rows.length === RUNS && rows.map(({ id }) => id).sort();
    });
    expect(dying.dispatcher.forgetQueue()).toBe(RUNS);
    await dying.stop();

    const heir = await half();
    await heir.poller.start();
    await allEnded(runIds, "succeeded", 2);
    const taken = heir.dispatcher.sent.filter(({ call }) => call.action === "charge");
    expect(taken.map(({ dispatchId }) => dispatchId).sort()).toEqual(owed);
  });

  it("leaves the undos of a rollback in progress to another node", async () => {
    const fails = ({ call }: Dispatch) =>
      call.action === "ship" ? { code: "no_stock", retryable: false } : { result: {} };
    const dying = await half({ reply: fails });
    dying.dispatcher.drops = ({ call }) => call.phase === "compensation";
    const runIds = await startAll(dying);
    await until(() => dying.dispatcher.dropped.length === RUNS);
    await dying.stop();

    const heir = await half({ reply: fails });
    await heir.poller.start();
    await allEnded(runIds, "failed", 3);
    expect(byId(heir.dispatcher.sent)).toEqual(byId(dying.dispatcher.dropped));
    const undone = heir.dispatcher.sent.map(({ call }) => call.forwardIdempotencyKey);
    expect(new Set(undone).size).toBe(RUNS);
  });

  it("leaves cancelled dispatches to another node, which awaits and undoes them", async () => {
    const dying = await half();
    dying.dispatcher.drops = () => true;
    const runIds = await startAll(dying);
    await until(() => dying.dispatcher.dropped.length === RUNS);
    const answers = await Promise.all(
      runIds.map((runId) => dying.runtime.command(runId, cancel, { reach: EVERYTHING })),
    );
    expect(new Set(answers.map((answer) => JSON.stringify(answer)))).toEqual(
      new Set(['{"type":"cancel","state":"compensating","alreadyTerminal":false}']),
    );
    await dying.stop();

    const heir = await half();
    await heir.poller.start();
    await allEnded(runIds, "cancelled", 2);
    expect(heir.dispatcher.sent.map(({ call }) => call.action).sort()).toEqual([
      ...Array(RUNS).fill("charge"),
      ...Array(RUNS).fill("refund"),
    ]);
  });

  it("and comes back, has only stale answers: the run keeps the first one", async () => {
    const frozen = await half();
    frozen.dispatcher.drops = () => true;
    const runId = await start(frozen.starter, "order");
    const dispatch = await until(() => frozen.dispatcher.dropped[0]);
    const heir = await half({ reply: () => ({ result: { by: "heir" } }) });
    await heir.poller.start();
    await allEnd(database.sql, [runId]);
    const { dispatchId } = dispatch;
    const late = { type: "result", dispatchId, result: { by: "frozen" }, actor: "worker:late" } as const;
    expect(await frozen.runtime.command(runId, late, { reach: EVERYTHING })).toEqual({ type: "report", stale: true });
    frozen.runtime.advance(runId);
    const [seen] = await allSound(database.sql, [runId]);
    expect(seen?.run.variables).toEqual({ pay: { by: "heir" }, ship: { by: "heir" } });
  });
});
