// How a workflow does, over HTTP: what ended in each part of a window, and how long runs and steps took; and the bounds of what is read.

import { beforeEach, describe, expect, it } from "vitest";
import { EVERYTHING } from "../../src/access/index.js";
import { countEnds } from "../../src/store/statistics/end-counts.js";
import { workflowPerformance } from "../../src/store/statistics/performance.js";
import { deleteRuns, forgetCounts } from "../harness/database.js";
import { insertRun, type RunSeed, useRig, WORKFLOW } from "./rig.js";

const rig = useRig();
const MINUTE = 60_000;
const URL = "/api/v1/workflows/orders/performance";

beforeEach(async () => {
  await deleteRuns(rig.database.sql);
  await forgetCounts(rig.database.sql);
  await rig.call("POST", "/api/v1/workflows", { ...WORKFLOW, version: 1, published: true });
});

/** A run that took so long, and ended so many minutes ago. */
async function ended(state: string, minutesAgo: number, seed: RunSeed & { ms?: number } = {}): Promise<string> {
  const { ms = 1_000, ...more } = seed;
  const end = Date.now() - minutesAgo * MINUTE;
  const times = { started_at: new Date(end - ms).toISOString(), terminal_at: new Date(end).toISOString() };
  return insertRun(rig, { state, ...times, ...more });
}

/** Audit rows of a run, by step: what each says beside its type. */
async function audited(runId: string, rows: readonly (readonly [type: string, step: string, metadata: object])[]) {
  for (const [index, [type, step, metadata]] of rows.entries())
    await rig.database.sql`
      insert into run_events (run_id, seq, recorded_at, event_type, step_id, attempt, from_state, to_state, actor, metadata)
      values (${runId}, ${index + 1}, now(), ${type}, ${step}, 1, 'running',
        ${"phase" in metadata ? "compensating" : "running"}, 'coordinator', ${JSON.stringify(metadata)}::text::json)`;
}

type Ends = { succeeded: number; failed: number; cancelled: number };
const sum = (buckets: readonly Ends[]) =>
  buckets.reduce(
    (all, { succeeded, failed, cancelled }) => [
      ...[(all[0] ?? 0) + succeeded, (all[1] ?? 0) + failed, (all[2] ?? 0) + cancelled],
    ],
    [0, 0, 0],
  );

describe("the buckets", () => {
  it("cover the window without a gap, sixty of whole minutes", async () => {
    for (const [query, hours] of [
      ["", 24],
      ["?hours=1", 1],
      ["?hours=168", 168],
    ] as const) {
      const { body } = await rig.call("GET", `${URL}${query}`);
      expect([body.buckets.length, body.bucket_ms]).toEqual([60, hours * MINUTE]);
      expect(Date.parse(body.to) - Date.parse(body.from)).toBe(hours * 60 * MINUTE);
      const starts = body.buckets.map(({ at }: { at: string }) => Date.parse(at) - Date.parse(body.from));
      expect(starts).toEqual(starts.map((_: number, nth: number) => nth * hours * MINUTE));
    }
  });

  it("have root runs by their end, and neither children nor dry runs", async () => {
    await ended("succeeded", 0);
    await ended("succeeded", 90);
    await ended("failed", 90);
    await ended("cancelled", 90);
    await ended("succeeded", 90, { parent_run_id: await ended("succeeded", 2_000) });
    await ended("succeeded", 90, { identity: { dryRun: true } });
    await ended("succeeded", 90, { workflow_id: "others" });
    const { body } = await rig.call("GET", URL);
    expect(sum(body.buckets)).toEqual([2, 1, 1]);
    const late = body.buckets.filter((bucket: Ends) => bucket.failed + bucket.cancelled > 0);
    expect(late).toMatchObject([{ succeeded: 1, failed: 1, cancelled: 1 }]);
    expect(sum((await rig.call("GET", `${URL}?hours=1`)).body.buckets)).toEqual([1, 0, 0]);
    expect(sum((await rig.call("GET", `${URL}?hours=40`)).body.buckets)).toEqual([3, 1, 1]);
  });

  it("are the same whether their minutes are counted, are not yet, or have late ends to be added", async () => {
    for (const minutesAgo of [0, 1, 5, 30, 31, 200, 1_000, 1_500])
      for (const state of ["succeeded", "failed", "cancelled"]) await ended(state, minutesAgo);
    const read = async () => (await rig.call("GET", `${URL}?hours=48`)).body.buckets;
    const uncounted = await read();
    expect(sum(uncounted)).toEqual([8, 8, 8]);
    await countEnds(rig.database.sql);
    const [kept] = await rig.database.sql<{ count: number }[]>`select count(*)::int as count from run_end_counts`;
    expect(kept?.count).toBeGreaterThan(3);
    expect(sum(await read())).toEqual([8, 8, 8]);
    for (const [minutesAgo, identity] of [
      [30, {}],
      [200, {}],
      [200, { dryRun: true }],
    ] as const) {
      const late = await insertRun(rig, { state: "running", identity });
      await rig.database.sql`
        update runs set state = 'failed', terminal_at = now() - ${minutesAgo}::int * interval '1 minute' where id = ${late}`;
    }
    expect(sum(await read())).toEqual([8, 10, 8]);
    await countEnds(rig.database.sql);
    expect(await rig.database.sql`select from run_end_changes`).toHaveLength(0);
    expect(sum(await read())).toEqual([8, 10, 8]);
  });

  it("have the runs of one version if it is asked for", async () => {
    await rig.call("POST", "/api/v1/workflows", { ...WORKFLOW, version: 2, published: true });
    await ended("succeeded", 5);
    await ended("failed", 5, { version: 2 });
    for (const _ of ["uncounted", "counted"]) {
      const { body } = await rig.call("GET", `${URL}?version=2`);
      expect([body.version, ...sum(body.buckets), body.run_ms.count]).toEqual([2, 0, 1, 0, 1]);
      await countEnds(rig.database.sql);
    }
  });

  it("say that more ended than were read", async () => {
    for (let count = 0; count < 3; count++) await ended("succeeded", 30);
    const asked = { workflowId: "orders", hours: 24 };
    const some = await workflowPerformance(rig.database.sql, EVERYTHING, asked, { ends: 120 });
    expect([some.count_is_lower_bound, sum(some.buckets as Ends[])]).toEqual([true, [2, 0, 0]]);
    const all = await workflowPerformance(rig.database.sql, EVERYTHING, asked, { ends: 180 });
    expect([all.count_is_lower_bound, sum(all.buckets as Ends[])]).toEqual([undefined, [3, 0, 0]]);
  });
});

