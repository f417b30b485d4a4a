// A connection cut in the middle of a commit (law 2): it is unknown whether the commit is in the database. The caller gets the true
// outcome or 503, never anything else, and a repeat under the same id gets the recorded outcome.

import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Answer, RunCommand, RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { SagaError } from "../../src/errors.js";
import { uuidv7 } from "../../src/ids.js";
import { SHARDS } from "../../src/shard/placement.js";
import { reclaim } from "../../src/store/engine/poll.js";
import { hashOfKey } from "../../src/store/engine/start-keys.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { newRunId } from "../harness/ids.js";
import { until } from "../harness/until.js";
import { CuttingProxy } from "./cutting-proxy.js";
import { cancel, type Half, publish, registerActions, signal, start, startHalf } from "./rig.js";
import { allEnd, allSound, look, nothingUnwatched, report } from "./seen.js";

let database: TestDatabase;
let proxy: CuttingProxy;
/** Shared, because a pool that lost a session takes two seconds to close. */
let node: Half;
let answering = true;

beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
  proxy = await CuttingProxy.before(database.url);
  await registerActions(database, "charge", "refund");
  const charge = { action: "shop.charge", compensation: { action: "shop.refund" } };
  await publish(database, "order", [
    { id: "pay", type: "action", ...charge, next: "wait" },
    { id: "wait", type: "wait_for_signal", signal_name: "go" },
  ]);
  await publish(database, "ask", [{ id: "ask", type: "manual_approval", assignee: "ann" }]);
  await publish(database, "wait", [{ id: "wait", type: "wait_for_signal", signal_name: "go" }]);
  const reply = () => (answering ? { result: {} } : undefined);
  node = await startHalf(database, { url: proxy.url, applicationName: "saga-cut", reply });
});
beforeEach(() => {
  answering = true;
  node.dispatcher.sent.length = 0;
});
afterAll(async () => {
  await node.stop();
  await proxy.close();
  await database.drop();
});

/** The effects of a lost commit are in no memory any more. The poll finds them, here without waiting until they are due. */
async function poll(): Promise<void> {
  await reclaim(database.sql, SHARDS);
  await database.sql`update wakes set due_at = now() - interval '1 s' where due_at < now() + interval '3 s'`;
  await node.poller.tick();
}

const stateIs = (runId: RunId, state: string) =>
  until(async () => (await look(database.sql, runId)).run.state === state, { what: `the state ${state}` });

const recorded = async (runId: string, id: string) => {
  const rows = await database.sql<{ answer: Answer }[]>`
    select answer from run_commands where run_id = ${runId} and command_id = ${id}
    union all
    select '{"type": "report", "stale": false}'::json from run_events where run_id = ${runId} and command_id = ${id}`;
  expect(rows).toHaveLength(1);
  return rows[0]?.answer;
};

/** Sends the command over a connection that is cut in its commit. The answer must be the recorded one, now and for a repeat. */
async function giveCut(runId: RunId, command: RunCommand, id: string, when: "before" | "after") {
  const cut = proxy.cutAt(id, when);
  const answer = await node.runtime.command(runId, command, { id, reach: EVERYTHING });
  await cut;
  expect(await recorded(runId, id)).toEqual(answer);
  expect(await node.runtime.command(runId, command, { id, reach: EVERYTHING })).toEqual(answer);
  return answer;
}

