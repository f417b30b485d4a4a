// Two runtimes on one database carry out commands for the same runs (law 6 allows it to a node that does not own a run). Each run
// has one history, and every caller gets the recorded answer.

import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type Answer, asRunId, type RunCommand, type RunCommit, type RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { SagaError } from "../../src/errors.js";
import { uuidv7 } from "../../src/ids.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { newRunId } from "../harness/ids.js";
import { until } from "../harness/until.js";
import { Gate, holdBack } from "./gate.js";
import { cancel, type Half, type HalfOptions, publish, registerActions, signal, start, startHalf } from "./rig.js";
import { allEnd, allSound, look, nothingUnwatched, report, typesOf } from "./seen.js";

const TICKS = 5;

let database: TestDatabase;
let halves: Half[] = [];

beforeAll(async () => {
  database = await createTestDatabase({ max: 6 });
  await registerActions(database, "charge", "refund");
  const charge = { action: "shop.charge", compensation: { action: "shop.refund" } };
  await publish(database, "ticks", [
    { id: "begin", type: "set_var", name: "n", value: 0, next: "pay" },
    { id: "pay", type: "action", ...charge, next: "wait" },
    { id: "wait", type: "wait_for_signal", signal_name: "tick", save_as: "tick", next: "count" },
    { id: "count", type: "set_var", name: "n", value: "${vars.n + 1}", next: "more" },
    { id: "more", type: "switch", cases: [{ when: `vars.n < ${TICKS}`, next: "wait" }], default: "ship" },
    { id: "ship", type: "action", action: "shop.charge", next: "done" },
    { id: "done", type: "end", output: "${vars.n}" },
  ]);
  await publish(database, "wait", [{ id: "wait", type: "wait_for_signal", signal_name: "go" }]);
  await publish(database, "ends", [{ id: "end", type: "end" }]);
  await publish(database, "spawn", [
    { id: "spawn", type: "spawn_saga", workflow_id: "ends", idempotency_key: "${inputs.key}", next: "end" },
    { id: "end", type: "end", output: "${vars.spawn.run_id}" },
  ]);
  await publish(database, "ask", [{ id: "ask", type: "collect_input", assignee: "ann", form_schema: {} }]);
  await publish(database, "pay", [{ id: "pay", type: "action", action: "shop.charge", heartbeat_timeout_ms: 60_000 }]);
});
afterEach(async () => {
  for (const half of halves.splice(0)) await half.stop();
});
afterAll(() => database.drop());

async function pair(options: HalfOptions = {}): Promise<readonly [Half, Half]> {
  const one = await startHalf(database, options);
  const other = await startHalf(database, { applicationName: "saga-other", ...options });
  halves = [one, other];
  return [one, other];
}

/** Like a client: the same command under the same id, until there is an outcome. */
async function insist(half: Half, runId: RunId, command: RunCommand, id: string): Promise<Answer> {
  return until(
    () =>
      half.runtime.command(runId, command, { id, reach: EVERYTHING }).catch((error: unknown) => {
        if (error instanceof SagaError && error.status === 503) return undefined;
        throw error;
      }),
    { what: "an answer" },
  );
}

interface Given {
  readonly runId: string;
  readonly id: string;
  readonly command: RunCommand;
  readonly answers: Answer[];
}

const recorded = async ({ runId, id }: Pick<Given, "runId" | "id">) => {
  const [row] = await database.sql<{ answer: Answer }[]>`
    select answer from run_commands where run_id = ${runId} and command_id = ${id}`;
  return row?.answer;
};

