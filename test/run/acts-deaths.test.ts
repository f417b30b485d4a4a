// An act on a family whose node dies at one of the commits that follow, before it or after it, and is repeated under its id at the next
// node: it is done once, the whole family follows, and every effect is undone exactly once or is left to people.
// @module-tag long
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { OperatorAct, RunCommand, RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { SagaError } from "../../src/errors.js";
import { uuidv7 } from "../../src/ids.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { newRunId } from "../harness/ids.js";
import { until } from "../harness/until.js";
import { expectSettled, familiesEnd, type Member, undoOf } from "./family-laws.js";
import { breaksOnce } from "./helped.js";
import { type Death, Mortals } from "./mortal.js";
import { type Half, publish, registerActions, type Step, signal, start, startHalf } from "./rig.js";
import { look, report } from "./seen.js";

const MINUTE_MS = 60_000;
const by = { actor: "user:ops" } as const;
const breaks = { breaks: true };

const charge = (id: string, inputs: object, undo: object, next?: string): Step => ({
  ...{ id, type: "action", action: "shop.charge", inputs, ...(next && { next }) },
  compensation: { action: "shop.refund", inputs: undo },
});
const family = (a: object, b: object, undo: object, after: Step): Step[] => [
  charge("pay", {}, {}, "p"),
  { id: "p", type: "parallel", branches: { a: { next: "a" }, b: { next: "b" } }, next: "j" },
  charge("a", a, undo, "wait"),
  { id: "wait", type: "wait_for_signal", signal_name: "go" },
  { id: "b", type: "foreach", items: "[1]", body: "bb" },
  charge("bb", b, {}, "wait-b"),
  { id: "wait-b", type: "wait_for_signal", signal_name: "go" },
  { id: "j", type: "join", next: after.id },
  after,
];
const done: Step = { id: "done", type: "noop" };
const no: Step = { id: "no", type: "error", code: "no", on_failure: "rollback" };

interface Case {
  readonly act: OperatorAct;
  readonly workflow: string;
  /** The reasons for which the members of the family stand, sorted, before the act. */
  readonly at: string;
  readonly before?: OperatorAct;
  readonly end: string;
}

const WAITING = "children children signal signal";
const CASES: readonly Case[] = [
  { act: { type: "pause", ...by }, workflow: "waits", at: WAITING, end: "succeeded" },
  {
    ...{ act: { type: "resume", ...by }, workflow: "waits", before: { type: "pause", ...by } },
    ...{ at: "operator operator operator operator", end: "succeeded" },
  },
  { act: { type: "terminate", reason: "stuck", ...by }, workflow: "waits", at: WAITING, end: "cancelled" },
  { act: { type: "retry_step", ...by }, workflow: "breaks", at: "children children incident signal", end: "succeeded" },
  { act: { type: "skip_step", ...by }, workflow: "breaks", at: "children children incident signal", end: "succeeded" },
  { act: { type: "fail", ...by }, workflow: "breaks", at: "children children incident signal", end: "failed" },
  { act: { type: "retry_undo", ...by }, workflow: "stuck", at: "incident", end: "failed" },
  { act: { type: "skip_undo", ...by }, workflow: "stuck", at: "incident", end: "failed" },
  { act: { type: "terminate", reason: "stuck", ...by }, workflow: "stuck", at: "incident", end: "failed" },
  {
    act: { type: "migrate", version: 1, steps: { wait: "hold" }, ...by },
    ...{ workflow: "moves", at: "signal", end: "succeeded" },
  },
];

let database: TestDatabase;
const mortals = new Mortals();
const reply = breaksOnce();
let node: Half;

beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
  await registerActions(database, "charge", "refund");
  const head = { on_failure: "incident", on_undo_failure: "incident" };
  await publish(database, "waits", family({}, {}, {}, done), head);
  await publish(database, "breaks", family({}, breaks, {}, done), head);
  await publish(database, "stuck", family({}, {}, breaks, no), head);
  const moves = (id: string): Step[] => [charge("pay", {}, {}, id), { id, type: "wait_for_signal", signal_name: "go" }];
  await publish(database, "moves", moves("hold"), { version: 1 });
  await publish(database, "moves", moves("wait"), { version: 2 });
});
afterAll(async () => {
  await node.stop();
  await database.drop();
});

async function awake(): Promise<void> {
  node = await startHalf(database, { reply });
  mortals.inhabit(node);
  await node.poller.start();
}

interface Row {
  readonly id: RunId;
  readonly reason: string | null;
}

const openOf = (root: RunId) => database.sql<Row[]>`
  select id, paused_reason as reason from runs where terminal_at is null and (id = ${root} or root_run_id = ${root})`;
const owedTo = (root: RunId) => database.sql`
  select 1 from inbox join runs on runs.id = inbox.run_id where runs.id = ${root} or runs.root_run_id = ${root}`;

/** Like a client: under the same id, until a living node has answered. False: its node has died. */
async function insist(root: RunId, runId: RunId, command: RunCommand, id: string): Promise<boolean> {
  const given = async () => {
    if (mortals.isOver(root)) return "over";
    const answer = await node.runtime.command(runId, command, { id, reach: EVERYTHING });
    expect(answer).toMatchObject({ type: command.type === "signal" ? "signal" : "acted" });
    return "answered";
  };
  const again = (error: unknown) => {
    if (error instanceof SagaError && error.status === 503) return undefined;
    throw error;
  };
  return (await until(() => given().catch(again), { within: MINUTE_MS, what: "an answer" })) === "answered";
}

