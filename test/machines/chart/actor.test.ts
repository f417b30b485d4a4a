// The logic of run actors against XState itself: every edge of every chart leads where the library's own actor goes, the first time that it is
// taken and each time after, and what is no edge is refused.
// @module-tag both
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type AnyActorRef, type AnyStateMachine, type AnyStateNode, createActor } from "xstate";
import {
  asRunId,
  ChartMismatch,
  movedActor,
  newRun,
  type Program,
  type RunContext,
  startActor,
} from "../../../machines/index.js";
import { firstSeed } from "../../harness/long.js";
import { documents, program } from "../definitions.js";
import { families, optionsOf } from "../families.js";
import { EXAMPLES, exampleName, exampleProgram } from "./examples.js";

const RUN = {
  ...{ id: asRunId("01900000-0000-7000-8000-00000000aa01"), definitionId: "d", workflowId: "w", version: 1 },
  ...{ dryRun: false, features: {}, entrypoint: "", inputs: { n: 1 }, startedAt: 0 },
};
const CONTEXT = newRun(RUN, { x: 1 });
const eventOf = (type: string, patch: object = { variables: { x: 2 }, entries: undefined }) => ({
  ...{ type, patch, stored: [], audit: [], writes: [], sends: [] },
});
const NO_EDGES = ["nowhere", "next.x", "note*", "xstate.init", "begin.nobody", ""];

type Value = string | { active: string };

/** The states that a run can be in, and the names of all edges. */
function chartOf({ root }: AnyStateMachine): { values: Value[]; labels: Set<string> } {
  const values: Value[] = [];
  const labels = new Set<string>();
  const visit = (node: AnyStateNode) => {
    for (const label of node.transitions.keys()) labels.add(label);
    const [top = "", step] = node.path;
    if (Object.keys(node.states).length === 0) values.push(step === undefined ? top : { active: step });
    for (const child of Object.values(node.states)) visit(child);
  };
  visit(root);
  return { values, labels };
}

/** What an actor shows after an event, and what it emitted. */
function seenAfter(actor: AnyActorRef, event: object) {
  const emitted: unknown[] = [];
  const faults: unknown[] = [];
  actor.subscribe({ error: (fault) => faults.push(String(fault)) });
  actor.on("transition", (each: unknown) => emitted.push(each));
  actor.start();
  actor.send(event as never);
  const { machine, _nodes, tags, ...seen } = actor.getSnapshot();
  return { ...seen, emitted, faults, tags: [...tags].sort(), nodes: _nodes.map(({ id }: AnyStateNode) => id).sort() };
}

/** Every event at every state of a chart, by the library and by the logic. The number of those that are edges. */
function compared({ machine, logic }: Program): number {
  const { values, labels } = chartOf(machine);
  let edges = 0;
  for (const value of values.filter((each) => !isFinal(machine, each)))
    for (const type of [...labels, ...NO_EDGES]) {
      const event = eventOf(type);
      const library = seenAfter(
        createActor(machine, { snapshot: machine.resolveState({ value, context: CONTEXT }) }),
        event,
      );
      const begun = () => ({ ...machine.resolveState({ value, context: {} }), context: CONTEXT });
      for (const _ of ["explored", "known"])
        expect(seenAfter(createActor(logic, { snapshot: begun() }), event)).toEqual(library);
      edges += library.emitted.length;
    }
  return edges;
}

const isFinal = ({ states }: AnyStateMachine, value: Value) =>
  typeof value === "string" && states[value]?.type === "final";

describe("each edge leads where XState goes", () => {
  it.each(EXAMPLES.map((file) => [exampleName(file), file]))("in the chart of %s", (_name, file) => {
    expect(compared(exampleProgram(file))).toBeGreaterThan(10);
  });

  it("in the charts of random workflows, with blocks and without", { tags: "long" }, () => {
    const seed = firstSeed();
    console.log(`logic: seed ${seed}`);
    const options = { seed, numRuns: 12 };
    const all = fc.property(documents, families, ({ steps, head }, family) => {
      const { program: root, workflows = {} } = optionsOf(family);
      for (const each of [program(steps, head), root, ...Object.values(workflows)])
        expect(compared(each)).toBeGreaterThan(0);
    });
    fc.assert(all, options);
  });
});

