// Law 7: timers in memory, deliveries in memory and NOTIFY are hints. Without all of them every run still ends, by the poll
// alone, and nothing happens early.
// @module-tag long
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { nothingUnwatched, report } from "../run/seen.js";
import { type Service, startService } from "./rig.js";

const RUNS = 6;
/** The poll leaves a new run to its hints for this long. */
const GRACE_MS = 2_000;

let database: TestDatabase;
let service: Service;

beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
  service = await startService(database.url, { hints: false });
  const compensation = { action: "shop.refund" };
  await service.client.publish("everything", [
    { id: "pay", type: "action", action: "shop.charge", compensation, next: "rest" },
    { id: "rest", type: "wait_duration", duration_ms: 150, next: "flaky" },
    {
      ...{ id: "flaky", type: "action", action: "shop.flaky", compensation, next: "wait" },
      retry: { max_attempts: 3, initial_backoff_ms: 100, jitter: false },
    },
    { id: "wait", type: "wait_for_signal", signal_name: "go", next: "which" },
    { id: "which", type: "switch", cases: [{ when: "vars.wait.refuse", next: "refuse" }], default: "done" },
    { id: "refuse", type: "action", action: "shop.refuse" },
    { id: "done", type: "end", output: "${vars.pay.receipt}" },
  ]);
});
afterAll(async () => {
  await service.stop();
  await database.drop();
});

describe("without any hints", () => {
  it("timers, retries, signals, actions, cancels and undos still complete", async () => {
    const { client, shop } = service;
    const began = performance.now();
    const runIds = await Promise.all(Array.from({ length: RUNS }, () => client.start("everything")));
    const signalled = runIds.map(async (runId, nth) => {
      if (nth % 5 === 4) return client.insist("POST", `/sagas/${runId}/cancel`, {});
      if (nth % 2 === 0) await client.untilState(runId, "paused");
      return client.insist("POST", `/sagas/${runId}/signal/go`, { payload: { refuse: nth % 4 === 1 } });
    });
    await Promise.all(signalled);
    const seen = await client.allEnd(runIds);
    await nothingUnwatched(database.sql);
    const states = seen.map(({ run }) => run.state);
    expect(states).toEqual(
      runIds.map((_, nth) => (nth % 5 === 4 ? "cancelled" : nth % 4 === 1 ? "failed" : "succeeded")),
    );
    for (const { run, events } of seen) {
      const at = (type: string, step?: string) =>
        Date.parse(events.find((event) => event.event_type === type && event.step_id === step)?.recorded_at ?? "");
      if (run.state === "cancelled") continue;
      // With a hint, the run would have begun at once.
      expect(at("step.started", "pay") - at("saga.started")).toBeGreaterThanOrEqual(GRACE_MS);
      expect(at("step.succeeded", "rest") - at("step.paused", "rest")).toBeGreaterThanOrEqual(150);
      const undone = shop.of(run.id, "refund").map(({ stepId }) => stepId);
      expect(undone).toEqual(run.state === "failed" ? ["flaky", "pay"] : []);
    }
    report({ runs: RUNS, ms: performance.now() - began });
  });
});
