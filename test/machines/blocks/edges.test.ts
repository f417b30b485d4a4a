// Blocks that meet: edges out of catch chains, ends inside containers, quarantine, and detached branches. Random tests found each of these;
// here they are in their smallest form.
import { describe, expect, it } from "vitest";
import type { Dispatch } from "../../../machines/index.js";
import { ACTS } from "../acts.js";
import { worldViolations } from "../chain.js";
import { ACTIONS, program } from "../definitions.js";
import { Simulation, type SimulationOptions, type WorkerMove } from "../simulation.js";

const charge = (id: string, more: Record<string, unknown> = {}) => ({
  id,
  type: "action",
  action: "shop.charge",
  inputs: { of: id },
  compensation: { action: "shop.refund", inputs: { of: id } },
  ...more,
});

function run(steps: readonly Record<string, unknown>[], options: Partial<SimulationOptions> = {}): Simulation {
  const simulation = new Simulation({ program: program(steps as never), actions: ACTIONS, ...options });
  simulation.advance();
  return simulation;
}

const BRANCHES = { a: { next: "a" }, b: { next: "b" }, c: { next: "c" } };

const undone = ({ world }: Simulation) =>
  [...world.runs.values()].flatMap(({ sent }) =>
    sent.filter(({ call }) => call.phase === "compensation").map(({ call }) => call.inputs.of),
  );

function expectSound({ world }: Simulation): void {
  expect(worldViolations(world)).toEqual([]);
}

