// Taking over a dispatch: heartbeats that a new node could not receive do not count against the worker.

import { describe, expect, it } from "vitest";
import { ANSWER_TRANSIT_MS, type DispatchId } from "../../machines/index.js";
import { ACTIONS, program } from "./definitions.js";
import { Simulation } from "./simulation.js";

const CALL = { id: "a", type: "action", action: "shop.charge", heartbeat_timeout_ms: 500, timeout_ms: 10_000 };

function dispatched(): { simulation: Simulation; dispatchId: DispatchId } {
  const simulation = new Simulation({ program: program([CALL]), actions: ACTIONS, reload: true });
  simulation.advance();
  const { wait } = simulation.context;
  if (wait?.kind !== "dispatched") throw new Error("nothing was dispatched");
  return { simulation, dispatchId: wait.dispatchId };
}

describe("a dispatch that is taken over", () => {
  it("gets a whole heartbeat timeout, whatever the new node could not receive before", () => {
    const { simulation, dispatchId } = dispatched();
    simulation.now += 5_000;
    simulation.command({ type: "carry", dispatchId });
    simulation.now += 499;
    simulation.advance();
    expect(simulation.context.wait?.kind).toBe("dispatched");
    simulation.now += 1;
    simulation.advance();
    expect(simulation.rows.at(-1)).toMatchObject({ type: "step.failed", metadata: { code: "heartbeat_timeout" } });
  });

  it("gets no more time from a look of the node that held it all the time", () => {
    const { simulation, dispatchId } = dispatched();
    simulation.now += 400;
    simulation.command({ type: "carry", dispatchId, held: true });
    simulation.now += 100;
    simulation.advance();
    expect(simulation.rows.at(-1)).toMatchObject({ type: "step.failed", metadata: { code: "heartbeat_timeout" } });
  });

  it("keeps its deadline", () => {
    const { simulation, dispatchId } = dispatched();
    simulation.now += 9_900;
    simulation.command({ type: "carry", dispatchId });
    simulation.now += 100 + ANSWER_TRANSIT_MS;
    simulation.advance();
    expect(simulation.rows.at(-1)).toMatchObject({ type: "step.failed", metadata: { code: "timeout" } });
  });
});
