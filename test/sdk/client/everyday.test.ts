// What a program does with the client every day, against a node of its own in this process. Failures of the network are in the files beside.
import { Type } from "typebox";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { type NodeHandle, startNode } from "../../../src/cluster/node.js";
import { loadConfig } from "../../../src/config/index.js";
import {
  Conflict,
  Invalid,
  NotFound,
  SagaCancelled,
  SagaClient,
  SagaFailed,
  SagaNotEnded,
  type SocketClass,
} from "../../../src/sdk/client/index.js";
import type { SagaContract } from "../../../src/sdk/contract/index.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../../harness/database.js";

interface Order {
  sku: string;
  quantity: number;
  amount: number;
  note: string | null;
  tags: string[];
}

const echo: SagaContract<Order, Order> = { id: "echo" };
const confirmed = { name: "confirm", payload: Type.Object({ by: Type.String() }) };
const ORDER: Order = { sku: "té/🍵 ?#%", quantity: 2, amount: 9.95, note: null, tags: [] };

const NO_RUN = "0190a000-0000-7000-8000-0000000000ff";

let database: TestDatabase;
let node: NodeHandle;
let saga: SagaClient;
let url: string;

beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
  const { config } = loadConfig({ HTTP_PORT: "0", GRPC_PORT: "0" });
  node = await startNode({ config, databaseUrl: database.url, log: silentLog });
  url = `http://127.0.0.1:${node.httpPort}/`;
  saga = new SagaClient({ url, webSocket: false });
  await publish("echo", [{ id: "end", type: "end", output: "${inputs}" }]);
  await publish("wait", [
    { id: "wait", type: "wait_for_signal", signal_name: "confirm", next: "end" },
    { id: "end", type: "end", output: { by: "${vars.wait.by}" } },
  ]);
  await publish("fail", [{ id: "stop", type: "error", code: "sold_out", message: "there is none" }]);
  await publish("ask", [{ id: "ask", type: "manual_approval", assignee: "ann/🙂" }]);
});
afterAll(async () => {
  await node?.stop();
  await database?.drop();
});

const publish = (id: string, steps: { id: string; [member: string]: unknown }[], more: object = {}) =>
  saga.call("createWorkflow", { body: { id, name: id, published: true, start: steps[0]?.id, steps, ...more } });

