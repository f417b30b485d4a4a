// A saga with a parallel, a foreach, a sub-saga and a loop fails late, or is cancelled while a branch has an open dispatch. Its node
// dies before or after every commit on the way, and another node continues. Every effect is undone exactly once.
// @module-tag both

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Dispatch, RunCommand, RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { SagaError } from "../../src/errors.js";
import { uuidv7 } from "../../src/ids.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { newRunId } from "../harness/ids.js";
import { long } from "../harness/long.js";
import { until } from "../harness/until.js";
import { type Deed, expectSettled, familiesEnd, undoOf, undoViolations } from "./family-laws.js";
import type { Outcome } from "./hand-dispatcher.js";
import { type Death, Mortals } from "./mortal.js";
import { cancel, type Half, publish, registerActions, type Step, start, startHalf } from "./rig.js";
import { report } from "./seen.js";

const MINUTE_MS = 60_000;

const charge = (id: string, more: Record<string, unknown> = {}): Step => ({
  ...{ id, type: "action", action: "shop.charge", inputs: { of: id } },
  ...{ compensation: { action: "shop.refund", inputs: { of: id } }, ...more },
});

const blocks: Step[] = [
  { id: "p", type: "parallel", branches: { a: { next: "pa" }, b: { next: "pb" } }, next: "j" },
  charge("pa"),
  charge("pb", { next: "pb2" }),
  { id: "pb2", type: "set_var", name: "x", value: 1 },
  { id: "j", type: "join", next: "f" },
  { id: "f", type: "foreach", items: "[1, 2]", body: "fb", max_concurrency: 2, next: "sub" },
  charge("fb"),
  { id: "sub", type: "sub_saga", workflow_id: "child", next: "w" },
  { id: "w", type: "while", condition: "iteration < 2", body: "wb", next: "last" },
  charge("wb"),
];
const failing: Step[] = [...blocks, { id: "last", type: "error", code: "late" }];
const open: Step[] = [
  ...blocks,
  { id: "last", type: "parallel", branches: { a: { next: "la" }, b: { next: "lb" } }, next: "lj" },
  charge("la", { next: "lw" }),
  { id: "lw", type: "wait_for_signal", signal_name: "never" },
  { id: "lb", type: "foreach", items: "[1]", body: "slow" },
  charge("slow"),
  { id: "lj", type: "join" },
];

let database: TestDatabase;
/** Effects that happened or may have, by the idempotency key of the forward step. */
const happened = new Set<string>();
const deeds: Deed[] = [];
const mortals = new Mortals();
let node: Half;
/** For each root to be cancelled, the one cancel that its client repeats until it is answered. */
const cancels = new Map<string, Promise<void>>();

beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
  await registerActions(database, "charge", "refund");
  await publish(database, "child", [
    { id: "cp", type: "parallel", branches: { only: { next: "c1" } }, next: "cj" },
    charge("c1"),
    { id: "cj", type: "join" },
  ]);
  await publish(database, "failing", failing);
  await publish(database, "open", open);
});
afterAll(() => database.drop());

/** Like a client or a worker: the same command under the same id, until a living node has answered. */
async function insist(runId: RunId, command: RunCommand, id: string): Promise<void> {
  const given = async () => {
    if (mortals.isOver(runId)) return false;
    await node.runtime.command(runId, command, { id, reach: EVERYTHING });
    return true;
  };
  const again = (error: unknown) => {
    if (error instanceof SagaError && error.status === 503) return false;
    throw error;
  };
  await until(() => given().catch(again), { within: MINUTE_MS, what: "an answer" });
}

/** The open dispatch: its root is cancelled now, and when that is durable the worker answers. */
function slowly(dispatch: Dispatch): void {
  const { runId, dispatchId, call } = dispatch;
  const root = mortals.rootOf(runId);
  if (!cancels.has(root)) cancels.set(root, insist(root, cancel, uuidv7()));
  const outcome = OUTCOMES[Number.parseInt(root.slice(-2), 16) % OUTCOMES.length] as Outcome;
  if ("result" in outcome || outcome.outcomeUnknown) happened.add(call.idempotencyKey);
  const about = { dispatchId, actor: "worker:slow" };
  const answer: RunCommand =
    "result" in outcome
      ? { type: "result", ...about, result: outcome.result }
      : { type: "failure", ...about, ...FAILED, code: outcome.code, outcomeUnknown: outcome.outcomeUnknown ?? false };
  void cancels.get(root)?.then(() => insist(runId, answer, uuidv7()));
}
const FAILED = { message: "it was stopped", retryable: true };
const OUTCOMES: readonly Outcome[] = [{ result: {} }, { code: "cut", outcomeUnknown: true }, { code: "refused" }];