describe("where blocks meet", () => {
  it("a catch chain may hold a try whose own chain ends at it", () => {
    const steps = [
      { id: "t", type: "try_catch", try: "e", catch: "u" },
      { id: "e", type: "error" },
      { id: "u", type: "try_catch", try: "f", catch: "n" },
      { id: "f", type: "error" },
      { id: "n", type: "noop", next: "u" },
    ];
    const simulation = run(steps);
    expect(simulation.state).toBe("succeeded");
    expectSound(simulation);
  });

  it("the layout of tries that share their catch chains, level by level, takes no time", () => {
    const level = (nth: number) => [
      { id: `a${nth}`, type: "try_catch", try: `ae${nth}`, catch: `a${nth + 1}`, next: `b${nth}` },
      { id: `ae${nth}`, type: "error" },
      { id: `b${nth}`, type: "try_catch", try: `be${nth}`, catch: `a${nth + 1}` },
      { id: `be${nth}`, type: "error" },
    ];
    const steps = Array.from({ length: 60 }, (_, nth) => level(nth)).flat();
    expect(program([...steps, { id: "a60", type: "noop" }] as never).steps.size).toBe(241);
  });

  it("a catch chain that goes to the loop around it ends the round, and the rounds are counted", () => {
    const simulation = run([
      { id: "w", type: "while", condition: "iteration < 3", body: "t", max_iterations: 5 },
      { id: "t", type: "try_catch", try: "e", catch: "c" },
      { id: "e", type: "error" },
      { id: "c", type: "transform", expression: "iteration", next: "w" },
    ]);
    expect([simulation.state, simulation.context.output]).toEqual(["succeeded", [0, 1, 2]]);
    expect(simulation.rows.filter(({ stepId, type }) => stepId === "w" && type === "step.started")).toHaveLength(1);
    expectSound(simulation);
  });

  it("a container that an end inside it leaves has succeeded, and is undone with the others", () => {
    const simulation = run([
      { id: "p", type: "parallel", branches: { a: { next: "t" }, b: { next: "m" } }, next: "j" },
      { id: "m", type: "noop" },
      {
        id: "t",
        type: "try_catch",
        try: "x",
        catch: "n",
        compensation: { action: "shop.refund", inputs: { of: "t" } },
      },
      { id: "x", type: "end" },
      { id: "n", type: "noop" },
      { id: "j", type: "join", next: "e" },
      { id: "e", type: "error" },
    ]);
    simulation.drain();
    expect([simulation.state, undone(simulation)]).toEqual(["failed", ["t"]]);
    expectSound(simulation);
  });

  it.each(["release", "cancel"] as const)(
    "children that end while their parent is in quarantine are found at its %s",
    (how) => {
      const simulation = run([
        { id: "t", type: "try_catch", try: "f", catch: "c", timeout_ms: 100 },
        { id: "f", type: "foreach", items: "[1]", body: "s" },
        { id: "s", type: "wait_for_signal", signal_name: "never" },
        { id: "c", type: "noop" },
      ]);
      simulation.world.move();
      simulation.world.move();
      simulation.elapse();
      simulation.command({ type: "quarantine" });
      simulation.drain(20);
      expect([...simulation.world.runs.values()].map(({ ended }) => ended)).toEqual([false, true]);
      if (how === "cancel") simulation.cancel();
      else simulation.command({ type: "release", actor: "api" });
      simulation.drain(20);
      expect(simulation.state).toBe(how === "cancel" ? "cancelled" : "succeeded");
      expectSound(simulation);
    },
  );

  it.each(["pause", "quarantine"] as const)(
    "a detached branch that ends during a %s lets the next one start after it, whatever the run waits for",
    (halt) => {
      const worker = { credit: false };
      const simulation = run(
        [
          { id: "p", type: "parallel", branches: BRANCHES, max_concurrency: 1, next: "j" },
          ...["a", "b", "c"].map((id) => ({ id, type: "noop" })),
          { id: "j", type: "join", mode: "any", cancel_remaining: false, next: "work" },
          charge("work"),
        ],
        { credit: () => worker.credit },
      );
      const { world } = simulation;
      const isQueued = () => simulation.context.wait?.kind === "queued";
      const ended = () => world.childrenOf(simulation.id).map((child) => child.ended);
      for (let moves = 0; moves < 50 && !(isQueued() && ended()[1]); moves++) world.move();
      expect([ended(), world.inbox.map(({ command }) => command.type)]).toEqual([[true, true], ["child"]]);
      simulation.once(halt === "pause" ? ACTS.pause : { type: "quarantine" });
      world.settle();
      simulation.once(halt === "pause" ? ACTS.resume : { type: "release", actor: "api" });
      expect(ended()).toEqual([true, true, false]);
      worker.credit = true;
      simulation.drain();
      expect(simulation.state).toBe("succeeded");
      expectSound(simulation);
    },
  );

  it("a detached branch hands over its undos; they are not part of the try, and they are not lost", () => {
    const worker = ({ call }: Dispatch): WorkerMove =>
      call.inputs.of === "slow" && call.phase === "forward" ? { kind: "silence" } : { kind: "result", result: {} };
    const simulation = run(
      [
        { id: "p", type: "parallel", branches: { a: { next: "n" }, b: { next: "slow" } }, next: "j" },
        { id: "n", type: "noop" },
        charge("slow"),
        { id: "j", type: "join", mode: "any", cancel_remaining: false, next: "t" },
        { id: "t", type: "try_catch", try: "in", catch: "c", rollback: true, next: "late" },
        charge("in", { next: "s" }),
        { id: "s", type: "wait_for_signal", signal_name: "go", next: "e" },
        { id: "e", type: "error" },
        { id: "c", type: "noop" },
        { id: "late", type: "error" },
      ],
      { worker },
    );
    const { world } = simulation;
    const slow = () =>
      [...world.runs.values()].find(({ dispatches, context }) => context.run.parentRunId && dispatches.size > 0);
    for (let moves = 0; moves < 50 && !(slow() && simulation.context.wait?.kind === "signal"); moves++) world.move();
    slow()?.result({});
    while (world.inbox.length > 0) world.move();
    simulation.signal("go");
    simulation.drain();
    expect([simulation.state, undone(simulation)]).toEqual(["failed", ["in", "slow"]]);
    expectSound(simulation);
  });

  it("a sub-saga that succeeds before its timeout reaches it has succeeded, and is owed one undo", () => {
    const child = program([charge("inner", { timeout_ms: 10_000 })], { id: "child" });
    const simulation = run(
      [
        {
          id: "s",
          type: "sub_saga",
          workflow_id: "child",
          timeout_ms: 100,
          retry: { max_attempts: 2, initial_backoff_ms: 10, jitter: false },
          compensation: { action: "shop.refund", inputs: { of: "${output}" } },
          next: "e",
        },
        { id: "e", type: "error" },
      ],
      { workflows: { child } },
    );
    const { world } = simulation;
    const first = () => world.childrenOf(simulation.id)[0];
    for (let moves = 0; moves < 5 && first()?.context.wait?.kind !== "dispatched"; moves++) world.move();
    simulation.elapse();
    expect(world.inbox.map(({ command }) => command.type)).toEqual(["cancel"]);
    // Its success is committed before the cancel reaches it.
    first()?.result({ n: 1 });
    simulation.drain();
    expect(world.childrenOf(simulation.id).map(({ state }) => state)).toEqual(["succeeded"]);
    expect([simulation.state, undone(simulation)]).toEqual(["failed", [{ n: 1 }]]);
    expectSound(simulation);
  });
});
