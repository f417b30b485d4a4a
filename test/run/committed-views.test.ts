// A run that is answered from memory looks exactly as it would if it were read from the store: after every commit of many runs, families with
// all their members among them, in every state. The seed decides the workflows, not the races.
// @module-tag both

import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { JsonObject, RunCommand, RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { uuidv7 } from "../../src/ids.js";
import { committedView, type Labels, readRuns } from "../../src/store/lists/runs.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { newRunId } from "../harness/ids.js";
import { firstSeed, long } from "../harness/long.js";
import { until } from "../harness/until.js";
import { families, optionsOf } from "../machines/families.js";
import { cancel, type Half, publish, registerActions, type Step, signal, start, startHalf } from "./rig.js";
import { report } from "./seen.js";

const FAMILIES = long(12, 60);
const SEED = firstSeed();

let database: TestDatabase;
let node: Half;
/** Every commit that was compared, as `state` or `state/paused_reason`. */
const compared = new Map<string, number>();
/** The runs of these commits: `id state`. */
const looked = new Set<string>();
const ended = new Set<RunId>();
const given = new Map<RunId, Labels>();
const looking = new Set<Promise<void>>();
const wrong: unknown[] = [];
/** Commits of each run, that may be on their way: not each of them has an event. */
const submitted = new Map<RunId, number>();

const asText = (item: JsonObject) => JSON.parse(JSON.stringify(item)) as JsonObject;

/** The run may have gone on when it is read: then that commit is not compared, but the last one of each run always is. */
async function compare(runId: RunId, seq: number, view: ReturnType<typeof committedView>): Promise<void> {
  const before = submitted.get(runId);
  const stored = (await readRuns(database.sql, EVERYTHING, [runId])).get(runId);
  if (stored?.lastSeq !== seq || submitted.get(runId) !== before) return;
  const { state, paused_reason: reason } = stored.run;
  const kind = `${state}${reason === undefined ? "" : `/${reason}`}`;
  compared.set(kind, (compared.get(kind) ?? 0) + 1);
  looked.add(`${runId} ${kind}`);
  if (stored.terminal) ended.add(runId);
  try {
    expect({ ...view, run: asText(view.run) }).toEqual({ ...stored, run: asText(stored.run) });
    // Also the order of the members, where no kept scope comes before the run's own variables.
    if (stored.run.parent_run_id === undefined) expect(JSON.stringify(view.run)).toBe(JSON.stringify(stored.run));
  } catch (error) {
    wrong.push(error);
  }
}

beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
  await registerActions(database, "charge", "refund", "notify", "strict", "break");
  node = await startHalf(database, {
    stepsPerCommit: 2,
    reply: ({ call: { action, inputs } }) => {
      if (action === "break") return { code: "broken" };
      if (action === "strict") return { code: "busy", retryable: true };
      return { result: { of: inputs.of ?? null, "-0": -0, list: [1.5, null, "ü\u{1f600}"] } };
    },
    onCommit: (runId, events, change) => {
      const last = events.at(-1);
      if (!change || !last) return;
      const view = committedView({ context: change.after, at: last.at }, last.seq, given.get(runId));
      const look = compare(runId, last.seq, view).finally(() => looking.delete(look));
      looking.add(look);
    },
  });
  const { committer } = node;
  const submit = committer.submit.bind(committer);
  committer.submit = (commit, key) => {
    const { runId, rows } = commit;
    if (rows.run_update) submitted.set(runId, (submitted.get(runId) ?? 0) + 1);
    return submit(commit, key);
  };
  await node.poller.start();
});
afterAll(async () => {
  await node.stop();
  await database.drop();
});

async function begin(workflowId: string, more: Parameters<typeof start>[2] = {}): Promise<RunId> {
  const runId = newRunId();
  if (more.labels) given.set(runId, more.labels);
  await start(node.starter, workflowId, { runId, ...more });
  return runId;
}

const act = (runId: RunId, command: RunCommand) =>
  node.runtime.command(runId, command, { id: uuidv7(), reach: EVERYTHING });

async function allEnded(runIds: readonly RunId[], within = 60_000): Promise<void> {
  const open = async () => {
    const rows = await database.sql<{ id: RunId }[]>`
      select id from runs where coalesce(root_run_id, id) = any(${runIds}::text[]::uuid[]) and terminal_at is null`;
    return rows.map(({ id }) => id);
  };
  await until(async () => (await open()).length === 0, { within, what: "the end of all runs" });
  await until(() => looking.size === 0, { what: "the last look" });
  const rows = await database.sql<{ id: RunId }[]>`
    select id from runs where coalesce(root_run_id, id) = any(${runIds}::text[]::uuid[])`;
  expect(wrong.slice(0, 3)).toEqual([]);
  expect(rows.filter(({ id }) => !ended.has(id))).toEqual([]);
}

