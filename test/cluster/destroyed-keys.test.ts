// The keys of a tenant are destroyed on a node: nothing that was sealed under them can be read again, whatever its runs were doing ends, and nothing of
// others changes. With several processes that are killed: test/faults/destroyed-keys.test.ts.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type NodeHandle, startNode } from "../../src/cluster/node.js";
import { loadConfig } from "../../src/config/index.js";
import { uuidv7 } from "../../src/ids.js";
import { createWorker, type Worker } from "../../src/sdk/worker/index.js";
import { handleAll } from "../harness/actions.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { sealingSettings } from "../harness/service.js";
import { until } from "../harness/until.js";
import { nothingUnwatched } from "../run/seen.js";

const GONE = "0190a000-0000-7000-8000-0000000000f1";
const KEPT = "0190a000-0000-7000-8000-0000000000f2";
const NEVER = "0190a000-0000-7000-8000-0000000000f3";
const sealed = sealingSettings();

// biome-ignore lint/suspicious/noExplicitAny: answers of any shape, and a test fails if the shape is wrong.
type Answer = { readonly status: number; readonly body: any };

let database: TestDatabase;
let node: NodeHandle;
let worker: Worker;
/** Called with the id of the run, and never answered. */
const hanging: string[] = [];
const undone: string[] = [];

async function ask(method: string, path: string, body?: object): Promise<Answer> {
  const response = await fetch(`http://127.0.0.1:${node.httpPort}/api/v1${path}`, {
    method,
    ...(body && { headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
  });
  return { status: response.status, body: await response.json() };
}

async function ok(method: string, path: string, body?: object) {
  const { status, body: answer } = await ask(method, path, body);
  expect([path, status < 300 ? "ok" : answer]).toEqual([path, "ok"]);
  return answer;
}

const start = async (workflow: string, tenant: string, inputs: object = { note: "my note 🙂" }): Promise<string> =>
  (await ok("POST", "/sagas/start", { workflow_id: workflow, tenant_id: tenant, inputs, variables: { given: [1.5] } }))
    .run_id;

const reaches = (run: string, what: object) =>
  until(
    async () => {
      const seen = await ok("GET", `/sagas/${run}`);
      expect(seen).toMatchObject(what);
      return seen;
    },
    { within: 20_000 },
  );

const open = async () => {
  const { config } = loadConfig({
    ...{ HTTP_PORT: "0", GRPC_PORT: "0", ...sealed, SAGA_EGRESS_ALLOW: "127.0.0.1" },
  });
  node = await startNode({ config, databaseUrl: database.url, log: silentLog });
};

const publish = (id: string, steps: readonly { readonly id: string }[], more: object = {}) =>
  ok("POST", "/workflows", { id, name: id, published: true, start: steps[0]?.id, steps, ...more });

const keep = (next: string) => ({
  ...{ id: "keep", type: "action", action: "safe.keep", inputs: { note: "${inputs.note}" }, next },
  compensation: { action: "safe.undo", inputs: { note: "${inputs.note}" } },
});
const wait = { id: "wait", type: "wait_for_signal", signal_name: "go", next: "done" };
const done = { id: "done", type: "end", output: "${inputs.note}" };

beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
  await open();
  const silent = { debug() {}, info() {}, warn() {}, error() {} };
  worker = createWorker({
    ...{ service: "safe", grpc: `127.0.0.1:${node.grpcPort}`, log: silent },
    api: `http://127.0.0.1:${node.httpPort}`,
  });
  handleAll(worker, "safe", [
    { name: "keep", execute: () => ({}) },
    {
      name: "hang",
      execute: (_, { runId, signal }) =>
        new Promise((_, reject) => {
          hanging.push(runId);
          signal.addEventListener("abort", () => reject(new Error("aborted")));
        }),
    },
    {
      name: "undo",
      execute(_, { runId }) {
        undone.push(runId);
        return {};
      },
    },
  ]);
  await worker.start();
  await publish("waits", [keep("wait"), wait, done] as never, { history: "full" });
  await publish("family", [
    { id: "each", type: "foreach", items: "[1, 2, 3]", max_concurrency: 3, body: "wait", next: "done" },
    { ...wait, next: "each" },
    done,
  ] as never);
  await publish("calls", [
    { id: "hang", type: "action", action: "safe.hang", inputs: { note: "${inputs.note}" }, next: "done" },
    done,
  ] as never);
  await publish("tries", [
    { id: "try", type: "try_catch", try: "keep", catch: "note", next: "done" },
    keep("wait"),
    { ...wait, next: "try" },
    { id: "note", type: "noop", next: "done" },
    done,
  ] as never);
  await publish("asks", [
    { id: "ask", type: "collect_input", assignee: "ann", form_schema: {}, next: "done" },
    done,
  ] as never);
  await publish("hears", [
    { id: "hear", type: "wait_for_event", topic: "paid", match: "event.payload.note == inputs.note", next: "done" },
    done,
  ] as never);
  await publish("parent", [
    { id: "sub", type: "sub_saga", workflow_id: "waits", inputs: { note: "${inputs.note}" }, next: "done" },
    done,
  ] as never);
  await publish("one", [wait, done] as never, { concurrency: { key: "${inputs.of}", limit: 1 } });
  await publish("posts", [
    {
      id: "post",
      type: "webhook_emit",
      url: "http://127.0.0.1:9/x",
      event_type: "t",
      payload: { n: "${inputs.note}" },
    },
  ] as never);
}, 60_000);
afterAll(async () => {
  await worker.stop();
  await node.stop();
  await database.drop();
});

