// Families as clients see them: a running node behind the API. Cancels that go depth first, children, undo lists, views and
// streams of child runs, lists and figures that leave them out, and the pruner, which takes a family only when all of it is over.
import type { AddressInfo } from "node:net";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { CommittedEvent, JsonObject } from "../../machines/index.js";
import type { RunStarter, Runs } from "../../src/run/ports.js";
import { Pruner } from "../../src/store/upkeep/pruner.js";
import { silentLog } from "../harness/database.js";
import { newRunId } from "../harness/ids.js";
import { until } from "../harness/until.js";
import { type Half, publish, registerActions, type Step, startHalf } from "../run/rig.js";
import { Client, hangUp } from "./client.js";
import { useRig } from "./rig.js";

let node: Half;
/** Every event of every run, in the order of their commits. */
const committed: CommittedEvent[] = [];
const starter: RunStarter = { start: (request) => node.starter.start(request) };
const runs: Runs = {
  command: (runId, command, options) => node.runtime.command(runId, command, options),
};
const rig = useRig({ deps: { starter, runs, canceller: runs } });

const charge = (id: string, more: Record<string, unknown> = {}): Step => ({
  ...{ id, type: "action", action: "shop.charge", inputs: { of: id } },
  ...{ compensation: { action: "shop.refund", inputs: { of: id } }, ...more },
});
const never = (id: string, more: Record<string, unknown> = {}): Step => ({
  ...{ id, type: "wait_for_signal", signal_name: "never", ...more },
});

const deep: Step[] = [
  { id: "p", type: "parallel", branches: { a: { next: "f" }, b: { next: "tb" } }, next: "j" },
  { id: "f", type: "foreach", items: "[true, false]", body: "sub", max_concurrency: 2 },
  { id: "sub", type: "sub_saga", workflow_id: "inner", inputs: { quick: "${item}" } },
  { id: "tb", type: "try_catch", try: "hold", catch: "tc", next: "after" },
  never("hold"),
  { id: "tc", type: "noop" },
  { id: "after", type: "transform", expression: "[has(vars.error), vars.kept]" },
  { id: "j", type: "join" },
];
const inner: Step[] = [
  charge("c1", { next: "ip" }),
  { id: "ip", type: "parallel", branches: { x: { next: "x1" } }, next: "ij" },
  charge("x1", { next: "x2" }),
  { id: "x2", type: "switch", cases: [{ when: "inputs.quick", next: "x4" }], default: "x3" },
  never("x3"),
  { id: "x4", type: "noop" },
  { id: "ij", type: "join" },
];

beforeAll(async () => {
  const { database } = rig;
  await registerActions(database, "charge", "refund", "note", "broken");
  await publish(database, "inner", inner);
  await publish(database, "deep", deep);
  await publish(database, "fan", [
    { id: "f", type: "foreach", items: "[1, 2]", body: "one", tolerated_failures: 2 },
    { id: "one", type: "error", code: "no" },
  ]);
  await publish(database, "brief", [{ id: "only", type: "noop" }]);
  await publish(database, "line", [
    { id: "p", type: "parallel", branches: { a: { next: "first" }, b: { next: "early" } }, next: "j" },
    { id: "first", type: "wait_for_signal", signal_name: "first", next: "late" },
    { id: "late", type: "wait_for_signal", signal_name: "go" },
    { id: "early", type: "wait_for_signal", signal_name: "go" },
    { id: "j", type: "join" },
  ]);
  await publish(database, "owing", [
    charge("good", { next: "bad" }),
    charge("bad", { compensation: { action: "shop.broken" }, next: "bare" }),
    { id: "bare", type: "action", action: "shop.note", next: "no" },
    { id: "no", type: "error", code: "late" },
  ]);
});
beforeEach(async () => {
  committed.length = 0;
  node = await startHalf(rig.database, {
    reply: ({ call }) => (call.action === "broken" ? { code: "never", retryable: false } : { result: {} }),
    onCommit: (runId, events, change) => {
      committed.push(...events);
      rig.feed.onCommit(runId, events, change);
    },
  });
});
afterEach(async () => {
  hangUp();
  await node.stop();
});
afterAll(() => node?.stop());

async function begin(workflow_id: string, more: JsonObject = {}): Promise<string> {
  const { status, body } = await rig.call("POST", "/api/v1/sagas/start", { workflow_id, ...more });
  expect(status).toBe(202);
  return body.run_id;
}

/** Ways to the end of a run, all in this process. */
const STARTS = { brief: {}, owing: { labels: { team: "a" } } };

