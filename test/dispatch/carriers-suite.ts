// The suite of all carriers: whatever transport a worker is reached by, a run makes the same of what it answers, of its silence and of its
// absence. The test files choose the carriers; the workers are bare, so that a test decides every answer.
import { afterAll, beforeAll, expect, it } from "vitest";
import { type NodeHandle, startNode } from "../../src/cluster/node.js";
import { loadConfig } from "../../src/config/index.js";
import { Client } from "../faults/client.js";
import { accessSettings, testsTenant } from "../harness/access.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { brokerSettings } from "../harness/rabbitmq.js";
import { TcpGate } from "../harness/tcp-gate.js";
import { until } from "../harness/until.js";
import { nothingUnwatched, type Seen } from "../run/seen.js";
import { type BareWorker, type Bench, type Step, stepOf } from "./carriers-rig.js";

const ONCE = { max_attempts: 1, initial_backoff_ms: 0 };
const AT_ONCE = { max_attempts: 3, initial_backoff_ms: 1, max_backoff_ms: 1, jitter: false };

/** Longer than a busy machine holds up a step on its way to its worker, or a heartbeat. Steps that are to be lost wait so long. */
const PATIENCE_MS = 3_000;

let database: TestDatabase;
let node: NodeHandle;
let client: Client;
let gate: TcpGate | undefined;

/** Call it in `beforeAll`, and `stopService` in `afterAll`. */
export async function startService(amqpUrl?: string): Promise<void> {
  if (amqpUrl) {
    gate = new TcpGate(new URL(amqpUrl));
    await gate.open();
  }
  database = await createTestDatabase();
  const env = {
    HTTP_PORT: "0",
    GRPC_PORT: "0",
    LOG_LEVEL: "silent",
    ...accessSettings(),
    ...(gate && brokerSettings(gate.url)),
  };
  node = await startNode({ config: loadConfig(env).config, databaseUrl: database.url, log: silentLog });
  client = new Client(`http://127.0.0.1:${node.httpPort}`);
}

export async function stopService(): Promise<void> {
  await nothingUnwatched(database.sql);
  await node.stop();
  await gate?.shut();
  await database.drop();
  gate = undefined;
}

/** To the broker, as the service is connected to it. */
export function gateToBroker(): TcpGate {
  if (gate === undefined) throw new Error("the service was started without a broker");
  return gate;
}

