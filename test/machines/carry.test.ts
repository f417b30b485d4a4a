// Taking a dispatch over: whoever begins to listen does not hold against a worker what it could not hear.
import { expect, test } from "vitest";
import { ACTIONS, program } from "./definitions.js";
import { Simulation } from "./simulation.js";

const CALL = { id: "a", type: "action", action: "shop.charge", heartbeat_timeout_ms: 500, timeout_ms: 10_000 };

function dispatched(): { simulation: Simulation; dispatchId: string } {
  const simulation = new Simulation({ program: program([CALL]), actions: ACTIONS, reload: true });
  simulation.advance();
  const { wait } = simulation.context;
  if (wait?.kind !== "dispatched") throw new Error("nothing was dispatched");
  return { simulation, dispatchId: wait.dispatchId };
}

test("a dispatch that is taken over gets a whole heartbeat timeout, whatever was not heard before", () => {
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

test("its deadline stays where it was", () => {
  const { simulation, dispatchId } = dispatched();
  simulation.now += 9_900;
  simulation.command({ type: "carry", dispatchId });
  simulation.now += 100;
  simulation.advance();
  expect(simulation.rows.at(-1)).toMatchObject({ type: "step.failed", metadata: { code: "timeout" } });
});
