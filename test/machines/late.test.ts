// The clock makes a late answer stale, even if no node was up at the deadline.

import { describe, expect, it } from "vitest";
import { ANSWER_TRANSIT_MS, type DispatchId } from "../../machines/index.js";
import { ACTIONS, program } from "./definitions.js";
import { Simulation } from "./simulation.js";

const once = { max_attempts: 1, initial_backoff_ms: 0 };
const CALL = { id: "a", type: "action", action: "shop.charge", timeout_ms: 1_000, retry: once };
const UNDONE = { ...CALL, compensation: { action: "shop.refund" } };

function dispatched(step: typeof CALL): { simulation: Simulation; dispatchId: DispatchId } {
  const simulation = new Simulation({ program: program([step]), actions: ACTIONS, reload: true });
  simulation.advance();
  const { wait } = simulation.context;
  if (wait?.kind !== "dispatched") throw new Error("nothing was dispatched");
  return { simulation, dispatchId: wait.dispatchId };
}

describe("an answer of another service", () => {
  it("is refused with the reason, and the run still waits", () => {
    const { simulation, dispatchId } = dispatched(CALL);
    const about = { dispatchId, actor: "worker:w", service: "shipping" };
    const reason = "the dispatch belongs to the service shop";
    for (const command of [
      { ...about, type: "result", result: {} },
      { ...about, type: "heartbeat" },
    ] as const)
      expect(simulation.command(command)).toEqual({ type: "report", stale: true, reason });
    expect(simulation.context.wait?.kind).toBe("dispatched");
    expect(simulation.command({ ...about, service: "shop", type: "result", result: {} })).toMatchObject({
      stale: false,
    });
  });
});

describe("a late answer", () => {
  it("a result that comes at the deadline or after it is stale, and the attempt has timed out", () => {
    const { simulation, dispatchId } = dispatched(UNDONE);
    simulation.now += 1_000;
    expect(simulation.result({ ok: true }, { dispatchId })).toEqual({ type: "report", stale: true });
    expect(simulation.rows.filter(({ type }) => type === "step.failed")).toMatchObject([
      { metadata: { code: "timeout" } },
    ]);
    // The attempt may have happened, so it is undone.
    simulation.drain();
    expect(simulation.state).toBe("failed");
    expect(simulation.undo).toMatchObject([{ stepId: "a", state: "done" }]);
  });

  it("a failure and a heartbeat that come late are stale, too", () => {
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

  it("a result that reached the service before the deadline counts, however long it took to the run", () => {
    const { simulation, dispatchId } = dispatched(CALL);
    const arrivedAt = simulation.now + 999;
    simulation.now += 1_400;
    simulation.advance();
    expect(simulation.state).toBe("running");
    expect(simulation.result({ ok: true }, { dispatchId, arrivedAt })).toEqual({ type: "report", stale: false });
    expect(simulation.state).toBe("succeeded");
  });

  it("a result is not in time by a stamp of the deadline, or of the future", () => {
    for (const ahead of [1_000, 5_000]) {
      const { simulation, dispatchId } = dispatched(CALL);
      const arrivedAt = simulation.now + ahead;
      simulation.now += 1_200;
      expect(simulation.result({ ok: true }, { dispatchId, arrivedAt })).toEqual({ type: "report", stale: true });
    }
  });

  it("a stamp of a node whose clock is ahead counts as now", () => {
    const { simulation, dispatchId } = dispatched(CALL);
    simulation.now += 500;
    const arrivedAt = simulation.now + 5_000;
    expect(simulation.result({ ok: true }, { dispatchId, arrivedAt })).toEqual({ type: "report", stale: false });
  });

  it("the attempt times out when an answer that was in time has had time to reach the run", () => {
    const { simulation } = dispatched(CALL);
    simulation.now += 1_000 + ANSWER_TRANSIT_MS - 1;
    simulation.advance();
    expect(simulation.state).toBe("running");
    simulation.now += 1;
    simulation.advance();
    expect(simulation.rows.filter(({ type }) => type === "step.failed")).toMatchObject([
      { metadata: { code: "timeout" } },
    ]);
  });

  it("a result a moment before the deadline counts", () => {
    const { simulation, dispatchId } = dispatched(CALL);
    simulation.now += 999;
    expect(simulation.result({ ok: true }, { dispatchId })).toEqual({ type: "report", stale: false });
    expect(simulation.state).toBe("succeeded");
  });
});