describe("a program", () => {
  it("starts a run with ordinary and awkward inputs, and gets its output as it was", async () => {
    const labels = { city: "Zürich 🇨🇭/1", "a.b:c": "x,y" };
    const run = await saga.start(echo, { inputs: ORDER, businessKey: "order/ü 1", labels });
    expect(run.started).toMatchObject({ run_id: run.id, workflow_id: "echo", deduplicated: false });
    expect(await run.result()).toEqual(ORDER);
    expect(await run.get()).toMatchObject({ state: "succeeded", labels, business_key: "order/ü 1" });
    expect(await saga.runs.list({ labels }).all()).toMatchObject([{ id: run.id }]);
    expect(await saga.runs.list({ business_key: "order/ü 1", state: ["succeeded", "failed"] }).count()).toBe(1);
  });

  it("gets the same run for the same key, and a conflict for another content under it", async () => {
    const inputs = ORDER;
    const first = await saga.start(echo, { inputs }, { key: "order-17" });
    const again = await saga.start(echo, { inputs }, { key: "order-17" });
    expect(again.started).toMatchObject({ run_id: first.id, deduplicated: true });
    const other = saga.start(echo, { inputs: { ...inputs, quantity: 3 } }, { key: "order-17" });
    await expect(other).rejects.toThrow(Conflict);
    await expect(other).rejects.toMatchObject({ code: "conflict", status: 409, requestId: expect.any(String) });
  });

  it("makes a key of its own for each start", async () => {
    const [one, other] = [await saga.start("echo"), await saga.start("echo")];
    expect(one.id).not.toBe(other.id);
    expect(await one.result()).toEqual({});
  });

  it("sends a signal before and while it is awaited", async () => {
    const early = await saga.start("wait", { delayMs: 3_600_000 });
    const told = await early.signal(confirmed, { by: "ann" });
    expect(told).toMatchObject({ matched: false, signal_id: expect.any(String), message: expect.any(String) });
    expect(await early.signals().all()).toMatchObject([{ signal_name: "confirm", payload: { by: "ann" } }]);
    await early.cancel({ reason: "not needed" });
    const run = await saga.start("wait");
    await untilPaused(run.id);
    expect(await run.signal("confirm", { by: "böb 🙂" })).toMatchObject({ matched: true });
    expect(await run.result()).toEqual({ by: "böb 🙂" });
  });

  it("starts one run for a business key, and signals it or a new one", async () => {
    const businessKey = "cart 77 🍵";
    const run = await saga.start("wait", { businessKey, onConflict: "reject" });
    await untilPaused(run.id);
    await expect(saga.start("wait", { businessKey, onConflict: "reject" })).rejects.toThrow(Conflict);
    expect((await saga.start("wait", { businessKey, onConflict: "return" })).id).toBe(run.id);
    const told = await saga.signalWithStart("wait", { businessKey }, { name: confirmed, payload: { by: "ann" } });
    expect([told.run.id, told.matched]).toEqual([run.id, true]);
    expect(await told.run.result()).toEqual({ by: "ann" });
    const options = { key: "click-9", waitMs: 30_000 };
    const first = { name: "confirm", payload: { by: "böb 🙂" } };
    const begun = await saga.signalWithStart("wait", { businessKey, inputs: { a: 1 } }, first, options);
    expect(begun.run.id).not.toBe(run.id);
    expect((await saga.signalWithStart("wait", { businessKey, inputs: { a: 1 } }, first, options)).run.id).toBe(
      begun.run.id,
    );
    expect(await begun.run.result()).toEqual(first.payload);
    const debounce = { windowMs: 60_000, maxMs: 120_000 };
    const early = await saga.start("wait", { businessKey, debounce });
    const late = await saga.start("wait", { businessKey, debounce: { windowMs: 1 } });
    expect(await early.ended()).toMatchObject({ state: "cancelled" });
    await untilPaused(late.id);
    const wrong = { businessKey, debounce: { windowMs: 0 } };
    await expect(saga.start("wait", wrong)).rejects.toThrow(Invalid);
    await expect(saga.start("wait", { onConflict: "return" })).rejects.toThrow(Invalid);
  });

  it("starts runs whose turn it is before others, and by shares", async () => {
    const run = await saga.start("wait", { priority: 1, fairnessKey: "kunde ü 🍵", fairnessWeight: 0.5 });
    expect(await run.get()).toMatchObject({ priority: 1, fairness_key: "kunde ü 🍵", fairness_weight: 0.5 });
    for (const wrong of [
      { priority: 0 },
      { priority: 1.5 },
      { fairnessKey: "" },
      { fairnessKey: "k", fairnessWeight: 0 },
    ])
      await expect(saga.start("wait", wrong), JSON.stringify(wrong)).rejects.toThrow(Invalid);
    await expect(saga.start("wait", { fairnessWeight: 2 })).rejects.toThrow(/is required with fairness_weight/);
  });

  it("sends a signal whose answer waits for the run, and asks about it", async () => {
    const run = await saga.start("wait", { variables: { lines: [{ sku: "tea", price: 12.5 }], none: null } });
    await untilPaused(run.id);
    expect(await run.query<number>("vars.lines.map(l, l.price).sum()")).toBe(12.5);
    expect(await run.query("vars.none")).toBeNull();
    await expect(run.query("vars.")).rejects.toThrow(Invalid);
    await expect(run.query("vars.nowhere")).rejects.toThrow(Invalid);
    const told = await run.signal(confirmed, { by: "ann" }, { waitMs: 30_000 });
    expect(told).toMatchObject({ matched: true, run: { id: run.id, state: "succeeded", output: { by: "ann" } } });
  });

  it("learns code, step and message of a run that failed", async () => {
    const run = await saga.start("fail");
    const error = await run.result().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(SagaFailed);
    expect(error).toMatchObject({ code: "sold_out", step: "stop", run: { id: run.id, state: "failed" } });
    expect((await run.ended()).state).toBe("failed");
  });

  it("learns that a run was cancelled, and that one has not ended in time", async () => {
    const run = await saga.start("wait");
    await expect(run.result({ timeoutMs: 50 })).rejects.toThrow(SagaNotEnded);
    expect(await run.cancel({ reason: "changed my mind" })).toMatchObject({ already_terminal: false });
    await expect(run.result()).rejects.toThrow(SagaCancelled);
  });

  it("finds, and submits, the user tasks of a run", async () => {
    const run = await saga.start("ask");
    await untilPaused(run.id);
    const [task] = await run.tasks().all();
    if (!task) throw new Error("there is no task");
    expect(task).toMatchObject({ assignee: "ann/🙂", status: "open" });
    const answer = await run.submit(task, { approved: true, comment: "fine" }, { submittedBy: "ann" });
    expect(answer).toMatchObject({ task_id: task.id, matched: true });
    expect((await run.ended()).state).toBe("succeeded");
    await expect(run.submit(task, { approved: false })).rejects.toThrow(Conflict);
  });

  it("pauses, resumes, explains, terminates and reruns", async () => {
    const run = await saga.start("wait");
    await untilPaused(run.id);
    expect(await run.pause({ reason: "look" })).toMatchObject({ run_id: run.id, changed: true });
    expect((await run.explain()).can).toContain("resume");
    expect(await run.resume()).toMatchObject({ changed: true });
    expect(await run.terminate({ reason: "over" })).toMatchObject({ changed: true });
    const again = await run.rerun();
    expect(await again.get()).toMatchObject({ rerun_of: run.id });
    await untilPaused(again.id);
    const [at = ""] = [(await again.get()).current_step];
    const forked = await again.fork({ step: at });
    expect(await forked.get()).toMatchObject({ forked_from: { saga_id: again.id, step: at, entry: 1 } });
    await forked.terminate({ reason: "over" });
    await run.erase();
    await expect(run.get()).rejects.toThrow(NotFound);
  });

  it("publishes and reads workflows and rules, and evaluates a rule", async () => {
    const document = {
      id: "greet",
      name: "Gruß 🙂",
      start: "end",
      steps: [{ id: "end", type: "end", output: "hello" }],
    };
    expect(await saga.workflows.validate({ ...document, start: "none" })).toMatchObject({ valid: false });
    expect(await saga.workflows.publish(document)).toMatchObject({ version: 1, published: true, name: "Gruß 🙂" });
    expect(await saga.workflows.publish(document)).toMatchObject({ version: 1 });
    await expect(saga.workflows.publish({ ...document, version: 1, name: "another" })).rejects.toThrow(Conflict);
    expect(await saga.workflows.get("greet", { version: 1 })).toMatchObject({ start: "end" });
    expect(await saga.workflows.versions("greet").all()).toHaveLength(1);
    expect(await saga.workflows.mermaid("greet")).toContain("stateDiagram");
    expect(await saga.workflows.stats("greet")).toMatchObject({ in_flight: 0 });
    const rows = [{ when: "inputs.n > 10", then: { size: "large" } }];
    const spec = { hit_policy: "first", rows, default_output: { size: "small" } };
    await saga.rules.publish({ rule_id: "sizes", name: "sizes", version: 1, rule_type: "decision_table", spec });
    expect(await saga.rules.evaluate("sizes", { n: 12.5 })).toMatchObject({ output: { size: "large" } });
    expect((await saga.rules.list().all()).map(({ rule_id }) => rule_id)).toEqual(["sizes"]);
  });

  it("has triggers, bulk jobs, events, registered actions, and looks at the service", async () => {
    const trigger = await saga.triggers.create({
      ...{ trigger_type: "cron", workflow_id: "echo", enabled: false, config: { schedule: "0 3 * * *" } },
    });
    expect((await saga.triggers.change(trigger.id, { enabled: true })).enabled).toBe(true);
    const { run_id } = await saga.triggers.fire(trigger.id);
    expect(run_id).toBeDefined();
    expect(await saga.triggers.fires(trigger.id).count()).toBe(1);
    await saga.triggers.delete(trigger.id);
    await expect(saga.triggers.get(trigger.id)).rejects.toThrow(NotFound);
    const labels = { job: "a" };
    const runs = await Promise.all([1, 2].map(() => saga.start("wait", { labels })));
    const job = await saga.bulk.start({
      filter: { "label.job": "a" },
      action: "terminate",
      params: { reason: "over" },
    });
    expect(job.matched).toBe(2);
    expect(await saga.bulk.ended(job.bulk_id)).toMatchObject({ state: "done", done: 2, refused: 0 });
    for (const run of runs) expect((await run.get()).state).toBe("cancelled");
    expect(await saga.publishEvent({ topic: "shop.opened", payload: null })).toMatchObject({
      event_id: expect.any(String),
    });
    await saga.actions.register({ service: "shop", actions: [{ action_name: "reserve", compensable: true }] });
    expect(await saga.actions.list({ service: "shop" }).all()).toMatchObject([
      { action_name: "reserve", compensable: true },
    ]);
    expect((await saga.workers()).items).toEqual([]);
    expect((await saga.cluster()).access).toBe("off");
    expect((await saga.whoAmI()).kind).toBe("anyone");
    await saga.ready();
  });

  it("is told where its request is wrong", async () => {
    const error = await saga.start("echo", { labels: { a: "" } }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(Invalid);
    expect(error).toMatchObject({ details: [{ path: "$.labels.a" }] });
    await expect(saga.start("a/b 🙂")).rejects.toThrow(Invalid);
    await expect(saga.run("no-run").get()).rejects.toThrow(/must be a UUID|id/);
  });

  it("goes through more runs than a page has", async () => {
    const label = { batch: "many" };
    await Promise.all(Array.from({ length: 7 }, () => saga.start("echo", { labels: label })));
    const ids = new Set<string>();
    for await (const { id } of saga.runs.list({ labels: label, limit: 3 })) ids.add(id);
    expect(ids.size).toBe(7);
    expect((await saga.runs.counts({ labels: label })).items.reduce((sum, { count }) => sum + count, 0)).toBe(7);
    expect(await saga.runs.list({ labels: label }).all(5)).toHaveLength(5);
  });

  it.each([
    ["a WebSocket", { webSocket: WebSocket as unknown as SocketClass }],
    ["requests that wait", { webSocket: false as const }],
  ])("watches a run, each event once and in order, by %s", async (_name, by) => {
    const watching = new SagaClient({ url: url, ...by });
    const { id } = await saga.start("wait");
    const run = watching.run(id);
    const seqs: number[] = [];
    for await (const event of run.watch()) {
      seqs.push(event.seq);
      if (event.to_state === "paused") await run.signal("confirm", { by: "ann" });
    }
    expect(seqs).toEqual((await run.events().all()).map(({ seq }) => seq));
    expect(seqs).toEqual(seqs.map((_, index) => index + 1));
    const rest: number[] = [];
    for await (const { seq } of run.watch({ afterSeq: 2 })) rest.push(seq);
    expect(rest).toEqual(seqs.slice(2));
    await expect(watching.run(NO_RUN).watch().next()).rejects.toThrow(NotFound);
  });

  it.each([
    ["a WebSocket", { webSocket: WebSocket as unknown as SocketClass }],
    ["requests that wait", { webSocket: false as const }],
  ])("stops to watch with its signal, and with a break, by %s", async (_name, by) => {
    const watching = new SagaClient({ url: url, ...by });
    const run = watching.run((await saga.start("wait")).id);
    for await (const event of run.watch()) if (event.to_state === "paused") break;
    const stop = new AbortController();
    const reason = new Error("enough");
    const read = (async () => {
      for await (const event of run.watch({ signal: stop.signal })) if (event.to_state === "paused") stop.abort(reason);
    })();
    await expect(read).rejects.toBe(reason);
    await run.terminate({ reason: "over" });
  });
});

const untilPaused = async (id: string) => {
  for (let seq = 0; ; seq++) {
    const run = await saga.call("getSaga", { path: { id }, query: { wait_ms: 5_000, after_seq: seq } });
    if (run.state === "paused") return;
  }
};