describe("the view of a committed run", () => {
  it("of random families, with all their branches, items and sub-sagas", async () => {
    const runIds: RunId[] = [];
    for (const [nth, family] of fc.sample(families, { seed: SEED, numRuns: FAMILIES }).entries()) {
      const { program, workflows = {} } = optionsOf(family);
      const named = (document: JsonObject) =>
        JSON.parse(JSON.stringify(document).replaceAll('"sub.', `"f${nth}.`)) as JsonObject & { steps: Step[] };
      for (const each of [program, ...Object.values(workflows)]) {
        const { id, name: _, steps, ...head } = named(each.document as JsonObject);
        await publish(database, id === "test" ? `root${nth}` : String(id), steps, head as JsonObject);
      }
      const about = { dryRun: nth % 5 === 4, ...(nth % 2 === 0 && { labels: { nth: `${nth}`, a: "" } }) };
      runIds.push(await begin(`root${nth}`, { ...about, inputs: { n: 2, list: [4, 5] }, businessKey: `b${nth}` }));
    }
    const answered = async () => {
      for (const runId of runIds) await act(runId, signal(uuidv7(), "go", { by: "ann" })).catch(() => undefined);
    };
    await answered();
    const open = () =>
      database.sql`select id from runs where id = any(${runIds}::text[]::uuid[]) and terminal_at is null limit 1`;
    await until(async () => (await open()).length === 0, { within: 2_000, what: "the end" }).catch(() => undefined);
    // What waits for its time, for an operator, or for a signal that nobody sends.
    for (const runId of runIds) {
      await act(runId, cancel).catch(() => undefined);
      await act(runId, { type: "terminate", reason: "enough", actor: "api" }).catch(() => undefined);
    }
    await allEnded(runIds);
    report({ seed: SEED, runs: ended.size, ...Object.fromEntries([...compared].sort()) });
  }, 300_000);

  it("at every wait, held, retried, released, with all that a start can give", async () => {
    await publish(database, "waits", [
      { id: "set", type: "set_var", variables: { z: 1, a: "${inputs.n}", m: null, "10": true }, next: "go" },
      { id: "go", type: "wait_for_signal", signal_name: "go", timeout_ms: 60_000, next: "try" },
      { id: "try", type: "try_catch", try: "fails", catch: "caught", next: "again" },
      { id: "fails", type: "error", code: "mine", message: "no" },
      { id: "caught", type: "set_var", variables: { a: null }, next: undefined },
      {
        id: "again",
        type: "action",
        action: "shop.strict",
        retry: { max_attempts: 2, initial_backoff_ms: 1 },
        on_failure: "incident",
      },
    ] as unknown as Step[]);
    await publish(database, "reserved", [
      { id: "only", type: "action", action: "shop.charge", next: "end", compensation: { action: "shop.refund" } },
      { id: "end", type: "end", output: "vars.only" },
    ] as unknown as Step[]);
    const first = await begin("waits", {
      ...{ inputs: { n: -0 }, variables: { b: { deep: [{}, []] } }, labels: { team: "a" }, features: { x: true } },
      ...{ tenantId: uuidv7(), triggerId: uuidv7(), businessKey: "k", timeoutMs: 60_000 },
    });
    // It stands there until it was compared: an act that comes before makes it go on, and then that commit is never compared.
    const at = (runId: RunId, state: string) =>
      until(
        async () => {
          const run = (await readRuns(database.sql, EVERYTHING, [runId])).get(runId)?.run;
          return (
            `${run?.state}${run?.paused_reason ? `/${run.paused_reason}` : ""}` === state &&
            looked.has(`${runId} ${state}`)
          );
        },
        { what: `${runId} at ${state}, compared` },
      );
    await at(first, "paused/signal");
    await act(first, { type: "pause", reason: "wait", actor: "ann" });
    await at(first, "paused/operator");
    await act(first, { type: "resume", actor: "ann" });
    await act(first, signal(uuidv7(), "go"));
    await at(first, "paused/incident");
    await act(first, { type: "fail", actor: "ann" });
    node.dispatcher.credit = false;
    const queued = await begin("reserved", { rerunOf: first, labels: {} });
    await at(queued, "running");
    node.dispatcher.credit = true;
    node.dispatcher.offerAll();
    const delayed = await begin("reserved", { delayMs: 50, dryRun: true });
    await allEnded([first, queued, delayed]);
    for (const kind of ["running", "paused/signal", "paused/operator", "paused/incident", "succeeded", "failed"])
      expect([kind, compared.get(kind)]).toEqual([kind, expect.any(Number)]);
  }, 60_000);
});