describe.each(["before", "after"] as const)("a connection cut %s the server has carried out the commit", (when) => {
  it("a signal is recorded and taken once, and gets its true answer", async () => {
    const runId = await start(node.starter, "wait");
    await stateIs(runId, "paused");
    const id = uuidv7();
    const answer = await giveCut(runId, signal(id, "go", { n: 1 }), id, when);
    expect(answer).toEqual({ type: "signal", id, matched: true });
    await allEnd(database.sql, [runId]);
    const [seen] = await allSound(database.sql, [runId]);
    expect(seen?.run.variables).toEqual({ wait: { n: 1 } });
    expect(await database.sql`select 1 from signals where run_id = ${runId}`).toHaveLength(1);
  });

  it("a submit is taken once, and gets its true answer", async () => {
    const runId = await start(node.starter, "ask");
    await stateIs(runId, "paused");
    const [task] = await database.sql<{ id: string }[]>`select id from user_tasks where run_id = ${runId}`;
    const taskId = task?.id ?? "";
    const submit = { type: "submit", taskId, result: { approved: true }, actor: "api" } as const;
    // As the API sends it: with an id that tells its repeat from a second submit.
    const cut = proxy.cutAt(taskId, when);
    const answer = await node.runtime.command(runId, submit, { reach: EVERYTHING });
    await cut;
    expect(answer).toMatchObject({ type: "submit", taskId, matched: true });
    expect(await node.runtime.command(runId, submit, { reach: EVERYTHING })).toMatchObject({ type: "closed" });
    await allEnd(database.sql, [runId]);
    const [seen] = await allSound(database.sql, [runId]);
    expect(seen?.run.variables).toEqual({ ask: { approved: true } });
    expect(await database.sql`select 1 from signals where run_id = ${runId}`).toHaveLength(1);
    const [row] = await database.sql<
      { submitted_at: Date }[]
    >`select submitted_at from user_tasks where run_id = ${runId}`;
    expect(row?.submitted_at.getTime()).toBe("submittedAt" in answer && answer.submittedAt);
  });

  it("a cancel takes effect once, and gets its true answer", async () => {
    const runId = await start(node.starter, "order");
    await stateIs(runId, "paused");
    const id = uuidv7();
    const answer = await giveCut(runId, cancel, id, when);
    expect(answer).toMatchObject({ type: "cancel", state: "compensating", alreadyTerminal: false });
    await until(async () => {
      await poll();
      return (await look(database.sql, runId)).run.state === "cancelled";
    });
    await allSound(database.sql, [runId]);
    expect(node.dispatcher.sent.map(({ call }) => call.action)).toEqual(["charge", "refund"]);
  });

  it("a worker's result counts once, and gets its true answer", async () => {
    answering = false;
    const runId = await start(node.starter, "order");
    const { dispatchId } = await until(() => node.dispatcher.sent[0]);
    const result = { type: "result", dispatchId, result: { receipt: 1 }, actor: "worker:w" } as const;
    const answer = await giveCut(runId, result, uuidv7(), when);
    expect(answer).toEqual({ type: "report", stale: false });
    await stateIs(runId, "paused");
    expect(await node.runtime.command(runId, result, { id: uuidv7(), reach: EVERYTHING })).toEqual({
      type: "report",
      stale: true,
    });
    expect(await database.sql`select 1 from run_commands where run_id = ${runId}`, "no row of its own").toHaveLength(0);
    await allSound(database.sql, [runId]);
    expect(await database.sql`select 1 from undo where owner_run_id = ${runId}`).toHaveLength(1);
  });

  it("a start makes one run, and is answered as new", async () => {
    const businessKey = uuidv7();
    const cut = proxy.cutAt(businessKey, when);
    const request = { workflowId: "wait", inputs: {}, variables: {}, dryRun: false, features: {}, actor: "api" };
    const answer = await node.starter.start({ ...request, businessKey, idempotencyKey: businessKey });
    await cut;
    expect(answer.deduplicated).toBe(false);
    const rows = await database.sql`select id from runs where business_key = ${businessKey}`;
    expect([...rows]).toEqual([{ id: answer.runId }]);
    const again = await node.starter.start({ ...request, businessKey, idempotencyKey: businessKey });
    expect(again).toMatchObject({ runId: answer.runId, deduplicated: true });
    await poll();
    await stateIs(answer.runId, "paused");
    await allSound(database.sql, [answer.runId]);
    await nothingUnwatched(database.sql);
  });

  it("a step of the run itself is taken once, and the run continues", async () => {
    const runId = newRunId();
    // The commit that starts the run and dispatches is the first one that contains the step's key.
    const cut = proxy.cutAt(`${runId}:pay:1`, when);
    await start(node.starter, "order", { runId });
    await cut;
    // Without a poll: the run repeats the effects of the lost commit when its outcome is known.
    await stateIs(runId, "paused");
    expect(node.dispatcher.sent).toHaveLength(1);
    const [seen] = await allSound(database.sql, [runId]);
    expect(seen?.events.filter(({ event_type }) => event_type === "step.dispatched")).toHaveLength(1);
    await nothingUnwatched(database.sql);
  });
});

