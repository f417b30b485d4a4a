// A late answer is stale by the clock, not by who was faster to look at it: a node may have been down at the deadline.
import { expect, test } from "vitest";
import { ACTIONS, program } from "./definitions.js";
import { Simulation } from "./simulation.js";

const once = { max_attempts: 1, initial_backoff_ms: 0 };
const CALL = { id: "a", type: "action", action: "shop.charge", timeout_ms: 1_000, retry: once };
const UNDONE = { ...CALL, compensation: { action: "shop.refund" } };

function dispatched(step: typeof CALL): { simulation: Simulation; dispatchId: string } {
  const simulation = new Simulation({ program: program([step]), actions: ACTIONS, reload: true });
  simulation.advance();
  const { wait } = simulation.context;
  if (wait?.kind !== "dispatched") throw new Error("nothing was dispatched");
  return { simulation, dispatchId: wait.dispatchId };
}

test("a result that comes at the deadline or after it is stale, and the attempt has timed out", () => {
  const { simulation, dispatchId } = dispatched(UNDONE);
  simulation.now += 1_000;
  expect(simulation.result({ ok: true }, { dispatchId })).toEqual({ type: "report", stale: true });
  expect(simulation.rows.filter(({ type }) => type === "step.failed")).toMatchObject([
    { metadata: { code: "timeout" } },
  ]);
  // What was attempted may have happened: it is undone.
  simulation.drain();
  expect(simulation.state).toBe("failed");
  expect(simulation.undo).toMatchObject([{ stepId: "a", state: "done" }]);
});

test("a failure and a heartbeat that come late are stale, too", () => {
  const failure = dispatched(CALL);
  failure.simulation.now += 1_500;
  expect(failure.simulation.failure("busy", { dispatchId: failure.dispatchId })).toEqual({
    type: "report",
    stale: true,
  });
  const heartbeat = dispatched(CALL);
  heartbeat.simulation.now += 1_500;
  const { dispatchId } = heartbeat;
  expect(heartbeat.simulation.command({ type: "heartbeat", dispatchId, actor: "worker:w" })).toEqual({
    type: "report",
    stale: true,
  });
  for (const { simulation } of [failure, heartbeat])
    expect(simulation.rows.filter(({ type }) => type === "step.failed")).toMatchObject([
      { metadata: { code: "timeout" } },
    ]);
});

test("a result a moment before the deadline counts", () => {
  const { simulation, dispatchId } = dispatched(CALL);
  simulation.now += 999;
  expect(simulation.result({ ok: true }, { dispatchId })).toEqual({ type: "report", stale: false });
  expect(simulation.state).toBe("succeeded");
});