describe("durations", () => {
  it("of runs are those of the newest that succeeded or failed", async () => {
    for (let nth = 1; nth <= 10; nth++) await ended("succeeded", 20 - nth, { ms: nth * 100 });
    await ended("cancelled", 1, { ms: 1_000_000 });
    const { body } = await rig.call("GET", URL);
    expect(body.run_ms).toEqual({ count: 10, p50: 500, p90: 900, p99: 1_000 });
    expect([body.runs_read, body.is_sample]).toEqual([11, undefined]);
    const some = await workflowPerformance(
      rig.database.sql,
      EVERYTHING,
      { workflowId: "orders", hours: 24 },
      { sample: 3 },
    );
    expect([some.run_ms.count, some.runs_read, some.is_sample]).toEqual([2, 3, true]);
    const looked = await workflowPerformance(
      rig.database.sql,
      EVERYTHING,
      { workflowId: "orders", hours: 24 },
      { looked: 5 },
    );
    expect([looked.runs_read, looked.is_sample]).toEqual([5, true]);
  });

  it("of steps are read from the audit rows of runs and of their branches, without undos and retries", async () => {
    const root = await ended("failed", 3);
    await audited(root, [
      ["step.started", "pay", {}],
      ["step.failed", "pay", { code: "busy", will_retry: true }],
      ["step.succeeded", "pay", { output: {}, duration_ms: 40 }],
      ["step.succeeded", "pay", { output: {}, duration_ms: 60 }],
      ["step.failed", "ship", { code: "no", will_retry: false }],
      ["step.succeeded", "pay", { phase: "compensation", output: {}, duration_ms: 9_000 }],
    ]);
    const branch = await ended("succeeded", 3, { parent_run_id: root, family_run_id: root });
    await audited(branch, [["step.succeeded", "pack", { output: "x".repeat(40_000), duration_ms: 5 }]]);
    await audited(await ended("succeeded", 3, { workflow_id: "others" }), [["step.succeeded", "other", {}]]);
    const { body } = await rig.call("GET", URL);
    expect(body.steps).toEqual([
      { step_id: "pack", count: 1, failed: 0, p50_ms: 5, p90_ms: 5, p99_ms: 5 },
      { step_id: "pay", count: 2, failed: 0, p50_ms: 40, p90_ms: 60, p99_ms: 60 },
      { step_id: "ship", count: 1, failed: 1 },
    ]);
    const some = await workflowPerformance(
      rig.database.sql,
      EVERYTHING,
      { workflowId: "orders", hours: 24 },
      { auditRows: 2 },
    );
    expect([some.is_sample, some.steps.length < 3]).toEqual([true, true]);
  });

  it("are absent where nothing ended", async () => {
    const { body } = await rig.call("GET", URL);
    expect([body.run_ms, body.steps, body.runs_read, sum(body.buckets)]).toEqual([{ count: 0 }, [], 0, [0, 0, 0]]);
  });
});

describe("the request", () => {
  it("is refused for an unknown workflow or version", async () => {
    expect((await rig.call("GET", "/api/v1/workflows/nowhere/performance")).status).toBe(404);
    expect((await rig.call("GET", `${URL}?version=7`)).status).toBe(404);
  });

  it.each(["hours=0", "hours=169", "hours=1.5", "version=0", "color=red"])("is refused with %s", async (query) => {
    const { status, body } = await rig.call("GET", `${URL}?${query}`);
    expect([status, body.error]).toEqual([400, "bad_request"]);
  });
});
