// What people tune by, on /metrics: each end of a run, each attempt and each wait for a worker is counted once, and the series are bounded.
import type { Sql } from "postgres";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { JsonObject, RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { createMetrics, type Metrics } from "../../src/metrics/index.js";
import type { Families } from "../../src/metrics/page.js";
import { countRun, type Measured } from "../../src/metrics/run-metrics.js";
import { gaugeServices } from "../../src/metrics/service-load.js";
import type { CommitListener } from "../../src/run/ports.js";
import { countBacklog } from "../../src/store/engine/poll.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { cancel, type Half, publish, registerActions, type Step, signal, start, startHalf } from "../run/rig.js";

const counting = (metrics: Metrics, traces?: Measured["traces"]): CommitListener => {
  return (_, events, change) => void (change && countRun(metrics, events, change, { tenant: undefined, traces }));
};

/** The runs of one workflow are traced. */
const tracesOf = (traced: string): Measured["traces"] => ({
  isRecorded: ({ workflowId }) => workflowId === traced,
  contextOf: ({ id }) => ({ traceId: id, spanId: "of the run", sampled: true }),
  attemptOf: ({ run }, dispatchId) => ({ traceId: run.id, spanId: dispatchId, sampled: true }),
});

/** The traces and spans that the buckets of a family lead to. */
async function exemplarsOf({ registry }: Metrics, name: string): Promise<string[]> {
  const families: Families = await registry.getMetricsAsJSON();
  const { values = [] } = families.find((family) => family.name === name) ?? {};
  return values.flatMap(({ exemplar }) => (exemplar ? Object.values(exemplar.labelSet).join(" ") : []));
}

/** The lines of the page that are of these families, sorted, without the bounds of histograms. */
async function pageOf({ registry }: Metrics, ...names: readonly string[]): Promise<string[]> {
  const lines = (await registry.metrics()).split("\n");
  return lines
    .filter((line) => names.some((name) => line.startsWith(`${name}{`) || line.startsWith(`${name}_count{`)))
    .sort();
}

const charge = (id: string, more: object = {}): Step => ({ id, type: "action", action: `shop.${id}`, ...more });
const undone = (by: string) => ({ compensation: { action: `shop.${by}`, inputs: {} } });

let database: TestDatabase;
let node: Half;
let metrics: Metrics;
let traces: Measured["traces"];
/** Runs that were committed waiting for a worker, and since when, in database time. */
const queued = new Map<RunId, number>();
/** Of a run's action. */
const tries = new Map<string, number>();

beforeAll(async () => {
  database = await createTestDatabase();
  await registerActions(database, "book", "charge", "flaky", "broken", "silent", "forget", "refuse");
  metrics = createMetrics();
  node = await startHalf(database, {
    reply: ({ runId, call: { action } }) => {
      const nth = (tries.get(`${runId} ${action}`) ?? 0) + 1;
      tries.set(`${runId} ${action}`, nth);
      if (action === "silent") return undefined;
      if (action === "flaky" && nth < 3) return { code: "busy", retryable: true };
      if (action === "broken") return { code: 'no "money"', retryable: false };
      if (action === "refuse") return { code: "closed", retryable: false };
      return { result: {} };
    },
    onCommit: (runId, events, change) => {
      if (change?.after.wait?.kind === "queued") queued.set(runId, change.after.wait.since);
      counting(metrics, traces)(runId, events, change);
    },
  });
  await node.poller.start();
});
afterAll(async () => {
  await node.stop();
  await database.drop();
});

async function ended(id: RunId, state: string): Promise<void> {
  await until(async () => {
    const [row] = await database.sql`select state from runs where id = ${id}`;
    return row?.state === state;
  });
}

async function runOf(workflow: string, state: string, more: JsonObject = {}): Promise<RunId> {
  const id = await start(node.starter, workflow, more);
  await ended(id, state);
  return id;
}

const RETRIES = { retry: { max_attempts: 3, initial_backoff_ms: 1 } };

describe("a run", () => {
  it("that succeeds counts once, with its attempts by their code and its waits for a worker", async () => {
    metrics = createMetrics();
    await publish(database, "order", [charge("book", { next: "flaky" }), charge("flaky", RETRIES)]);
    await runOf("order", "succeeded");
    await runOf("order", "succeeded");
    expect(await pageOf(metrics, "saga_runs_finished_total", "saga_run_seconds")).toEqual([
      'saga_run_seconds_count{workflow="order"} 2',
      'saga_runs_finished_total{workflow="order",state="succeeded"} 2',
    ]);
    expect(
      await pageOf(metrics, "saga_attempts_total", "saga_attempt_seconds", "saga_schedule_to_start_seconds"),
    ).toEqual([
      'saga_attempt_seconds_count{service="shop",action="book"} 2',
      'saga_attempt_seconds_count{service="shop",action="flaky"} 6',
      'saga_attempts_total{service="shop",action="book",phase="forward",code=""} 2',
      'saga_attempts_total{service="shop",action="flaky",phase="forward",code=""} 2',
      'saga_attempts_total{service="shop",action="flaky",phase="forward",code="given"} 4',
      'saga_schedule_to_start_seconds_count{service="shop",action="book"} 2',
      'saga_schedule_to_start_seconds_count{service="shop",action="flaky"} 6',
    ]);
  });

  it("that is traced is what the buckets lead to, and no other one is", async () => {
    metrics = createMetrics();
    traces = tracesOf("seen");
    for (const name of ["seen", "unseen"]) await publish(database, name, [charge("book")]);
    const id = await runOf("seen", "succeeded");
    await runOf("unseen", "succeeded");
    traces = undefined;
    const [{ dispatchId } = { dispatchId: "" }] = node.dispatcher.sent.filter(({ runId }) => runId === id);
    expect(await exemplarsOf(metrics, "saga_run_seconds")).toEqual([`${id} of the run`]);
    expect(await exemplarsOf(metrics, "saga_attempt_seconds")).toEqual([`${id} ${dispatchId}`]);
    expect(await exemplarsOf(metrics, "saga_schedule_to_start_seconds")).toEqual([`${id} ${dispatchId}`]);
  });

  it("that is undone counts its undos, and the one that failed for good", async () => {
    metrics = createMetrics();
    await publish(database, "undone", [
      charge("book", { ...undone("refuse"), next: "charge" }),
      charge("charge", { ...undone("forget"), next: "broken" }),
      charge("broken"),
    ]);
    await runOf("undone", "failed");
    expect(
      await pageOf(metrics, "saga_runs_finished_total", "saga_undo_failures_total", "saga_attempts_total"),
    ).toEqual([
      'saga_attempts_total{service="shop",action="book",phase="forward",code=""} 1',
      'saga_attempts_total{service="shop",action="broken",phase="forward",code="given"} 1',
      'saga_attempts_total{service="shop",action="charge",phase="forward",code=""} 1',
      'saga_attempts_total{service="shop",action="forget",phase="undo",code=""} 1',
      'saga_attempts_total{service="shop",action="refuse",phase="undo",code="given"} 1',
      'saga_runs_finished_total{workflow="undone",state="failed"} 1',
      'saga_undo_failures_total{workflow="undone",code="given"} 1',
    ]);
  });

  it("that is cancelled while a worker has its call counts when the call is settled", async () => {
    metrics = createMetrics();
    await publish(database, "left", [charge("silent", { timeout_ms: 50 })]);
    const id = await start(node.starter, "left");
    await until(() => node.dispatcher.sent.some(({ runId }) => runId === id));
    await node.runtime.command(id, cancel, { reach: EVERYTHING });
    await ended(id, "cancelled");
    expect(await pageOf(metrics, "saga_runs_finished_total", "saga_attempts_total")).toEqual([
      'saga_attempts_total{service="shop",action="silent",phase="forward",code="cancelled"} 1',
      'saga_runs_finished_total{workflow="left",state="cancelled"} 1',
    ]);
  });

  it("counts without its branches and items, whose attempts count; a sub-saga is a run", async () => {
    metrics = createMetrics();
    await publish(database, "part", [charge("charge")]);
    await publish(database, "whole", [
      { id: "p", type: "parallel", branches: { a: { next: "book" }, b: { next: "f" } }, next: "j" },
      charge("book"),
      { id: "f", type: "foreach", items: "[1, 2]", body: "forget" },
      charge("forget"),
      { id: "j", type: "join", next: "sub" },
      { id: "sub", type: "sub_saga", workflow_id: "part", inputs: {} },
    ]);
    await runOf("whole", "succeeded");
    expect(await pageOf(metrics, "saga_runs_finished_total", "saga_attempts_total")).toEqual([
      'saga_attempts_total{service="shop",action="book",phase="forward",code=""} 1',
      'saga_attempts_total{service="shop",action="charge",phase="forward",code=""} 1',
      'saga_attempts_total{service="shop",action="forget",phase="forward",code=""} 2',
      'saga_runs_finished_total{workflow="part",state="succeeded"} 1',
      'saga_runs_finished_total{workflow="whole",state="succeeded"} 1',
    ]);
  });

  it("that waits for a worker has waited, and one that is parked has taken its time", async () => {
    metrics = createMetrics();
    await publish(database, "queued", [
      { id: "go", type: "wait_for_signal", signal_name: "go", next: "book" },
      charge("book"),
    ]);
    node.dispatcher.credit = false;
    const id = await start(node.starter, "queued");
    await node.runtime.command(id, signal("00000000-0000-7000-8000-000000000001", "go"), { reach: EVERYTHING });
    const since = await until(() => queued.get(id));
    await until(() => node.clock.now() >= since + 20);
    node.dispatcher.credit = true;
    node.dispatcher.offerAll();
    await ended(id, "succeeded");
    const sums = (await metrics.registry.metrics())
      .split("\n")
      .filter((line) => /^saga_(run|schedule)\w+_sum/.test(line));
    expect(sums).toHaveLength(2);
    for (const line of sums) expect(Number(line.split(" ").at(-1))).toBeGreaterThanOrEqual(0.02);
  });

  it("that is dry does not count", async () => {
    metrics = createMetrics();
    await publish(database, "rehearsed", [charge("book")]);
    await runOf("rehearsed", "succeeded", { dryRun: true });
    expect(await pageOf(metrics, "saga_runs_finished_total", "saga_attempts_total", "saga_run_seconds")).toEqual([]);
  });
});

describe("the store", () => {
  it("says what waits for a person, and how far the poll is behind", async () => {
    const steps = [charge("book", { ...undone("refuse"), next: "broken" }), charge("broken")];
    await publish(database, "stands", steps, { on_failure: "incident" });
    const before = await countBacklog(database.sql);
    const id = await start(node.starter, "stands");
    await ended(id, "paused");
    expect(await countBacklog(database.sql)).toEqual({ ...before, incidents: before.incidents + 1, overdueSeconds: 0 });
    await node.runtime.command(id, cancel, { reach: EVERYTHING });
    await ended(id, "cancelled");
    expect(await countBacklog(database.sql)).toEqual({ ...before, reviews: before.reviews + 1, overdueSeconds: 0 });
    const parked = await start(node.starter, "queued");
    await ended(parked, "paused");
    await expect(
      database.sql.begin(async (sql) => {
        await sql`insert into wakes (run_id, shard, due_at) values (${parked}, 0, now() - interval '40 s')`;
        // Taken back: the poll would come to the row.
        throw new Error(`${Math.round((await countBacklog(sql as unknown as Sql)).overdueSeconds)} s`);
      }),
    ).rejects.toThrow("40 s");
  });
});

describe("the load of workers", () => {
  it("is what waits and what is in progress by service; those that are too many are together", async () => {
    const page = createMetrics();
    const [slot, calls] = [{ actions: [] }, { transport: "grpc" }];
    gaugeServices(page, {
      connectedWorkers: () => [{ ...slot, service: "gone", inFlight: 3 }],
      waitingCalls: () => [],
    });
    gaugeServices(page, {
      connectedWorkers: () => [
        { ...slot, service: "shop", inFlight: 2 },
        { ...slot, service: "shop", inFlight: 1 },
        { ...slot, service: "idle", inFlight: 0 },
      ],
      waitingCalls: () => [
        { ...calls, service: "shop", calls: 4 },
        { ...calls, service: "http_request", transport: "request", calls: 9 },
        ...Array.from({ length: 300 }, (_, nth) => ({ ...calls, service: `a${nth}`, calls: 1 })),
      ],
    });
    const lines = await pageOf(page, "saga_service_queued", "saga_service_in_flight");
    expect(lines).toHaveLength(2 * 201);
    expect(lines.filter((line) => /"(\(other\)|shop|idle|gone|http_request|a0)"/.test(line))).toEqual([
      'saga_service_in_flight{service="(other)"} 3',
      'saga_service_in_flight{service="a0"} 0',
      'saga_service_queued{service="(other)"} 104',
      'saga_service_queued{service="a0"} 1',
    ]);
  });
});

describe("the series of a family", () => {
  it("are bounded: what finds no place counts as (other), by what the service itself gives, and that is said", async () => {
    const full = createMetrics();
    for (let nth = 0; nth < 10_000; nth++) {
      full.runsFinished.add([`w${nth}`, "failed"], 1);
      full.runSeconds.add([`w${nth}`], 1);
      full.attempts.add(["shop", `a${nth}`, "forward", ""], 1);
    }
    full.runsFinished.add(["w3", "failed"], 1);
    full.runsFinished.add(["w9400", "succeeded"], 1);
    const page = await pageOf(full, "saga_runs_finished_total", "saga_run_seconds", "saga_attempts_total");
    expect(page.filter((line) => line.includes("(other)"))).toEqual([
      'saga_attempts_total{service="(other)",action="(other)",phase="forward",code=""} 9000',
      'saga_run_seconds_count{workflow="(other)"} 9800',
      'saga_runs_finished_total{workflow="(other)",state="failed"} 9000',
      'saga_runs_finished_total{workflow="(other)",state="succeeded"} 1',
    ]);
    expect(page).toContain('saga_runs_finished_total{workflow="w3",state="failed"} 2');
    expect(page).toHaveLength(1_000 + 2 + 200 + 1 + 1_000 + 1);
    expect(await pageOf(full, "saga_metric_series_overflowed_total")).toEqual([
      'saga_metric_series_overflowed_total{metric="saga_attempt_seconds"} 0',
      'saga_metric_series_overflowed_total{metric="saga_attempts_total"} 9000',
      'saga_metric_series_overflowed_total{metric="saga_run_seconds"} 9800',
      'saga_metric_series_overflowed_total{metric="saga_runs_finished_total"} 9001',
      'saga_metric_series_overflowed_total{metric="saga_schedule_to_start_seconds"} 0',
      'saga_metric_series_overflowed_total{metric="saga_undo_failures_total"} 0',
    ]);
    const series = (await full.registry.metrics()).split("\n").filter((line) => line !== "" && !line.startsWith("#"));
    expect(series.length).toBeLessThan(10_000);
  });

  it("of one tenant take half of the places: others find room", async () => {
    const shared = createMetrics();
    for (let nth = 0; nth < 900; nth++) shared.undoFailures.add([`w${nth}`, "broken"], 1, "a");
    shared.undoFailures.add(["mine", "broken"], 1, "b");
    const page = await pageOf(shared, "saga_undo_failures_total");
    expect(page).toContain('saga_undo_failures_total{workflow="(other)",code="broken"} 400');
    expect(page).toContain('saga_undo_failures_total{workflow="mine",code="broken"} 1');
  });
});
