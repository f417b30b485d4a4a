// A paused family: what a parent sends to its children can come in another order, for its node can die between the two.
import { describe, expect, it } from "vitest";
import { ACTS } from "./acts.js";
import { program } from "./definitions.js";
import { Simulation } from "./simulation.js";

const wait = (id: string) => ({ id, type: "wait_for_signal", signal_name: "go" });
const family = program([
  { id: "p", type: "parallel", branches: { a: { next: "q" }, b: { next: "b" } }, next: "j" },
  { id: "q", type: "parallel", branches: { c: { next: "c" }, d: { next: "d" } }, next: "k" },
  wait("c"),
  wait("d"),
  { id: "k", type: "join" },
  wait("b"),
  { id: "j", type: "join" },
]);

/** The root, with four descendants: all of them wait. */
function started(): Simulation {
  const root = new Simulation({ program: family });
  root.advance();
  root.world.settle();
  expect(root.world.runs.size).toBe(5);
  return root;
}

const heldOf = ({ world }: Simulation) => [...world.runs.values()].map(({ context: { held } }) => held !== undefined);

/** Delivers what is in the inbox, the newest first, until nothing is left. */
function deliverBackwards({ world }: Simulation): void {
  for (let message = world.inbox.at(-1); message; message = world.inbox.at(-1)) world.deliver(message);
}

describe("a family", () => {
  it("is not paused by a pause that comes after its own resume", () => {
    const root = started();
    root.once(ACTS.pause);
    root.once(ACTS.resume);
    deliverBackwards(root);
    expect(heldOf(root)).toEqual(Array(5).fill(false));
  });

  it("is paused by a second pause, although the resume before it comes last", () => {
    const root = started();
    for (const act of [ACTS.pause, ACTS.resume, ACTS.pause]) root.once(act);
    deliverBackwards(root);
    expect(heldOf(root)).toEqual(Array(5).fill(true));
    root.once(ACTS.resume);
    deliverBackwards(root);
    expect(heldOf(root)).toEqual(Array(5).fill(false));
  });

  it("follows its root after one of its members was paused or resumed on its own", () => {
    const root = started();
    const child = [...root.world.runs.values()].find(({ context }) => context.run.parentRunId === root.id);
    child?.once(ACTS.pause);
    root.once(ACTS.pause);
    deliverBackwards(root);
    child?.once(ACTS.resume);
    deliverBackwards(root);
    expect(child?.context.held).toBeUndefined();
    root.once(ACTS.resume);
    root.once(ACTS.pause);
    deliverBackwards(root);
    expect(heldOf(root)).toEqual(Array(5).fill(true));
  });
});