describe("commands for the same runs on two nodes", () => {
  it("leave one sound history, each signal once, and only recorded answers", async () => {
    const [one, other] = await pair();
    for (const half of [one, other]) await half.poller.start();
    // A worker's answer may arrive on either node.
    one.dispatcher.answerTo = ({ attempt }) => (attempt % 2 === 0 ? one : other).runtime;
    const runIds = await Promise.all(
      Array.from({ length: 24 }, (_, nth) => start((nth % 2 === 0 ? one : other).starter, "ticks")),
    );
    const given: Given[] = [];
    const give = async (runId: RunId, id: string, command: RunCommand) => {
      const entry: Given = { runId, id, command, answers: [] };
      given.push(entry);
      // One command, sent to both nodes at once.
      entry.answers.push(...(await Promise.all([one, other].map((half) => insist(half, runId, command, id)))));
    };
    await Promise.all(
      runIds.map(async (runId, nth) => {
        for (let round = 0; round < TICKS + 1; round++) {
          one.runtime.advance(runId);
          other.runtime.advance(runId);
          const ids = [uuidv7(), uuidv7()];
          await Promise.all(ids.slice(0, 1 + (round % 2)).map((id) => give(runId, id, signal(id, "tick", { round }))));
          if (nth % 3 === 0 && round === 2) await give(runId, uuidv7(), cancel);
        }
      }),
    );
    await allEnd(database.sql, runIds);
    const seen = await allSound(database.sql, runIds);
    await nothingUnwatched(database.sql);

    for (const entry of given) {
      expect(entry.answers[1]).toEqual(entry.answers[0]);
      if (entry.command.type === "signal") expect(await recorded(entry)).toEqual(entry.answers[0]);
    }
    for (const { run, events } of seen) {
      const signals = await database.sql<{ id: string; consumed_at: Date | null }[]>`
        select id, consumed_at from signals where run_id = ${run.id}`;
      const ours = given.filter(({ runId, command }) => runId === run.id && command.type === "signal");
      expect(signals.map(({ id }) => id).sort()).toEqual(ours.map(({ id }) => id).sort());
      const rows = events
        .filter(({ metadata }) => metadata?.kind === "signal")
        .map(({ metadata }) => metadata?.signal_id);
      expect(new Set(rows).size).toBe(rows.length);
      const taken = signals.filter(({ consumed_at }) => consumed_at !== null).map(({ id }) => id);
      expect(taken.length).toBe(Number(run.variables.n));
      for (const { id, answers } of ours)
        if (answers[0]?.type === "signal" && answers[0].matched) expect(taken).toContain(id);
    }
    const ended = (state: string) => seen.filter(({ run }) => run.state === state).length;
    expect(ended("succeeded") + ended("cancelled")).toBe(runIds.length);
    expect(ended("cancelled")).toBe(8);
    const conflicts = (await one.conflicts()) + (await other.conflicts());
    expect(conflicts).toBeGreaterThan(0);
    report({ runs: runIds.length, commands: given.length, conflicts });
  });
});

describe("a command repeated on the other runtime", () => {
  it("gets the recorded answer: a signal", async () => {
    const [one, other] = await pair();
    const runId = await start(one.starter, "wait");
    await until(async () => (await look(database.sql, runId)).run.state === "paused");
    const id = uuidv7();
    const first = await one.runtime.command(runId, signal(id, "go"), { id, reach: EVERYTHING });
    expect(first).toEqual({ type: "signal", id, matched: true });
    expect(await other.runtime.command(runId, signal(id, "go"), { id, reach: EVERYTHING })).toEqual(first);
    expect(await one.runtime.command(runId, signal(id, "go"), { id, reach: EVERYTHING })).toEqual(first);
    const [row] = await database.sql`select count(*)::int as count from signals where run_id = ${runId}`;
    expect(row?.count).toBe(1);
  });

  it("gets the recorded answer: a cancel that ended the run", async () => {
    const [one, other] = await pair();
    const runId = await start(one.starter, "wait");
    await until(async () => (await look(database.sql, runId)).run.state === "paused");
    const id = uuidv7();
    const first = await one.runtime.command(runId, cancel, { id, reach: EVERYTHING });
    expect(first).toEqual({ type: "cancel", state: "cancelled", alreadyTerminal: false });
    expect(await other.runtime.command(runId, cancel, { id, reach: EVERYTHING })).toEqual(first);
    const fresh = await other.runtime.command(runId, cancel, { id: uuidv7(), reach: EVERYTHING });
    expect(fresh).toEqual({ type: "cancel", state: "cancelled", alreadyTerminal: true });
  });

  it("gets the recorded answer: a submit, unlike a second submit", async () => {
    const [one, other] = await pair();
    const runId = await start(one.starter, "ask");
    await until(async () => (await look(database.sql, runId)).run.state === "paused");
    const [task] = await database.sql<{ id: string }[]>`select id from user_tasks where run_id = ${runId}`;
    const submit = { type: "submit", taskId: task?.id ?? "", result: { n: 1 }, actor: "api" } as const;
    const [id, second] = [uuidv7(), uuidv7()];
    const first = await one.runtime.command(runId, submit, { id, reach: EVERYTHING });
    expect(first).toMatchObject({ type: "submit", matched: true });
    expect(await other.runtime.command(runId, submit, { id, reach: EVERYTHING })).toEqual(first);
    const refused = await other.runtime.command(runId, submit, { id: second, reach: EVERYTHING });
    expect(refused).toMatchObject({ type: "closed" });
    expect(await one.runtime.command(runId, submit, { id: second, reach: EVERYTHING })).toEqual(refused);
  });

  it("gets the recorded answer: a worker's result", async () => {
    const [one, other] = await pair({ reply: () => undefined });
    const runId = await start(one.starter, "pay");
    const { dispatchId } = await until(() => one.dispatcher.sent[0]);
    const id = uuidv7();
    const result = { type: "result", dispatchId, result: { receipt: 1 }, actor: "worker:w" } as const;
    const first = await one.runtime.command(runId, result, { id, reach: EVERYTHING });
    expect(first).toEqual({ type: "report", stale: false });
    expect(await other.runtime.command(runId, result, { id, reach: EVERYTHING })).toEqual(first);
    const again = { ...result, result: { receipt: 2 } };
    expect(await other.runtime.command(runId, again, { id: uuidv7(), reach: EVERYTHING })).toEqual({
      type: "report",
      stale: true,
    });
    const [seen] = await allSound(database.sql, [runId]);
    expect(seen?.run.variables).toEqual({ pay: { receipt: 1 } });
  });
});