describe("a start that waits for the end", () => {
  it.each(Object.entries(STARTS))("of %s answers what a get of the run answers", async (workflow_id, more) => {
    const about = { workflow_id, inputs: { n: [1, -0.5] }, business_key: "k", ...more };
    const { status, body } = await rig.call("POST", "/api/v1/sagas/start?wait_ms=60000", about);
    expect(status).toBe(200);
    expect(body.run).toEqual(await get(body.run_id));
    // A repeat of the run id is answered with what is stored.
    const again = { ...about, run_id: newRunId() };
    await rig.call("POST", "/api/v1/sagas/start?wait_ms=60000", again);
    const repeat = await rig.call("POST", "/api/v1/sagas/start?wait_ms=60000", again);
    expect(repeat.body).toMatchObject({ deduplicated: true, run: await get(again.run_id) });
  });
});

const get = async (path: string) => (await rig.call("GET", `/api/v1/sagas/${path}`)).body;
const children = async (id: string): Promise<JsonObject[]> => (await get(`${id}/children`)).items;
const ended = (id: string) => until(async () => ((await get(id)).terminal_at ? get(id) : undefined));

/** The branch, item or sub-saga of that place. */
async function child(id: string, place: { parent_step_id: string; parent_branch_id?: string }): Promise<JsonObject> {
  const found = (await children(id)).filter((run) =>
    Object.entries(place).every(([name, value]) => run[name] === value),
  );
  expect(found).toHaveLength(1);
  return found[0] as JsonObject;
}

/** A family at rest: one item is through, the other and a branch wait. Its runs by their places. */
async function family() {
  const root = await begin("deep", { variables: { error: "old", kept: 1 } });
  const a = String((await until(() => child(root, { parent_step_id: "p", parent_branch_id: "a" }))).id);
  const b = String((await child(root, { parent_step_id: "p", parent_branch_id: "b" })).id);
  const first = String((await until(() => child(a, { parent_step_id: "f", parent_branch_id: "0" }))).id);
  const second = String((await child(a, { parent_step_id: "f", parent_branch_id: "1" })).id);
  const done = String((await until(() => child(first, { parent_step_id: "sub" }))).id);
  const open = String((await until(() => child(second, { parent_step_id: "sub" }))).id);
  const doneX = String((await until(() => child(done, { parent_step_id: "ip" }))).id);
  const openX = String((await until(() => child(open, { parent_step_id: "ip" }))).id);
  await until(async () => (await get(openX)).awaited_signal === "never" && (await get(b)).awaited_signal === "never");
  await until(async () => (await get(first)).state === "succeeded");
  await until(async () => (await get(`${a}/undo`)).total === 2);
  return { root, a, b, first, second, done, open, doneX, openX };
}

/** The runs that have ended, in the order of their ends. */
const order = () => committed.filter(({ type }) => type.startsWith("run.")).map(({ runId }): string => runId);