async function comeTo(root: RunId, at: string): Promise<readonly Row[]> {
  const stands = async () => {
    const rows = await openOf(root);
    const reasons = rows.map(({ reason }) => reason ?? "none").sort();
    return reasons.join(" ") === at && (await owedTo(root)).length === 0 && rows;
  };
  return until(stands, { within: MINUTE_MS, what: `the family at ${at}` });
}

interface Helped {
  readonly root: RunId;
  /** The member that gets the act, and the id of the act. */
  readonly target: RunId;
  readonly id: string;
}

async function prepare({ workflow, at, before }: Case): Promise<Helped> {
  const root = newRunId();
  mortals.doom(root, { at: Number.POSITIVE_INFINITY, when: "before" });
  await start(node.starter, workflow, { runId: root });
  const first = workflow === "breaks" || workflow === "moves" ? at : WAITING;
  let rows = await comeTo(root, first);
  if (workflow === "stuck")
    for (const { id, reason } of rows)
      if (reason === "signal") await insist(root, id, signal(uuidv7(), "go"), uuidv7());
  if (before) await insist(root, root, before, uuidv7());
  rows = await comeTo(root, at);
  const target = rows.find(({ reason }) => reason === "incident")?.id ?? root;
  return { root, target, id: uuidv7() };
}

/** Everything that still stands is resumed or gets its signal. */
async function finish(root: RunId): Promise<void> {
  const isOver = async () => {
    const rows = await openOf(root);
    for (const { id, reason } of rows) {
      if (reason === "operator" && id === root) await insist(root, root, { type: "resume", ...by }, uuidv7());
      if (reason === "signal") await insist(root, id, signal(uuidv7(), "go"), uuidv7());
    }
    return rows.length === 0;
  };
  await until(isOver, { within: MINUTE_MS, what: "the end of the family" });
}

/** Each entry of the undo lists is settled once, newest first, and the act is in the log of its run once. */
async function expectOnce({ act, end }: Case, { root, target }: Helped, members: readonly Member[]): Promise<void> {
  expect(members.find(({ id }) => id === root)?.run.state).toBe(end);
  const of = members.find(({ id }) => id === target);
  const acts =
    of?.events.filter(({ event_type: type, metadata }) => type === "log" && metadata?.kind === act.type) ?? [];
  // A resumed run was paused before; a paused one is resumed at the end.
  expect(acts).toHaveLength(1);
  const ids = new Set(members.map(({ id }) => id));
  const list = (await undoOf(database.sql)).filter(({ owner }) => ids.has(owner));
  expect(new Set(list.map(({ key }) => key)).size).toBe(list.length);
  const states = list.map(({ state }) => state);
  if (end !== "failed") expect(new Set(states)).toEqual(new Set(["owed"]));
  // What was undone before stays undone.
  else if (act.type === "terminate") expect(states.filter((state) => state !== "done")).toContain("owed");
  else if (act.type === "skip_undo") expect(states.filter((state) => state !== "done")).toEqual(["failed"]);
  else expect(new Set(states)).toEqual(new Set(["done"]));
}

/** The number of the commit after the act. */
const POINTS = [1, 3, 6];

describe("an act on a family whose node dies at a commit that follows", () => {
  it("is done once, and the next node brings the family to its end", async () => {
    const deaths = POINTS.flatMap((at): Death[] => [
      { at, when: "before" },
      { at, when: "after" },
    ]);
    const all = CASES.flatMap((one) => deaths.map((death) => ({ one, death })));
    await awake();
    const helped = await Promise.all(all.map(async ({ one, death }) => ({ one, death, of: await prepare(one) })));
    for (const { death, of } of helped) mortals.doom(of.root, death);
    await Promise.all(helped.map(({ one, of }) => insist(of.root, of.target, one.act, of.id)));
    // What follows from the act is done, or its node is dead.
    await until(async () => {
      for (const { of } of helped) if (!mortals.isOver(of.root) && (await owedTo(of.root)).length > 0) return false;
      return true;
    });
    const died = helped.filter(({ of }) => mortals.isOver(of.root)).length;
    await node.stop();

    mortals.spare();
    await awake();
    await Promise.all(helped.map(({ one, of }) => insist(of.root, of.target, one.act, of.id)));
    await Promise.all(helped.map(({ of }) => finish(of.root)));
    const families = await familiesEnd(
      database.sql,
      helped.map(({ of }) => of.root),
    );
    await expectSettled(database.sql, families);
    for (const { one, of } of helped) await expectOnce(one, of, families.get(of.root) ?? []);
    for (const { one, of } of helped) {
      await insist(of.root, of.target, one.act, of.id);
      expect((await look(database.sql, of.root)).run.state).toBe(one.end);
    }
    await node.stop();
    // Every act has at least its own commit.
    expect(died).toBeGreaterThanOrEqual(2 * CASES.length);
    report({ families: helped.length, died });
  });
});