/** The promises of a carrier. */
export function suite(service: string, open: (bench: Bench) => Promise<BareWorker>): void {
  let worker: BareWorker;

  beforeAll(async () => {
    worker = await open({ service, api: client.url, grpc: `127.0.0.1:${node.grpcPort}` });
    const action = (action_name: string, more: object = {}) => ({ action_name, ...worker.registration, ...more });
    const actions = [
      action("charge", { compensable: true, dry_run_supported: true }),
      action("refund", { default_retry: AT_ONCE }),
    ];
    await client.insist("POST", "/registry/register", { service, actions });
  });
  afterAll(() => worker.stop());

  const charge = (more: object = {}) => ({
    ...{ id: "pay", type: "action", action: `${service}.charge`, inputs: { n: "${inputs.n}" }, retry: ONCE },
    ...{ compensation: { action: `${service}.refund` }, ...more },
  });
  let published = 0;

  /** A run of these steps. */
  async function begin(steps: readonly object[], more: Record<string, unknown> = {}): Promise<string> {
    const id = `${service}-${++published}`;
    await client.publish(id, steps as never);
    return client.start(id, { inputs: { n: 7 }, ...(more as object) });
  }

  async function ends(runId: string, state: string): Promise<Seen> {
    const [seen] = await client.allEnd([runId]);
    expect({ state: seen?.run.state, error: seen?.run.error }).toMatchObject({ state });
    return seen as Seen;
  }

  const rows = ({ events }: Seen) =>
    events
      .filter(({ event_type }) => /^step\.(dispatched|succeeded|failed)$/.test(event_type))
      .map(({ event_type, attempt, metadata }) =>
        [event_type.slice(5), attempt, metadata?.phase === "compensation" ? "undo" : ""].join(" ").trim(),
      );

  /** The undo of the run's only step comes, and is answered. */
  async function undoes(runId: string, forward: Step, nth = 2): Promise<Step> {
    const undo = await stepOf(worker, runId, nth);
    expect(undo).toMatchObject({
      ...{ phase: "COMPENSATION", action: "refund", step_id: "pay" },
      ...{ forward_idempotency_key: forward.idempotency_key },
    });
    expect(undo.idempotency_key).not.toBe(forward.idempotency_key);
    await worker.answer(undo, { result: {} });
    return undo;
  }

  it.concurrent("success: the worker gets the whole message, and its result is the step's output", async () => {
    const runId = await begin([charge({ timeout_ms: 20_000, heartbeat_timeout_ms: 9_000 })]);
    const step = await stepOf(worker, runId);
    expect(step).toMatchObject({
      ...{ run_id: runId, step_id: "pay", attempt: 1, service, action: "charge", version: 1, inputs: { n: 7 } },
      ...{ dry_run: false, phase: "FORWARD", heartbeat_timeout_ms: 9_000, idempotency_key: `${runId}:pay:1` },
    });
    expect([step.timeout_ms > 0, step.timeout_ms <= 20_000]).toEqual([true, true]);
    expect(Date.parse(step.deadline_at)).toBeGreaterThan(Date.now() - 20_000);
    expect(step.tenant_id).toBe(testsTenant());
    await worker.answer(step, { result: { receipt: "r-1" } });
    const seen = await ends(runId, "succeeded");
    expect(seen.run.output).toEqual({ receipt: "r-1" });
    expect(seen.events.find(({ event_type }) => event_type === "step.dispatched")?.metadata).toMatchObject({
      ...{ action: `${service}.charge@1`, transport: worker.registration.transport, dispatch_id: step.dispatch_id },
    });
  });

  it.concurrent("failure: a final one fails the step, and did not happen", async () => {
    const runId = await begin([charge({ retry: AT_ONCE })]);
    const error = { code: "declined", message: "the limit is 100", retryable: false };
    await worker.answer(await stepOf(worker, runId), { error });
    const seen = await ends(runId, "failed");
    expect(seen.run.error).toMatchObject({ code: "declined", message: "the limit is 100" });
    expect(rows(seen)).toEqual(["dispatched 1", "failed 1"]);
  });

  it.concurrent("failure: a retryable one is tried again, with the same key and another id", async () => {
    const runId = await begin([charge({ retry: AT_ONCE })]);
    const first = await stepOf(worker, runId);
    await worker.answer(first, { error: { code: "busy", message: "not now" } });
    const second = await stepOf(worker, runId, 2);
    expect(second).toMatchObject({ attempt: 2, idempotency_key: first.idempotency_key, inputs: first.inputs });
    expect(second.dispatch_id).not.toBe(first.dispatch_id);
    await worker.answer(second, { result: {} });
    expect(rows(await ends(runId, "succeeded"))).toEqual(["dispatched 1", "failed 1", "dispatched 2", "succeeded 2"]);
  });

  it.concurrent("timeout: silence until the deadline may have had an effect, which is undone; a late answer is stale", async () => {
    const runId = await begin([charge({ timeout_ms: PATIENCE_MS })]);
    const step = await stepOf(worker, runId);
    await client.untilState(runId, "compensating");
    expect(await worker.answer(step, { result: { late: true } })).toEqual(expect.objectContaining({ stale: true }));
    await undoes(runId, step);
    const seen = await ends(runId, "failed");
    expect(seen.run.error).toMatchObject({ code: "timeout" });
    expect(rows(seen)).toEqual(["dispatched 1", "failed 1", "dispatched 2 undo", "succeeded 2 undo"]);
  });

  it.concurrent("twice: the second answer changes nothing", async () => {
    const runId = await begin([charge({ next: "wait" }), { id: "wait", type: "wait_for_signal", signal_name: "go" }]);
    const step = await stepOf(worker, runId);
    await worker.answer(step, { result: { nth: 1 } });
    await client.untilState(runId, "paused");
    expect(await worker.answer(step, { error: { code: "second", message: "" } })).toMatchObject({ stale: true });
    await client.insist("POST", `/sagas/${runId}/signal/go`, {});
    const seen = await ends(runId, "succeeded");
    expect([seen.run.variables.pay, rows(seen).filter((row) => row !== "succeeded 0")]).toEqual([
      { nth: 1 },
      ["dispatched 1", "succeeded 1"],
    ]);
  });

  it.concurrent("unknown outcome: a failure that may have happened is undone", async () => {
    const runId = await begin([charge()]);
    const step = await stepOf(worker, runId);
    await worker.answer(step, { error: { code: "broke", message: "", retryable: false, outcome_unknown: true } });
    await undoes(runId, step);
    expect((await ends(runId, "failed")).run.error).toMatchObject({ code: "broke" });
  });

  it.concurrent("cancel: the worker is told, its answer is awaited, and what did happen is undone", async () => {
    const runId = await begin([charge({ heartbeat_timeout_ms: 20_000 })]);
    const step = await stepOf(worker, runId);
    expect(await worker.toldToStop(step)).toBe(false);
    await client.insist("POST", `/sagas/${runId}/cancel`, { reason: "enough" });
    await until(() => worker.toldToStop(step), { what: "the cancel" });
    expect((await client.run(runId)).state).toBe("compensating");
    await worker.answer(step, { result: {} });
    await undoes(runId, step);
    expect(rows(await ends(runId, "cancelled"))).toEqual([
      ...["dispatched 1", "succeeded 1", "dispatched 2 undo", "succeeded 2 undo"],
    ]);
  });

  it.concurrent("undo: a later failure undoes the step, which is retried as any other", async () => {
    const fail = { id: "fail", type: "error", code: "late" };
    const runId = await begin([charge({ next: "fail" }), fail]);
    const forward = await stepOf(worker, runId);
    await worker.answer(forward, { result: { id: 1 } });
    const first = await stepOf(worker, runId, 2);
    expect(first.inputs).toEqual({ inputs: { n: 7 }, output: { id: 1 } });
    await worker.answer(first, { error: { code: "busy", message: "" } });
    const second = await undoes(runId, forward, 3);
    expect(second.idempotency_key).toBe(first.idempotency_key);
    expect((await ends(runId, "failed")).run.error).toMatchObject({ code: "late" });
  });

  it.concurrent("dry run: an action that supports it gets the mark, another is skipped", async () => {
    const other = { id: "other", type: "action", action: `${service}.refund` };
    const runId = await begin([charge({ next: "other" }), other], { dry_run: true });
    const step = await stepOf(worker, runId);
    expect(step.dry_run).toBe(true);
    await worker.answer(step, { result: {} });
    await ends(runId, "succeeded");
    expect(worker.steps.filter(({ run_id }) => run_id === runId)).toHaveLength(1);
  });

  it.concurrent("heartbeat: it keeps the attempt alive, and its absence ends it", async () => {
    const runId = await begin([charge({ heartbeat_timeout_ms: PATIENCE_MS, timeout_ms: 60_000 })]);
    const step = await stepOf(worker, runId);
    const since = performance.now();
    await until(
      async () => {
        await worker.heartbeat(step);
        return performance.now() - since > PATIENCE_MS + 500;
      },
      { pause: 200 },
    );
    expect((await client.run(runId)).state).toBe("running");
    await undoes(runId, step);
    expect((await ends(runId, "failed")).run.error).toMatchObject({ code: "heartbeat_timeout" });
  });

  it("away: a worker that cannot be reached costs no attempt, however long, and gets the step when it is back", async () => {
    await worker.leave();
    const runId = await begin([charge({ timeout_ms: PATIENCE_MS })]);
    const since = performance.now();
    // Longer than the attempt may take.
    await until(() => performance.now() - since > PATIENCE_MS + 500, { pause: 100 });
    expect((await client.run(runId)).state).toBe("running");
    await worker.comeBack();
    const step = await stepOf(worker, runId);
    await worker.answer(step, { result: { n: 1 } });
    const seen = await ends(runId, "succeeded");
    expect(rows(seen).at(-1)).toMatch(/^succeeded/);
    expect(
      new Set(worker.steps.filter(({ run_id }) => run_id === runId).map((each) => each.idempotency_key)).size,
    ).toBe(1);
  });

  it("away: the time to wait for a worker counts, and nothing is undone when it is over", async () => {
    await worker.leave();
    const runId = await begin([charge({ queue_timeout_ms: 500 })]);
    const seen = await ends(runId, "failed");
    expect(seen.run.error).toMatchObject({ code: "queue_timeout" });
    await worker.comeBack();
    expect(worker.steps.filter(({ run_id }) => run_id === runId)).toEqual([]);
  });

  it("away: what the worker had when it went is lost at the deadline, or with its connection, and undone when it is back", async () => {
    const runId = await begin([charge({ timeout_ms: PATIENCE_MS })]);
    const step = await stepOf(worker, runId);
    await worker.leave();
    await client.untilState(runId, "compensating");
    await worker.comeBack();
    await undoes(runId, step);
    expect((await ends(runId, "failed")).run.error).toMatchObject({ code: worker.lost });
  });
}