describe("a cancel of a nested family", () => {
  it("goes depth first: children end before their parents, and each undoes what is in its list", async () => {
    const all = await family();
    const { root, a, b, first, second, open, doneX, openX } = all;
    expect(await get(openX)).toMatchObject({ parent_run_id: open, root_run_id: root, parent_branch_id: "x" });
    expect((await get(root)).root_run_id).toBeUndefined();
    expect((await rig.call("POST", `/api/v1/sagas/${root}/cancel`, { reason: "enough" })).status).toBe(202);
    await ended(root);
    const ends = order();
    expect(ends).toHaveLength(9);
    const pairs = [
      [openX, open],
      [open, second],
      [second, a],
      [first, a],
      [a, root],
      [b, root],
    ] as const;
    for (const [under, above] of pairs) expect(ends.indexOf(under)).toBeLessThan(ends.indexOf(above));
    for (const id of [root, a, b, second, open, openX])
      expect(await get(id)).toMatchObject({ state: "cancelled", last_error: "enough" });
    expect(await get(first)).toMatchObject({ state: "succeeded" });
    expect((await get(root)).error).toBeUndefined();
    const undo = async (id: string) => (await get(`${id}/undo`)).items;
    const done = { action: "shop.refund@1", state: "done" };
    expect(await undo(openX)).toMatchObject([{ step_id: "x1", ...done }]);
    expect(await undo(open)).toMatchObject([{ step_id: "c1", ...done }]);
    // The item that was through had handed its list over: to the branch that rolls back.
    expect(await undo(a)).toMatchObject([
      { step_id: "c1", child_run_id: all.done, ...done },
      { step_id: "x1", child_run_id: doneX, ...done },
    ]);
    const undone = (await get(`${a}/events`)).items.filter(
      ({ metadata, event_type }: JsonObject) =>
        event_type === "step.succeeded" && (metadata as JsonObject)?.phase === "compensation",
    );
    expect(undone.map(({ step_id, metadata }: JsonObject) => [step_id, (metadata as JsonObject).child_run_id])).toEqual(
      [
        ["x1", doneX],
        ["c1", all.done],
      ],
    );
    for (const id of [root, b, first, all.done]) expect(await undo(id)).toEqual([]);
  });

  it("without undo ends children before parents too, and shows what is still owed", async () => {
    const { root, a, second, open, openX } = await family();
    await rig.call("POST", `/api/v1/sagas/${root}/cancel`, { reason: "stop", compensate: false });
    await ended(root);
    const ends = order();
    const line = [openX, open, second, a, root].map((id) => ends.indexOf(id));
    expect(line).toEqual([...line].sort((left, right) => left - right));
    for (const id of [root, a, second, open, openX])
      expect(await get(id)).toMatchObject({ state: "cancelled", last_error: "stop" });
    const undo = async (id: string) => (await get(`${id}/undo`)).items as JsonObject[];
    expect((await undo(a)).map(({ state }) => state)).toEqual(["abandoned", "abandoned"]);
    // The root shows what the whole family owes, and whose it is.
    const below = (await Promise.all([a, second, open, openX].map(undo))).flat();
    const all = await undo(root);
    expect(all.map(({ state }) => state)).toEqual(below.map(() => "abandoned"));
    expect(all.map(({ step_id }) => step_id).sort()).toEqual(below.map(({ step_id }) => step_id).sort());
    expect(node.dispatcher.sent.some(({ call }) => call.phase === "compensation")).toBe(false);
    expect(committed.some(({ type }) => type === "compensation.started")).toBe(false);
  });

  it("of one branch fails its join, and the other branches are cancelled", async () => {
    const { root, a, b, open } = await family();
    await rig.call("POST", `/api/v1/sagas/${b}/cancel`, { reason: "not this" });
    const error = { code: "cancelled", message: "not this", step_id: "j" };
    expect(await ended(root)).toMatchObject({ state: "failed", error, last_error: "not this" });
    expect(await get(b)).toMatchObject({ state: "cancelled", last_error: "not this" });
    for (const id of [a, open]) expect((await get(id)).state).toBe("cancelled");
  });
});

describe("a signal", () => {
  const signal = async (id: string, name: string) => {
    const { status, body } = await rig.call("POST", `/api/v1/sagas/${id}/signal/${name}`, {});
    return [status, body.matched ?? body.recorded];
  };
  const awaits = (id: string, name: string) => until(async () => (await get(id)).awaited_signal === name);

  it("to the root is taken by its branch, not by a sub-saga, which has an id of its own", async () => {
    const { root, b, open, openX } = await family();
    expect(await signal(root, "never")).toEqual([202, true]);
    await until(async () => (await get(b)).state === "succeeded");
    expect(await signal(root, "never")).toEqual([409, true]);
    expect(await get(openX)).toMatchObject({ state: "paused", awaited_signal: "never" });
    expect(await signal(open, "never")).toEqual([202, true]);
    expect(await ended(root)).toMatchObject({ state: "succeeded" });
  });

  it("is taken by the branch that has waited longest", async () => {
    const root = await begin("line");
    const late = String((await until(() => child(root, { parent_step_id: "p", parent_branch_id: "a" }))).id);
    const early = String((await child(root, { parent_step_id: "p", parent_branch_id: "b" })).id);
    await awaits(late, "first");
    await awaits(early, "go");
    expect(await signal(root, "first")).toEqual([202, true]);
    await awaits(late, "go");
    expect(await signal(root, "go")).toEqual([202, true]);
    await until(async () => (await get(early)).state === "succeeded");
    expect((await get(late)).awaited_signal).toBe("go");
    expect(await signal(root, "go")).toEqual([202, true]);
    expect(await ended(root)).toMatchObject({ state: "succeeded" });
  });

  it("to a run that has ended is recorded, and its audit log stays closed", async () => {
    const root = await begin("brief");
    await ended(root);
    const { total } = await get(`${root}/events`);
    expect(await signal(root, "late")).toEqual([409, true]);
    expect(await get(`${root}/signals`)).toMatchObject({ total: 1, items: [{ signal_name: "late", payload: {} }] });
    expect((await get(`${root}/events`)).total).toBe(total);
  });
});

