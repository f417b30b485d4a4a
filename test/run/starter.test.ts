// Starting once: a run that was started under a key or an id is found again, even if its workflow has changed since.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { asRunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { uuidv7 } from "../../src/ids.js";
import type { StartRequest } from "../../src/run/ports.js";
import { workflowVersions } from "../../src/store/lists/definitions.js";
import { listRuns, readRuns } from "../../src/store/lists/runs.js";
import { Pruner } from "../../src/store/upkeep/pruner.js";
import { FairScheduler } from "../../src/work/fair-scheduler.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { cancel, type Half, publish, startHalf } from "./rig.js";

let database: TestDatabase;
let half: Half;

beforeAll(async () => {
  database = await createTestDatabase();
  await publish(database, "once", [{ id: "wait", type: "wait_for_signal", signal_name: "go" }]);
  half = await startHalf(database);
});
afterAll(async () => {
  await half.stop();
  await database.drop();
});

const request = (more: Partial<StartRequest>): StartRequest => {
  return { workflowId: "once", inputs: {}, variables: {}, dryRun: false, features: {}, actor: "api", ...more };
};

describe("starting once", () => {
  it("a hundred concurrent starts under one key make one run, and one of them is answered as new", async () => {
    const answers = await Promise.all(
      Array.from({ length: 100 }, () => half.starter.start(request({ idempotencyKey: "k" }))),
    );
    expect(new Set(answers.map(({ runId }) => runId)).size).toBe(1);
    expect(answers.filter(({ deduplicated }) => !deduplicated)).toHaveLength(1);
  });

  it("a body that spells a default out is the same", async () => {
    const key = { idempotencyKey: "spelled" };
    const spelled = request({ ...key, entrypoint: "default", delayMs: 0, labels: {} });
    const first = await half.starter.start(request(key));
    for (const repeat of [spelled, request({ ...key, entrypoint: "" }), request(key)])
      expect(await half.starter.start(repeat)).toMatchObject({ runId: first.runId, deduplicated: true });
  });

  it("another body under the key or the run id is a conflict", async () => {
    const runId = asRunId("01900000-0000-7000-8000-00000000aa01");
    await half.starter.start(request({ idempotencyKey: "k2", runId }));
    await expect(half.starter.start(request({ idempotencyKey: "k2", inputs: { other: 1 } }))).rejects.toMatchObject({
      status: 409,
    });
    await expect(half.starter.start(request({ runId, inputs: { other: 1 } }))).rejects.toMatchObject({ status: 409 });
  });

  it("a key belongs to its tenant and its workflow: elsewhere it makes another run", async () => {
    await publish(database, "other", [{ id: "wait", type: "wait_for_signal", signal_name: "go" }]);
    const [ann, bob] = ["01900000-0000-7000-8000-00000000aaaa", "01900000-0000-7000-8000-00000000bbbb"];
    const places = [{}, { workflowId: "other" }, { tenantId: ann }, { tenantId: bob }];
    const ask = async (more: Partial<StartRequest>) =>
      half.starter.start(request({ ...more, idempotencyKey: "shared" }));
    const first = [];
    for (const place of places) first.push(await ask(place));
    expect(new Set(first.map(({ runId }) => runId)).size).toBe(places.length);
    for (const [nth, place] of places.entries())
      expect(await ask(place)).toEqual({ ...first[nth], state: expect.any(String), deduplicated: true });
  });

  it("a key lives as long as its run", async () => {
    const { runId } = await half.starter.start(request({ idempotencyKey: "k6" }));
    await half.runtime.command(runId, cancel, { reach: EVERYTHING });
    await new Pruner(database.sql, silentLog, { eventDays: 30, runDays: 0 }).prune();
    const next = await half.starter.start(request({ idempotencyKey: "k6", inputs: { other: 1 } }));
    expect([next.runId === runId, next.deduplicated]).toEqual([false, false]);
  });

  it("labels are durable with the run, belong to its body, and go with it", async () => {
    const { sql } = database;
    const labelled = request({ idempotencyKey: "k5", labels: { region: "eu", tier: "gold" } });
    const { runId } = await half.starter.start(labelled);
    await half.starter.start(request({ labels: { region: "us" } }));
    expect((await readRuns(sql, EVERYTHING, [runId])).get(runId)?.run.labels).toEqual({ region: "eu", tier: "gold" });
    const found = await listRuns(sql, EVERYTHING, { labels: { region: "eu" } }, { limit: 5, offset: 0 }, true);
    expect(found.items.map(({ id }) => id)).toEqual([runId]);
    expect(await half.starter.start(labelled)).toMatchObject({ runId, deduplicated: true });
    const other = half.starter.start({ ...labelled, labels: { region: "us" } });
    await expect(other).rejects.toMatchObject({ status: 409 });

    await half.runtime.command(runId, cancel, { reach: EVERYTHING });
    await new Pruner(sql, silentLog, { eventDays: 30, runDays: 0 }).prune();
    expect(await sql`select 1 from run_labels where run_id = ${runId}`).toHaveLength(0);
    expect(await sql`select 1 from run_labels`).toHaveLength(1);
  });

  it("a repeat finds its run after the workflow was unpublished; a new start does not", async () => {
    const first = await half.starter.start(request({ idempotencyKey: "k3" }));
    await workflowVersions.publish(database.sql, "once", 1, false);
    await half.catalog.refresh();
    expect(await half.starter.start(request({ idempotencyKey: "k3" }))).toMatchObject({
      runId: first.runId,
      deduplicated: true,
    });
    await expect(half.starter.start(request({ idempotencyKey: "k4" }))).rejects.toMatchObject({ status: 404 });
  });

  it("of a workflow that is stored and not published is told so", async () => {
    const document = { id: "draft", name: "draft", start: "on", steps: [{ id: "on", type: "noop" }] };
    await workflowVersions.store(database.sql, { key: "draft", name: "draft", publish: false, document });
    const refusal = (more: Partial<StartRequest>) =>
      half.starter.start(request(more)).catch(({ status, message }) => [status, message]);
    const there = "there is no published workflow";
    expect(await refusal({ workflowId: "draft" })).toEqual([404, `${there} draft: it is stored and not published`]);
    expect(await refusal({ workflowId: "draft", version: 1 })).toEqual([
      404,
      `${there} draft version 1: it is stored and not published`,
    ]);
    expect(await refusal({ workflowId: "draft", version: 2 })).toEqual([404, `${there} draft version 2`]);
    expect(await refusal({ workflowId: "dratf" })).toEqual([404, `${there} dratf`]);
  });

  it("of another tenant's draft is not told so", async () => {
    const [mine, other] = [uuidv7(), uuidv7()];
    const document = { id: "own", name: "own", start: "on", steps: [{ id: "on", type: "noop" }], tenant_id: mine };
    await workflowVersions.store(database.sql, { key: "own", name: "own", forTenant: mine, publish: false, document });
    const refusal = (more: Partial<StartRequest>) =>
      half.starter.start(request({ workflowId: "own", ...more })).catch(({ message }) => message);
    const there = "there is no published workflow own";
    expect(await refusal({ tenantId: mine })).toBe(`${there}: it is stored and not published`);
    expect(await refusal({ tenantId: mine, version: 1 })).toBe(`${there} version 1: it is stored and not published`);
    expect([await refusal({ tenantId: other }), await refusal({})]).toEqual([there, there]);
    expect(await refusal({ tenantId: other, version: 1 })).toBe(`${there} version 1`);
  });
});

describe("a start", () => {
  it("takes a turn of the loop for each walk over its values: its hash, its check, its size and its rows", async () => {
    let pieces = 0;
    const scheduler = new FairScheduler(() => 0);
    const compute = scheduler.compute.bind(scheduler);
    scheduler.compute = (party, piece) => {
      if (party === "counted") pieces++;
      return compute(party, piece);
    };
    const counted = await startHalf(database, { scheduler, hints: false, applicationName: "counted" });
    try {
      await publish(database, "counted", [{ id: "wait", type: "wait_for_signal", signal_name: "go" }]);
      await counted.starter.start(request({ workflowId: "counted" }));
      expect(pieces).toBe(4);
    } finally {
      await counted.stop();
    }
  });
});
