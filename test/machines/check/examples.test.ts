// The review makes no false alarm about the workflows that this repository shows, and it ends for the largest definition.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { checkWorkflow, knownOf } from "../../../machines/index.js";
import { pay, signal, workflow } from "../../docs/runbook-rig.js";
import { EXAMPLES, exampleName } from "../chart/examples.js";
import { LISTED } from "./rig.js";

describe("no finding is made of", () => {
  it.each(EXAMPLES.map((file) => ({ file, name: exampleName(file) })))("the example $name", ({ file }) => {
    const document: unknown = JSON.parse(readFileSync(file, "utf8"));
    expect(checkWorkflow(document)).toEqual([]);
  });

  it("the definitions of the runbook, except that some of their waits are for good", () => {
    const definitions = [
      workflow("paid", [pay()]),
      workflow("held", [pay(), signal("go")]),
      workflow("limited", [signal("go")], { timeout_ms: 60_000 }),
    ];
    const found = definitions.flatMap((definition) =>
      checkWorkflow(definition).map(({ code, step }) => `${code} ${step}`),
    );
    expect(found).toEqual(["wait_without_timeout go"]);
  });
});

/** As many as the largest limit that a service may set, within what one document may ask for. */
const MANY = 10_000;

describe("the review of a definition of 10,000 steps", () => {
  it("ends, whether the steps are one chain or one knot", { tags: "long" }, () => {
    const chain = Array.from({ length: MANY }, (_, nth) => ({
      ...{ id: `s${nth}`, type: "transform", expression: `vars.s${(nth + 1) % MANY}` },
      ...(nth < MANY - 1 && { next: `s${nth + 1}` }),
    }));
    const limits = { steps: MANY, branches: 100 };
    const took = (steps: readonly object[]) => {
      const begun = performance.now();
      const found = checkWorkflow({ id: "w", name: "W", start: "s0", steps }, { ...knownOf(LISTED), limits });
      return { found, ms: Math.round(performance.now() - begun) };
    };
    const { found, ms } = took(chain);
    expect(found[0]).toMatchObject({ code: "variable_unset_here", path: "$.steps[0].expression" });
    expect(found).toHaveLength(1001);
    const knot = took(chain.map((step, nth) => (nth === MANY - 1 ? { ...step, next: "s0" } : step)));
    expect(knot.found.map(({ code }) => code)).toEqual(["cycle_endless"]);
    console.info(`checked ${MANY} steps: a chain in ${ms} ms, a knot in ${knot.ms} ms`);
  });
});