function work(dispatch: Dispatch): Outcome | undefined {
  const { runId, call } = dispatch;
  const { phase, idempotencyKey: key, forwardIdempotencyKey: forwardKey } = call;
  deeds.push({ runId, phase, key, forwardKey });
  if (phase === "forward" && call.stepId === "slow") return void slowly(dispatch);
  if (phase === "forward") happened.add(key);
  return { result: {} };
}

async function awake(stepsPerCommit: number): Promise<void> {
  node = await startHalf(database, { reply: work, stepsPerCommit });
  mortals.inhabit(node);
}

/**
 * Runs families on one node until their deaths, and continues them on the next node, where they may die again. Returns the
 * number of commits of each family on the first node.
 */
async function through(workflowId: string, lives: readonly (readonly Death[])[], stepsPerCommit: number) {
  const runIds = (lives[0] ?? []).map(() => newRunId());
  // A client without an answer to its start repeats it, on the next node.
  const begin = (runId: RunId) => start(node.starter, workflowId, { runId });
  const commits: number[][] = [];
  for (const deaths of lives) {
    for (const [nth, death] of deaths.entries()) mortals.doom(runIds[nth] as RunId, death);
    await awake(stepsPerCommit);
    await Promise.allSettled(runIds.map(begin));
    await node.poller.start();
    await until(() => allOver(runIds), { within: MINUTE_MS, what: "the death of all" });
    commits.push(runIds.map((runId) => mortals.commitsOf(runId)));
    await node.stop();
  }
  mortals.spare();
  await awake(stepsPerCommit);
  await Promise.all(runIds.map(begin));
  await node.poller.start();
  await expectUndone(runIds, workflowId);
  await node.stop();
  return commits;
}

async function allOver(runIds: readonly string[]): Promise<boolean> {
  const rows = await database.sql<{ id: string }[]>`
    select id from runs where terminal_at is not null and id = any(${[...runIds]}::text[]::uuid[])`;
  const ended = new Set(rows.map(({ id }) => id));
  return runIds.every((runId) => ended.has(runId) || mortals.isOver(runId));
}

async function expectUndone(runIds: readonly string[], workflowId: string): Promise<void> {
  const families = await familiesEnd(database.sql, runIds);
  await Promise.all(cancels.values());
  await expectSettled(database.sql, families);
  const list = await undoOf(database.sql);
  for (const [root, members] of families) {
    const [run] = members;
    expect(run?.run).toMatchObject(
      workflowId === "failing" ? { state: "failed", error: { code: "late" } } : { state: "cancelled" },
    );
    const mine = new Set([...happened].filter((key) => members.some(({ id }) => key.startsWith(id))));
    const found = undoViolations(members, list, deeds, mine);
    if (found.length > 0) throw new Error(`${root}: ${found.join("\n")}`);
  }
}

const NONE: Death = { at: Number.POSITIVE_INFINITY, when: "before" };

type Case = readonly [saga: string, stepsPerCommit: number, deaths: number];

const CASES = long<readonly Case[]>(
  [
    ["failing", 64, 2],
    ["open", 1, 1],
  ],
  [
    ["failing", 1, 1],
    ["open", 64, 2],
  ],
);

describe.each(CASES)("the saga %s, up to %i steps a commit, %i deaths", (workflowId, stepsPerCommit, times) => {
  it("is undone exactly once, wherever its node dies", async () => {
    const [[most = 0] = []] = await through(workflowId, [[NONE]], stepsPerCommit);
    // Commits are grouped differently each time, so a few more than in the first run.
    const points = Array.from({ length: most + 3 }, (_, nth) => nth + 1).filter((at) => at % long(40, 8) === 0);
    const deaths = points.flatMap((at): Death[] => [
      { at, when: "before" },
      { at, when: "after" },
    ]);
    // The next node dies soon, at one of the commits with which it takes the family over.
    const soon = deaths.map(({ when }, nth): Death => ({ at: 1 + ((nth >> 1) % 7), when }));
    const commits = await through(workflowId, [deaths, soon].slice(0, times), stepsPerCommit);
    const died = deaths.filter(({ at }, nth) => commits[0]?.[nth] === at).length;
    const again = soon.filter(({ at }, nth) => commits[1]?.[nth] === at).length;
    // The last commits of a family may be grouped into fewer: of a few points, the last one is not reached by either of its families then.
    const due = deaths.filter(({ at }) => at <= most).length;
    expect(died).toBeGreaterThanOrEqual(Math.min(due * 0.9, due - 2));
    report({ saga: workflowId, stepsPerCommit, commits: most, families: deaths.length, died, again });
  });
});