describe("a run that moves from one runtime to the other", () => {
  it("finds an action that was registered on the other node a moment ago", async () => {
    const [one] = await pair();
    await registerActions(database, "novelty");
    await publish(database, "new", [{ id: "pay", type: "action", action: "shop.novelty" }]);
    const runId = await start(one.starter, "new");
    await allEnd(database.sql, [runId]);
    const [seen] = await allSound(database.sql, [runId]);
    expect(seen?.run.state).toBe("succeeded");
  });

  it("keeps the time of its last event through a command that records none", async () => {
    const [one, other] = await pair({ reply: () => undefined });
    const runId = await start(one.starter, "pay");
    const { dispatchId } = await until(() => one.dispatcher.sent[0]);
    const beat = { type: "heartbeat", dispatchId, actor: "worker:w" } as const;
    expect(await other.runtime.command(runId, beat, { reach: EVERYTHING })).toEqual({ type: "report", stale: false });
    const [seen] = await allSound(database.sql, [runId]);
    expect(typesOf(seen?.events ?? []).at(-1)).toBe("step.dispatched");
    await other.runtime.command(
      runId,
      { type: "result", dispatchId, result: {}, actor: "worker:w" },
      { reach: EVERYTHING },
    );
    await allEnd(database.sql, [runId]);
    await allSound(database.sql, [runId]);
  });

  it("answers a start with the same run id or key with the existing run", async () => {
    const [one, other] = await pair();
    const runId = newRunId();
    const ask = (half: Half) =>
      half.starter.start({
        ...{ workflowId: "wait", inputs: {}, variables: {}, dryRun: false, features: {}, actor: "api", runId },
      });
    const answers = await Promise.all(Array.from({ length: 12 }, (_, nth) => ask(nth % 2 === 0 ? one : other)));
    expect(new Set(answers.map((answer) => answer.runId))).toEqual(new Set([runId]));
    const keyed = await Promise.all(
      Array.from({ length: 12 }, (_, nth) =>
        start((nth % 2 === 0 ? one : other).starter, "wait", { idempotencyKey: "k" }),
      ),
    );
    expect(new Set(keyed).size).toBe(1);
    await expect(start(other.starter, "wait", { idempotencyKey: "k", inputs: { other: true } })).rejects.toMatchObject({
      status: 409,
    });
    for (const id of [runId, ...keyed]) await until(async () => (await look(database.sql, id)).run.state === "paused");
    await allSound(database.sql, [runId, ...keyed]);
    await nothingUnwatched(database.sql);
  });
});

describe("two runs that spawn under one key at the same time", () => {
  it("both name the one run that exists", async () => {
    const [one, other] = await pair();
    const gates = new Map<string, Gate>();
    const spawns = ({ runId, rows }: RunCommit) => rows.new_run?.some(({ id }) => id !== runId) === true;
    for (const half of [one, other]) holdBack(half, gates);
    const gate = new Gate(one, new Map([one, other].map((half) => [half, spawns] as const)));
    const request = { inputs: { key: uuidv7() } };
    const runIds = [newRunId(), newRunId()];
    for (const runId of runIds) gates.set(runId, gate);
    await Promise.all(
      [one, other].map((half, nth) => start(half.starter, "spawn", { ...request, runId: runIds[nth] })),
    );
    await until(() => allEnded(runIds));
    const outputs = await Promise.all(runIds.map(async (runId) => (await look(database.sql, runId)).run.output));
    expect(new Set(outputs).size).toBe(1);
    expect((await look(database.sql, asRunId(String(outputs[0])))).run.state).toBe("succeeded");
  });

  const allEnded = async (runIds: readonly string[]) =>
    (await database.sql`select 1 from runs where id = any(${runIds as string[]}) and state = 'succeeded'`).length === 2;
});

describe("a run that moves between nodes", () => {
  it("has audit times that never go back, whichever node's clock is ahead", async () => {
    const fast = await startHalf(database, { applicationName: "saga-other", ahead: 60_000 });
    const slow = await startHalf(database);
    halves = [fast, slow];
    const runId = await start(fast.starter, "wait");
    await until(async () => (await look(database.sql, runId)).run.state === "paused");
    await slow.runtime.command(runId, signal(uuidv7(), "go"), { reach: EVERYTHING });
    await until(async () => (await look(database.sql, runId)).run.state === "succeeded");
    const times = await database.sql<{ ordered: boolean; ended: boolean }[]>`
      select bool_and(recorded_at >= previous) as ordered, max(terminal_at) >= max(started_at) as ended from (
        select recorded_at, lag(recorded_at, 1, recorded_at) over (order by seq) as previous, r.terminal_at, r.started_at
        from run_events e join runs r on r.id = e.run_id where r.id = ${runId}) rows`;
    expect(times).toEqual([{ ordered: true, ended: true }]);
  });
});
