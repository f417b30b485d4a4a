// The first steps of a run in the commit of its start: when they join it, and when the start is committed alone.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type RunCommit, type RunId, startWith } from "../../machines/index.js";
import { OutcomeUnknown } from "../../src/run/committer.js";
import type { Start } from "../../src/run/starter.js";
import { hashOfKey } from "../../src/store/engine/start-keys.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { newRunId } from "../harness/ids.js";
import { until } from "../harness/until.js";
import { creation, signal as signalRow, update } from "../store/commit-rows.js";
import { type Half, type HalfOptions, publish, registerActions, start, startHalf } from "./rig.js";
import { allSound, look, nothingUnwatched } from "./seen.js";

let database: TestDatabase;
let half: Half;
/** The commits of the half, in their order. */
let commits: RunCommit[] = [];

beforeAll(async () => {
  database = await createTestDatabase();
  await registerActions(database, "pay");
  const wait = { id: "hold", type: "wait_for_signal", signal_name: "go" };
  await publish(database, "pays", [{ id: "pay", type: "action", action: "shop.pay", next: "hold" }, wait]);
  await publish(database, "ends", [
    { id: "set", type: "set_var", name: "x", value: 1, next: "end" },
    { id: "end", type: "end" },
  ]);
  await publish(database, "forks", [
    { id: "fork", type: "parallel", branches: { a: { next: "a" }, b: { next: "b" } }, next: "join" },
    { id: "a", type: "noop" },
    { id: "b", type: "noop" },
    { id: "join", type: "join", next: "hold" },
    wait,
  ]);
  await publish(database, "tells-itself", [
    { id: "tell", type: "emit_signal", run_id: "${run.id}", signal_name: "go", next: "hold" },
    wait,
  ]);
  await publish(database, "spawns", [
    { id: "spawn", type: "spawn_saga", workflow_id: "ends", idempotency_key: "${inputs.key}", next: "hold" },
    wait,
  ]);
});
afterAll(() => database.drop());

async function open(options: HalfOptions = {}): Promise<Half> {
  half = await startHalf(database, options);
  const { committer } = half;
  const submit = committer.submit.bind(committer);
  commits = [];
  committer.submit = (commit, key) => {
    commits.push(commit);
    return submit(commit, key);
  };
  return half;
}

const stateIs = (runId: RunId, state: string) =>
  until(async () => (await look(database.sql, runId)).run.state === state, { what: `the state ${state}` });
const eventsOf = ({ rows }: RunCommit) => rows.audit_event?.map((row) => row.event_type) ?? [];
const isAlone = (commit: RunCommit | undefined) => commit !== undefined && eventsOf(commit).join() === "saga.started";

describe("the first steps of a run", () => {
  afterEach(() => half.stop());

  it("may signal the run itself, which is in no store yet", async () => {
    const { starter } = await open();
    const runId = await start(starter, "tells-itself");
    await stateIs(runId, "succeeded");
    await allSound(database.sql, [runId]);
  });

  it("join the commit of its start, the first dispatch included", async () => {
    await open({ reply: () => undefined });
    const runId = await start(half.starter, "pays");
    expect(commits).toHaveLength(1);
    expect(commits.map(eventsOf)).toEqual([["saga.started", "step.started", "step.dispatched"]]);
    await until(() => half.dispatcher.sent.length === 1);
    const [run] = await database.sql`select revision, state, current_step, last_seq from runs where id = ${runId}`;
    expect(run).toEqual({ revision: 1, state: "running", current_step: "pay", last_seq: 3 });
    await nothingUnwatched(database.sql);
  });

  it("may end it: the run is created as it has ended", async () => {
    await open();
    const runId = await start(half.starter, "ends", { variables: { x: 0, y: 2 } });
    expect(commits).toHaveLength(1);
    const { run } = await look(database.sql, runId);
    expect(run).toMatchObject({ state: "succeeded", variables: { x: 1, y: 2 } });
    const [row] = await database.sql`select ended_as from runs where id = ${runId}`;
    expect(row).toEqual({ ended_as: "succeeded" });
    expect(await database.sql`select 1 from wakes where run_id = ${runId}`).toEqual([]);
  });

  it("may create branches in it", async () => {
    await open();
    const runId = await start(half.starter, "forks");
    expect(commits[0]?.rows.new_run).toHaveLength(3);
    // At its join it waits as well, for a moment.
    await until(async () => (await look(database.sql, runId)).run.current_step === "hold");
    await stateIs(runId, "paused");
    await allSound(database.sql, [runId]);
  });

  it("have a commit of their own if they create a run under a key", async () => {
    await open();
    const key = newRunId();
    const runIds = await Promise.all([0, 1].map(() => start(half.starter, "spawns", { inputs: { key } })));
    for (const runId of runIds) await stateIs(runId, "paused");
    // The second one may find the run under the key already.
    expect(commits.filter(isAlone).length).toBeGreaterThanOrEqual(1);
    const spawned =
      await database.sql`select distinct output #>> '{}' as id from runs where id = any(${runIds}) and false`;
    expect(spawned).toEqual([]);
    expect(await database.sql`select 1 from start_keys where key = ${hashOfKey(key)}`).toHaveLength(1);
  });

  it("have a commit of their own after a node loss, so that their wake row counts the tries", async () => {
    await open({ seenNodeLoss: () => true, reply: () => undefined });
    await start(half.starter, "pays");
    expect(isAlone(commits[0])).toBe(true);
    await until(() => half.dispatcher.sent.length === 1);
  });

  it("have a commit of their own if the request is a suspect: its start alone was tried", async () => {
    const tried: string[] = [];
    await open({
      reply: () => undefined,
      gate: {
        isSuspect: (key: string) => !key.includes("\0"),
        start: async (_: unknown, key: string) => void tried.push(key),
        command: async (_: unknown, carryOut: () => Promise<unknown>) => carryOut(),
      } as never,
    });
    await start(half.starter, "pays");
    expect(tried).toHaveLength(1);
    expect(isAlone(commits[0])).toBe(true);
  });

  it("are taken once, whether a commit of unknown outcome was carried out or not", async () => {
    for (const when of ["before", "after"]) {
      await open({ reply: () => undefined });
      const { committer } = half;
      const submit = committer.submit.bind(committer);
      let cut = true;
      committer.submit = async (commit, key) => {
        const won = !cut || when === "after" ? await submit(commit, key) : false;
        if (cut) {
          cut = false;
          throw new OutcomeUnknown("cut");
        }
        return won;
      };
      const runId = await start(half.starter, "pays");
      await until(async () => (await look(database.sql, runId)).run.current_step === "pay");
      const started = (await look(database.sql, runId)).events.filter(
        ({ event_type }) => event_type === "saga.started",
      );
      expect(started).toHaveLength(1);
      await half.stop();
    }
  });
});

describe("a start and its first steps as one commit", () => {
  const start: Start["commit"] = creation();
  const steps = (share: Parameters<typeof update>[2]) => update(start.runId, 1, share, { state: "paused", step: "s" });

  it("have the state after the steps, and each variable once", () => {
    const both = startWith(start, steps({ variable: [{ name: "x", value: 1 }], wake_gone: [{}] }));
    expect(both?.rows.new_run).toMatchObject([{ id: start.runId, state: "paused", step: "s" }]);
    expect(both?.rows).not.toHaveProperty("run_update");
  });

  it.each(["signal_claim", "event_claim", "promise"] as const)("are two if the steps have a %s", (relation) => {
    expect(startWith(start, steps({ [relation]: [signalRow()] }))).toBeUndefined();
  });
});
