// The machine that runs refines the published chart: their edges correspond, whatever the definition. That the chart goes along with
// what runs really do is one of the laws of every random story (`worldViolations`); here the examples are played on it.
// @module-tag both
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type AnyStateMachine, createActor, createMachine } from "xstate";
import { ChartMismatch, type Program, startActor } from "../../../machines/index.js";
import { cases, firstSeed } from "../../harness/long.js";
import { documents, program } from "../definitions.js";
import { families, optionsOf } from "../families.js";
import { differences, edgesOf, publishedMachine, strayedFrom } from "./charts.js";
import { EXAMPLE_INPUTS, EXAMPLES, exampleName, exampleProgram, play } from "./examples.js";

const differencesOf = (compiled: Program) => differences(compiled.machine, publishedMachine(compiled));

describe("the machine that runs refines the published chart", () => {
  it.each(EXAMPLES.map((file) => [exampleName(file), file]))("of %s", (_name, file) => {
    expect(differencesOf(exampleProgram(file))).toEqual([]);
  });

  it("of random workflows, with blocks and without", () => {
    const seed = firstSeed();
    console.log(`refinement: seed ${seed}`);
    const options = { seed, numRuns: cases(5, 80) };
    fc.assert(
      fc.property(documents, ({ steps, head }) => {
        expect(differencesOf(program(steps, head))).toEqual([]);
      }),
      options,
    );
    fc.assert(
      fc.property(families, (family) => {
        const { program: root, workflows = {} } = optionsOf(family);
        for (const compiled of [root, ...Object.values(workflows)]) expect(differencesOf(compiled)).toEqual([]);
      }),
      options,
    );
  });

  it("and an edge too many or too few on either side is found", () => {
    const compiled = program([
      { id: "a", type: "noop", when: "true", next: "b" },
      { id: "b", type: "noop" },
    ]);
    const changed = (change: (on: Record<string, unknown>) => void): AnyStateMachine => {
      const chart = JSON.parse(JSON.stringify(compiled.chart));
      change(chart.states.active.states.a.on);
      return createMachine(chart);
    };
    const more = changed((on) => Object.assign(on, { error: { target: "b" } }));
    const fewer = changed((on) => delete on.skip);
    const elsewhere = changed((on) => Object.assign(on, { next: { target: "a" } }));
    expect(differences(compiled.machine, more)).toEqual(["never taken: active.a --error-> active.b"]);
    expect(differences(compiled.machine, fewer)).toEqual(["not published: active.a --skip-> active.b"]);
    expect(differences(compiled.machine, elsewhere)).toHaveLength(2);
  });
});

describe("the published chart goes along with a run", () => {
  it.each(EXAMPLES.map((file) => [exampleName(file), file]))("of %s, to the same final state", (_name, file) => {
    const compiled = exampleProgram(file);
    for (const after of [1_000, 0, 1, 2, 3, 5, 8, 13]) {
      const run = play(compiled, EXAMPLE_INPUTS, after);
      expect(run.state).toBe(after === 1_000 ? "succeeded" : run.state);
      expect(run.ended).toBe(true);
      expect(strayedFrom(run.world.history)).toEqual([]);
    }
  });

  it("and says where it does not", () => {
    const [first] = play(exampleProgram(EXAMPLES[0] as string), EXAMPLE_INPUTS).world.history;
    expect(
      strayedFrom([{ ...(first as never as Parameters<typeof strayedFrom>[0][0]), edge: "nowhere" }]),
    ).toHaveLength(1);
  });
});

describe("the published chart", () => {
  const compiled = program([
    { id: "ask", type: "wait_for_signal", signal_name: "go", timeout_ms: 5000, on_timeout: "late", next: "done" },
    { id: "late", type: "error", code: "too_late" },
    { id: "done", type: "end" },
  ]);

  it("is an XState machine that ends", () => {
    const actor = createActor(createMachine(JSON.parse(JSON.stringify(compiled.chart)))).start();
    for (const type of ["begin.default", "next", "run.succeeded"]) actor.send({ type });
    expect(actor.getSnapshot()).toMatchObject({ value: "succeeded", status: "done" });
  });

  it("has no bookkeeping, no twins and no actions", () => {
    const text = JSON.stringify(compiled.chart);
    expect(
      edgesOf(publishedMachine(compiled)).filter((edge) => /--(note|wait|heartbeat|pause|resume)->/.test(edge)),
    ).toEqual([]);
    expect([text.includes("~paused"), text.includes("actions")]).toEqual([false, false]);
  });
});

describe("an actor of the machine that runs", () => {
  const note = { type: "note", patch: {}, stored: [], audit: [], writes: [], sends: [] };

  it("emits its last transition, and is done", () => {
    const { context, program: ended } = play(program([{ id: "e", type: "end" }]), {});
    const before = { ...context, state: "running", step: "e" } as const;
    const actor = startActor(ended, before);
    actor.apply({ ...note, type: "run.succeeded", patch: { state: "succeeded", step: undefined } });
    expect([actor.ref.getSnapshot().status, actor.context.state]).toEqual(["done", "succeeded"]);
  });

  it("of an ended run has its context and refuses every transition", () => {
    const { context, program: ended } = play(program([{ id: "e", type: "end" }]), {});
    const actor = startActor(ended, context);
    expect(actor.context).toEqual(context);
    for (const type of ["note", "next", "run.failed"])
      expect(() => actor.apply({ ...note, type })).toThrow(ChartMismatch);
    actor.stop();
  });
});