describe("an actor", () => {
  const looped = () =>
    program(
      [
        { id: "a", type: "noop", next: "b" },
        { id: "b", type: "noop", next: "a" },
      ],
      { name: `looped ${Math.random()}` },
    );
  const at = (step: string): RunContext => ({ ...CONTEXT, state: "running", step });
  const to = (step: string) => ({ step, entries: 1 });

  it("refuses what is no edge of its state, also after the edges there are known", () => {
    const compiled = looped();
    for (const _ of ["explored", "known"]) {
      startActor(compiled, at("a")).apply(eventOf("next", to("b")));
      for (const type of ["error", "begin.default", "resume", "nowhere"])
        expect(() => startActor(compiled, at("a")).apply(eventOf(type, {}))).toThrow(ChartMismatch);
    }
  });

  it("refuses an edge that leads elsewhere than its context says, also a known one", () => {
    const compiled = looped();
    for (const _ of ["explored", "known"]) {
      expect(() => startActor(compiled, at("a")).apply(eventOf("next", to("a")))).toThrow(
        'the edge next led to {"active":"b"}',
      );
      expect(() => startActor(compiled, at("a")).apply(eventOf("note", to("b")))).toThrow(ChartMismatch);
    }
  });

  it("keeps its own context on an edge that another run took first", () => {
    const compiled = looped();
    startActor(compiled, { ...at("a"), variables: { secret: 1 } }).apply(eventOf("next", to("b")));
    const second = startActor(compiled, at("a"));
    second.apply(eventOf("next", { ...to("b"), variables: { own: 2 } }));
    expect(second.context).toEqual({ ...at("b"), entries: 1, variables: { own: 2 } });
    // What the program remembers is of no run.
    expect(JSON.stringify(compiled.logic, (_, value) => (value instanceof Map ? [...value] : value))).not.toMatch(
      /secret|own/,
    );
  });

  it("of a program takes no edge of another one", () => {
    const known = looped();
    startActor(known, at("b")).apply(eventOf("next", to("a")));
    const other = program([
      { id: "a", type: "noop", next: "b" },
      { id: "b", type: "noop" },
    ]);
    expect(() => startActor(other, at("b")).apply(eventOf("next", to("a")))).toThrow(ChartMismatch);
  });

  it("of a run that moves takes the edges of the version that it comes to", () => {
    const [first, second] = [
      looped(),
      program([
        { id: "a", type: "noop", next: "b" },
        { id: "b", type: "noop", next: "c" },
        { id: "c", type: "noop" },
      ]),
    ];
    startActor(first, at("b")).apply(eventOf("next", to("a")));
    const moved = { version: 2, definitionId: "e" };
    const actor = movedActor(startActor(first, at("b")), second, { ...eventOf("moved", { entries: 7 }), moved });
    expect(actor.context).toEqual({ ...at("b"), entries: 7, run: { ...RUN, ...moved } });
    actor.apply(eventOf("next", to("c")));
    expect(actor.ref.getSnapshot().value).toEqual({ active: "c" });
  });

  it("is done at an end, the first time and the next", () => {
    const compiled = program([{ id: "only", type: "noop" }], { name: `ended ${Math.random()}` });
    for (const _ of ["explored", "known"]) {
      const actor = startActor(compiled, at("only"));
      actor.apply(eventOf("run.succeeded", { state: "succeeded", step: undefined }));
      expect(actor.ref.getSnapshot()).toMatchObject({ value: "succeeded", status: "done" });
      expect(() => actor.apply(eventOf("note", {}))).toThrow(ChartMismatch);
    }
  });
});