describe("the keys of a tenant", () => {
  const runs: Record<string, string> = {};
  let ended: string;
  let other: string;
  let events: number;
  let before: object;
  let destroyed: object;

  beforeAll(async () => {
    const wanted = { waits: "signal", asks: "user_task", hears: "event", family: undefined, parent: undefined };
    for (const [workflow, reason] of Object.entries(wanted)) {
      runs[workflow] = await start(workflow, GONE);
      if (reason) await reaches(runs[workflow], { paused_reason: reason });
    }
    runs.tries = await start("tries", GONE);
    await reaches(runs.tries, { paused_reason: "signal" });
    runs.calls = await start("calls", GONE);
    await until(() => hanging.includes(runs.calls ?? ""));
    runs.holds = await start("one", GONE, { of: "k", note: "x" });
    await reaches(runs.holds, { paused_reason: "signal" });
    runs.queues = await start("one", GONE, { of: "k", note: "x" });
    await reaches(runs.queues, { paused_reason: "concurrency" });
    for (const [parent, count] of [
      [runs.family, 3],
      [runs.parent, 1],
    ] as const)
      await until(async () => (await ok("GET", `/sagas?parent_run_id=${parent}&state=paused`)).items.length === count, {
        what: `${count} children of ${parent}`,
      });
    await reaches(await start("posts", GONE), { state: "succeeded" });
    expect((await database.sql`select 1 from outbox where kind <> 'action'`).length).toBe(1);
    ended = await start("waits", GONE);
    await reaches(ended, { paused_reason: "signal" });
    await ok("POST", `/sagas/${ended}/signal/go`, { payload: { by: "me" } });
    await reaches(ended, { state: "succeeded", output: "my note 🙂" });
    // Nothing of it but its inputs is sealed.
    const plain = { workflow_id: "one", tenant_id: GONE, inputs: { note: "x", of: "another" } };
    runs.bare = (await ok("POST", "/sagas/start", plain)).run_id as string;
    await reaches(runs.bare, { paused_reason: "signal" });
    other = await start("waits", KEPT);
    await reaches(other, { paused_reason: "signal" });
    events = (await ok("GET", `/sagas/${ended}/events?limit=500`)).total;
    await owe();
    before = await ok("GET", `/data_keys/${GONE}`);
    destroyed = await ok("DELETE", `/data_keys/${GONE}`);
  }, 60_000);

  it("are counted, and nothing else is said of them", () => {
    expect(before).toEqual({ tenant_id: GONE, active: 1, destroyed: 0, unfinished_runs: 0 });
    expect(destroyed).toMatchObject({ tenant_id: GONE, active: 0, destroyed: 1, destroyed_at: expect.any(String) });
  });

  it("of a tenant that has none are nowhere, and so are those of what belongs to no tenant", async () => {
    for (const tenant of [NEVER, "00000000-0000-0000-0000-000000000000"])
      for (const method of ["GET", "DELETE"])
        expect(await ask(method, `/data_keys/${tenant}`)).toMatchObject({ status: 404, body: { error: "not_found" } });
    expect((await ask("DELETE", "/data_keys/mine")).status).toBe(400);
  });

  it("are destroyed: what was unfinished ends failed, for people to look at, and undoes nothing", async () => {
    for (const run of Object.values(runs)) {
      const seen = await reaches(run, { state: "failed", requires_manual_review: true });
      expect(seen.error).toMatchObject({ code: "key_destroyed" });
      expect(seen.inputs).toEqual({ $unreadable: "key_destroyed" });
    }
    for (const [parent, count] of [
      [runs.family, 3],
      [runs.parent, 1],
    ] as const) {
      const { items } = await ok("GET", `/sagas?parent_run_id=${parent}`);
      expect(items.map(({ state }: { state: string }) => state)).toEqual(Array(count).fill("failed"));
    }
    await until(async () => (await ok("GET", `/data_keys/${GONE}`)).unfinished_runs === 0);
    expect(undone).toEqual([]);
    // The slot of one was on its way to the other.
    await until(async () => (await database.sql`select 1 from concurrency_tickets`).length === 0);
    // Their ends are sealed under a fresh one.
    const kept =
      await database.sql`select wrapped is not null as kept from data_keys where tenant_id = ${GONE} order by number`;
    expect(kept).toEqual([{ kept: false }, { kept: true }]);
    await nothingUnwatched(database.sql);
  }, 60_000);

  it("leave a run that has ended with what was plain, and markers in place of its values", async () => {
    const seen = await ok("GET", `/sagas/${ended}`);
    expect(seen).toMatchObject({ state: "succeeded", inputs: { $unreadable: "key_destroyed" } });
    expect(seen.output).toBe("[unreadable: the key of this value was destroyed]");
    expect((await ok("GET", `/sagas/${ended}/events?limit=500`)).total).toBe(events);
    for (const [path, body] of [
      [`/sagas/${ended}/rerun`, {}],
      [`/sagas/${ended}/fork`, { step: "wait", inputs: {}, variables: {}, effects: "assume" }],
      [`/sagas/${runs.waits}/fork`, { step: "wait", inputs: {}, variables: {} }],
      [`/sagas/${runs.bare}/fork`, { step: "wait", inputs: { of: "k" }, variables: {}, effects: "assume" }],
      [`/sagas/${ended}/query`, { expression: "inputs.note" }],
    ] as const)
      expect([path, await ask("POST", path, body)]).toEqual([
        path,
        { status: 409, body: expect.objectContaining({ error: "key_destroyed" }) },
      ]);
  });

  /** What is owed, and is not due before the keys are gone: with a value of the tenant, wherever it was sealed. */
  async function owe(): Promise<void> {
    const [{ value = "" } = {}] = await database.sql<{ value: string }[]>`
      select inputs::text as value from run_starts where run_id = ${runs.bare ?? ""}`;
    const command = `{"type":"signal","id":"${uuidv7()}","name":"go","payload":${value},"actor":"api"}`;
    const shard = Number.parseInt(other.slice(-2), 16);
    await database.sql`
      insert into inbox (id, run_id, shard, command, due_at)
      values (${uuidv7()}, ${other}, ${shard}, ${command}::text::json, now() + interval '1 hour')`;
    await database.sql`
      insert into trigger_fires (id, trigger_id, workflow_id, scheduled_at, fired_at, inputs, due_at)
      values (${uuidv7()}, ${uuidv7()}, 'waits', now(), now(), ${value}::text::json, now() + interval '1 hour')`;
    await database.sql`
      insert into outgoing_events (id, run_id, shard, topic, payload) values (${uuidv7()}, ${other}, ${shard}, 't', ${value}::text::json)`;
    await database.sql`
      insert into bulk_jobs (id, shard, action, filter, params, state, matched, actor, reach, request_hash)
      values (${uuidv7()}, ${shard}, 'pause', '{}', ${`{"reason":${value}}`}::text::json, 'running', 0, 'api', '{"tenants": "*"}', '')`;
  }

  it("drop what was owed and cannot be sent any more", async () => {
    const owed = async () => {
      const [row] = await database.sql`
        select (select count(*)::int from outbox where kind <> 'action') as webhooks, (select count(*)::int from outgoing_events) as events,
          (select string_agg(error, ',') from trigger_fires) as fire, (select string_agg(state, ',') from bulk_jobs) as job`;
      return row;
    };
    const nothing = { webhooks: 0, events: 0, fire: "the key of its inputs was destroyed", job: "stopped" };
    await until(async () => expect(await owed()).toEqual(nothing) ?? true, { within: 20_000 });
    await database.sql`update inbox set due_at = now()`;
    await until(async () => (await database.sql`select 1 from inbox`).length === 0, { within: 20_000 });
    expect(await ok("GET", `/sagas/${other}`), "it is not signalled").toMatchObject({ paused_reason: "signal" });
  });

  it("of others stay, and the tenant gets a fresh one", async () => {
    await ok("POST", `/sagas/${other}/signal/go`, { payload: null });
    await reaches(other, { state: "succeeded", output: "my note 🙂" });
    const next = await start("waits", GONE);
    await reaches(next, { paused_reason: "signal" });
    expect(await ok("DELETE", `/data_keys/${KEPT}`)).toMatchObject({ destroyed: 1, unfinished_runs: 0 });
    await worker.stop();
    await node.stop();
    await open();
    await ok("POST", `/sagas/${next}/signal/go`, { payload: null });
    await reaches(next, { state: "succeeded", output: "my note 🙂", variables: { given: [1.5] } });
    expect((await ok("GET", `/sagas/${ended}`)).variables).toMatchObject({
      given: ["[unreadable: the key of this value was destroyed]"],
    });
    expect(await ok("GET", `/data_keys/${GONE}`)).toMatchObject({ active: 1, destroyed: 1, unfinished_runs: 0 });
  }, 60_000);
});