describe("while the store is away", () => {
  it("callers get 503 in bounded time, never a false outcome, and the recorded one when the store is back", async () => {
    const runId = await start(node.starter, "wait");
    await stateIs(runId, "paused");
    const id = uuidv7();
    const cut = proxy.cutAt(id, "after").then(() => proxy.close());
    const began = performance.now();
    const given = node.runtime.command(runId, signal(id, "go"), { id, reach: EVERYTHING });
    const started = start(node.starter, "wait", { idempotencyKey: id });
    const told = await Promise.allSettled([given, started]);
    const ms = performance.now() - began;
    await cut;
    const [toSignal] = told;
    // The command took effect. Its caller does not know it, and must not get another answer.
    expect(toSignal).toMatchObject({ status: "rejected", reason: { status: 503 } });
    expect(ms).toBeLessThan(15_000);
    await proxy.open();
    const answer = await insist(runId, signal(id, "go"), id);
    expect(answer).toEqual({ type: "signal", id, matched: true });
    expect(await recorded(runId, id)).toEqual(answer);
    const again = await until(() => start(node.starter, "wait", { idempotencyKey: id }).catch(() => undefined));
    const [, first] = told;
    if (first.status === "fulfilled") expect(again).toBe(first.value);
    expect(await database.sql`select 1 from start_keys where key = ${hashOfKey(id)}`).toHaveLength(1);
    await poll();
    await allEnd(database.sql, [runId]);
    await allSound(database.sql, [runId, again]);
    report({ toldAfterMs: ms });
  });
});

async function insist(runId: RunId, command: RunCommand, id: string): Promise<Answer> {
  return until(
    () =>
      node.runtime.command(runId, command, { id, reach: EVERYTHING }).catch((error: unknown) => {
        if (error instanceof SagaError && error.status === 503) return undefined;
        throw error;
      }),
    { what: "an answer" },
  );
}

describe("sessions terminated at random under load", { tags: "long" }, () => {
  it("lose nothing and repeat nothing: every answer is the recorded one", async () => {
    await node.poller.start();
    const runIds = await Promise.all(Array.from({ length: 30 }, () => start(node.starter, "order")));
    for (const runId of runIds) await stateIs(runId, "paused");
    let terminated = 0;
    let over = false;
    const commits = async () => (await node.metrics.commits.get()).values[0]?.value ?? 0;
    const killer = (async () => {
      while (!over) {
        // A few commits pass between two cuts; otherwise nothing would ever pass.
        const before = await commits();
        const rows = await database.sql`
          select pg_terminate_backend(pid) from pg_stat_activity
          where application_name = 'saga-cut' and datname = current_database() and state = 'active'
            and query ~ '(patience|run_update) as materialized' limit 1`;
        terminated += rows.length;
        if (rows.length > 0) await until(async () => over || (await commits()) > before + 3);
      }
    })();
    const answers: { runId: RunId; id: string; answer: Answer }[] = [];
    const give = async (runId: RunId, command: RunCommand, id: string) => {
      answers.push({ runId, id, answer: await insist(runId, command, id) });
    };
    let dispatches = 0;
    await until(
      async () => {
        await Promise.all(
          runIds.map(async (runId) => {
            const id = uuidv7();
            await give(runId, signal(id, "stray", { id }), id);
          }),
        );
        return terminated >= 8;
      },
      { what: "eight terminated commits" },
    ).finally(() => {
      over = true;
    });
    await killer;
    await Promise.all(
      runIds.map(async (runId, nth) => {
        const id = uuidv7();
        await give(runId, nth % 2 === 0 ? cancel : signal(id, "go"), id);
      }),
    );
    await allEnd(database.sql, runIds);
    const seen = await allSound(database.sql, runIds);
    for (const { runId, id, answer } of answers) expect(await recorded(runId, id)).toEqual(answer);
    for (const { run, events } of seen) {
      const stray = answers.filter(({ runId, answer }) => runId === run.id && answer.type === "signal");
      const rows = await database.sql`select id from signals where run_id = ${run.id}`;
      expect(rows.map(({ id }) => id).sort()).toEqual(stray.map(({ id }) => id).sort());
      const logged = events.filter(({ metadata }) => metadata?.kind === "signal");
      expect(logged).toHaveLength(stray.length);
      dispatches += events.filter(({ event_type }) => event_type === "step.dispatched").length;
    }
    await nothingUnwatched(database.sql);
    report({ terminated, commands: answers.length, dispatches });
  });
});
