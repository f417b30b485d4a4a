// A dry run does not wait for timers or backoffs.
import { describe, expect, it } from "vitest";
import { program } from "./definitions.js";
import { Simulation } from "./simulation.js";

describe("a dry run", () => {
  it("a retry of a dry run is due at once", () => {
    const simulation = new Simulation({
      program: program([{ id: "a", type: "action", action: "shop.quote" }]),
      actions: { "shop.quote": { dryRunSupported: true } },
      identity: { dryRun: true },
      worker: ({ attempt }) =>
        attempt === 1
          ? { kind: "failure", code: "busy", retryable: true, outcomeUnknown: false }
          : { kind: "result", result: {} },
    });
    simulation.advance();
    const began = simulation.now;
    simulation.drain();
    expect(simulation.state).toBe("succeeded");
    expect(simulation.now).toBe(began);
    expect(simulation.rows.filter(({ type }) => type === "step.dispatched")).toHaveLength(2);
  });
});
