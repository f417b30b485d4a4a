// A paused family: what a parent sends to its children can come in another order, for its node can die between the two.
import { describe, expect, it } from "vitest";
import type { RunCommand } from "../../machines/index.js";
import { ACTS } from "./acts.js";
import { ACTIONS, program } from "./definitions.js";
import { randomOf } from "./scheduler.js";
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

const charged = (id: string, next: string) => ({
  ...{ id, type: "action", action: "shop.charge", next },
  compensation: { action: "shop.refund" },
});

/** Its branch `a` ends at once, and so its join cancels the others: one that undoes a charge, and one with a family of its own. */
const raced = program([
  { id: "p", type: "parallel", branches: { a: { next: "a" }, b: { next: "b" }, c: { next: "q" } }, next: "j" },
  { id: "a", type: "wait_for_signal", signal_name: "won" },
  charged("b", "b2"),
  wait("b2"),
  { id: "q", type: "parallel", branches: { d: { next: "d" }, e: { next: "e" } }, next: "k" },
  charged("d", "d2"),
  wait("d2"),
  charged("e", "e2"),
  wait("e2"),
  { id: "k", type: "join" },
  { id: "j", type: "join", mode: "any", next: "last" },
  wait("last"),
]);

describe("a family that is ended while it is paused", () => {
  const acts: readonly (readonly [string, RunCommand])[] = [
    ["a cancel", { type: "cancel", compensate: true, actor: "api" }],
    ["a cancel without undo", { type: "cancel", compensate: false, actor: "api" }],
    ["a terminate", ACTS.terminate],
  ];

  it.each(acts)("ends: %s of its root, wherever its branches are, in any order of messages", (_, act) => {
    const reached = { ending: 0, free: 0 };
    for (let seed = 1; seed <= 150; seed++) {
      const random = randomOf(seed);
      const root = new Simulation({ program: raced, actions: ACTIONS });
      const { world } = root;
      world.stepwise = true;
      world.choose = (count) => Math.floor(random() * count);
      root.once({ type: "advance" });
      world.settle();
      root.signal("won");
      for (let moves = Math.floor(random() * 25); moves > 0 && !root.ended; moves--) world.move();
      root.once(ACTS.pause);
      for (let moves = Math.floor(random() * 8); moves > 0; moves--) world.move();
      const children = [...world.runs.values()].filter((run) => run !== root && !run.ended);
      const held = children.filter(({ context }) => context.held);
      if (held.some(({ context }) => context.ending)) reached.ending++;
      if (held.some(({ context }) => !context.ending)) reached.free++;
      root.once(act);
      world.drain(500);
      const stuck = [...world.runs.values()].filter(({ ended }) => !ended);
      expect(
        stuck.map(({ context }) => [context.run.parentBranchId, context.state, context.held]),
        `seed ${seed}`,
      ).toEqual([]);
    }
    // Both of them have happened: the branches were ending when the pause reached them, and were not.
    expect(Math.min(reached.ending, reached.free)).toBeGreaterThan(5);
  });
});