describe("a child run", () => {
  it("shows its try and its own variables; a variable that it removed is missing there only, on another node too", async () => {
    const { root, b } = await family();
    expect(await get(b)).toMatchObject({
      try_catch_stack: [{ step_id: "tb", catch_step: "tc" }],
      variables: { kept: 1 },
      workflow_id: "deep",
    });
    expect((await get(b)).variables.error).toBeUndefined();
    expect((await get(root)).variables).toEqual({ error: "old", kept: 1 });
    await node.stop();
    node = await startHalf(rig.database, { onCommit: (runId, events) => rig.feed.onCommit(runId, events) });
    expect((await rig.call("POST", `/api/v1/sagas/${root}/signal/never`, {})).status).toBe(202);
    expect(await ended(b)).toMatchObject({ state: "succeeded", output: [false, 1] });
    await rig.call("POST", `/api/v1/sagas/${root}/cancel`);
    await node.poller.start();
    await ended(root);
  });

  it("is streamed like any other, to its end", async () => {
    await rig.app.listen({ port: 0, host: "127.0.0.1" });
    const { port } = rig.app.server.address() as AddressInfo;
    const { root, b } = await family();
    const client = new Client(port, b, "?after_seq=0");
    await client.has(2);
    await rig.call("POST", `/api/v1/sagas/${root}/cancel`);
    expect(await client.closed()).toBe(1000);
    expect(client.frames[0]).toMatchObject({ type: "snapshot", run: { id: b, parent_run_id: root } });
    expect(client.frames.at(-1)).toMatchObject({ type: "end", run: { id: b, state: "cancelled" } });
    expect(client.seqs).toEqual(client.seqs.map((_, nth) => nth + 1));
    await ended(root);
  });
});

describe("a family over HTTP", () => {
  it("an undo that fails finally requires a manual review, and a step that owes nothing is not listed", async () => {
    const id = await begin("owing");
    expect(await ended(id)).toMatchObject({ state: "failed", requires_manual_review: true, error: { code: "late" } });
    expect((await get(`${id}/undo`)).items).toMatchObject([
      { ordinal: 1, step_id: "good", state: "done" },
      { ordinal: 2, step_id: "bad", state: "failed", action: "shop.broken@1" },
    ]);
    expect((await get(`${id}/undo`)).items).toHaveLength(2);
    expect((await get(`${id}/undo?limit=1&offset=1`)).items).toMatchObject([{ ordinal: 2, step_id: "bad" }]);
    const { next_cursor: next } = await get(`${id}/undo?limit=1`);
    expect((await get(`${id}/undo?limit=2&cursor=${next}`)).items).toMatchObject([{ ordinal: 2, step_id: "bad" }]);
  });

  it("lists separate roots from children, and the stats of a workflow leave children out", async () => {
    const id = await begin("fan");
    expect(await ended(id)).toMatchObject({ state: "succeeded" });
    const list = async (query: string) => (await rig.call("GET", `/api/v1/sagas?workflow_id=fan&${query}`)).body;
    expect((await list("")).total).toBe(3);
    expect((await list("root_only=true")).items.map((run: JsonObject) => run.id)).toEqual([id]);
    expect(await list(`parent_run_id=${id}`)).toMatchObject({ total: 2 });
    expect(await list(`parent_run_id=${id}&root_only=true`)).toMatchObject({ total: 0 });
    for (const run of (await list("state=failed")).items)
      expect(run).toMatchObject({
        parent_run_id: id,
        error: { code: "no", step_id: "one" },
        last_error: expect.any(String),
      });
    const { body } = await rig.call("GET", "/api/v1/workflows/fan/stats");
    expect(body).toMatchObject({ success_rate_24h: 1, in_flight: 0 });
  });

  it("the pruner keeps a family until its root has ended, and then deletes all of it", async () => {
    const { sql } = rig.database;
    const { root, first, done } = await family();
    const pruner = new Pruner(sql, silentLog, { eventDays: 30, runDays: 0 });
    await pruner.prune();
    expect((await get(first)).state).toBe("succeeded");
    expect(await children(first)).toMatchObject([{ id: done, state: "succeeded" }]);
    await rig.call("POST", `/api/v1/sagas/${root}/cancel`);
    await ended(root);
    const members = (await sql<{ id: string }[]>`select id from runs where coalesce(root_run_id, id) = ${root}`).map(
      ({ id }) => id,
    );
    expect(members).toHaveLength(9);
    await pruner.prune();
    expect((await rig.call("GET", `/api/v1/sagas/${root}`)).status).toBe(404);
    for (const table of [
      "run_starts",
      "kept_scopes",
      "run_variables",
      "run_commands",
      "signals",
      "inbox",
      "outbox",
      "wakes",
    ])
      expect(await sql`select run_id from ${sql(table)} where run_id = any(${members}::text[]::uuid[])`, table).toEqual(
        [],
      );
    expect(await sql`select id from runs where id = any(${members}::text[]::uuid[])`).toEqual([]);
    expect(await sql`select 1 from undo where owner_run_id = any(${members}::text[]::uuid[])`).toEqual([]);
  });
});
