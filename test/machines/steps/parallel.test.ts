// parallel and join: who runs when, what decides, what comes back, and what becomes of those that are left.
import { describe, expect, it } from "vitest";
import type { Simulation } from "../simulation.js";
import { attribute, chartOf, type Draft, failureOf, finish, metadataOf, problemsOf, start, typesOf } from "./rig.js";

/** Branches by name: each waits for a signal of its name, and fails if that says so. */
function fork(names: string[], join: Record<string, unknown> = {}, parallel: Record<string, unknown> = {}): Draft[] {
  const branches = Object.fromEntries(names.map((name) => [name, { next: `${name}1` }]));
  const steps = names.flatMap((name): Draft[] => [
    { id: `${name}1`, type: "wait_for_signal", signal_name: name, next: `${name}2` },
    { id: `${name}2`, type: "assert", condition: `has(vars.${name}1.ok)`, code: `bad_${name}`, next: `${name}3` },
    {
      id: `${name}3`,
      type: "transform",
      expression: `'from ${name}'`,
      compensation: { action: "shop.refund", inputs: { of: name } },
      next: "j",
    },
  ]);
  return [
    { id: "s", type: "parallel", branches, next: "j", ...parallel },
    { id: "j", type: "join", next: "z", ...join },
    { id: "z", type: "transform", expression: "has(vars.j) ? vars.j : 0", save_as: null },
    ...steps,
  ];
}

const branchOf = ({ world }: Simulation, name: string) =>
  [...world.runs.values()].find(({ context }) => context.run.parentBranchId === name) as Simulation;
const running = ({ world }: Simulation) =>
  [...world.runs.values()].flatMap(({ ended, context }) => (ended ? [] : (context.run.parentBranchId ?? [])));
/** Branches end one after the other: `a` succeeds, `!a` fails. */
function tell(run: Simulation, ...ends: string[]): void {
  run.world.settle();
  for (const end of ends) {
    run.signal(end.replace("!", ""), end.startsWith("!") ? {} : { ok: true });
    run.world.settle();
  }
}
const told = (steps: Draft[], ...ends: string[]) => {
  const run = start(steps);
  tell(run, ...ends);
  return run;
};
const undone = ({ world }: Simulation) =>
  [...world.runs.values()].flatMap(({ sent }) => sent.map(({ call }) => call.inputs.of));

/** What is wrong besides with a parallel or a join that stands alone. */
const NO_JOIN = ".next: is required: the join of the parallel";
const START_IS_JOIN = '$.start: the step "s" is a join: only its parallel and the ends of its branches may lead to it';

attribute("parallel.branches", "each is a run of its own, named by its branch; the run waits at the join", () => {
  const run = start(fork(["a", "b"]));
  run.world.settle();
  expect([run.state, run.context.step]).toEqual(["paused", "j"]);
  expect(typesOf(run, "s")).toEqual(["step.started", "step.succeeded"]);
  expect(metadataOf(run, "step.paused", "j")).toEqual({ awaiting: "children" });
  expect(branchOf(run, "a").context.run).toMatchObject({
    parentRunId: run.id,
    parentStepId: "s",
    rootRunId: run.id,
    depth: 1,
    family: [run.id],
  });
  expect(problemsOf({ type: "parallel", branches: {}, next: "s2" }, { type: "join" })).toEqual([
    ".branches: must not be empty",
  ]);
  expect(problemsOf({ type: "parallel", branches: { "a b": { next: "s2" }, __proto__x: {} } })).toEqual([
    '.branches["a b"]: must be 1 to 128 of A-Z a-z 0-9 _ . : -',
    ".branches.__proto__x.next: is required",
    NO_JOIN,
  ]);
  expect(problemsOf(JSON.parse('{"type": "parallel", "branches": {"__proto__": {"next": "s2"}}}'))).toEqual([
    ".branches.__proto__: must not be __proto__",
    NO_JOIN,
  ]);
});

describe("parallel", () => {
  attribute("parallel.branches", "the chart begins at each branch, and goes on to the join", () => {
    const chart = chartOf(fork(["a"], { on_error: "z" }));
    expect(chart.s).toEqual(["next -> j", "error -> z"]);
    expect([chart.a2, chart.a3]).toEqual([["next -> a3"], ["run.succeeded -> succeeded"]]);
  });

  attribute("parallel.branches", "work on a copy of the variables: only their outputs come back", () => {
    const run = finish([
      { type: "set_var", variables: { x: 1, error: "outer" }, next: "p" },
      { id: "p", type: "parallel", branches: { a: { next: "a1" }, b: { next: "b1" } }, next: "j" },
      { id: "a1", type: "set_var", variables: { x: "${vars.x + 1}", y: 2 }, next: "a2" },
      { id: "a2", type: "transform", expression: "[vars.x, vars.y]" },
      // Entering a try removes its variable: here of the branch only.
      { id: "b1", type: "try_catch", try: "b2", catch: "b3", next: "b3" },
      { id: "b2", type: "noop" },
      { id: "b3", type: "transform", expression: "[has(vars.error), vars.x]" },
      { id: "j", type: "join", next: "z" },
      { id: "z", type: "transform", expression: "[vars.x, vars.error, has(vars.y), vars.j]" },
    ]);
    expect(run.context.output).toEqual([1, "outer", false, { a: [2, 2], b: [false, 1] }]);
  });

  attribute("parallel.max_concurrency", "so many run at once; the next begins when one ends; 0 is all", () => {
    const steps = (max: unknown) => fork(["a", "b", "c"], {}, { max_concurrency: max });
    const run = told(steps(2));
    expect(running(run)).toEqual(["a", "b"]);
    tell(run, "b");
    expect(running(run)).toEqual(["a", "c"]);
    tell(run, "a", "c");
    expect(run.context.output).toEqual({ a: "from a", b: "from b", c: "from c" });
    for (const all of [0, 9, "${0}"]) expect(running(told(steps(all)))).toEqual(["a", "b", "c"]);
    expect(running(told(fork(["a", "b"])))).toEqual(["a", "b"]);
    expect(problemsOf({ type: "parallel", branches: { a: { next: "s" } }, max_concurrency: -1 })).toEqual([
      ".max_concurrency: must be at least 0",
      ".branches.a.next: a block must have a step",
      NO_JOIN,
    ]);
  });

  attribute("parallel.max_concurrency", "its error is the parallel's, and its join's on_error takes it", () => {
    const broken = { max_concurrency: "${vars.nowhere}" };
    expect(failureOf(told(fork(["a"], {}, broken)))).toBe(
      'expression_error: missing key "nowhere": vars.nowhere in steps[0].max_concurrency',
    );
    const run = told(fork(["a"], { on_error: "continue" }, { ...broken, on_error: "fail" }));
    expect([run.state, typesOf(run, "j")]).toEqual(["succeeded", []]);
    expect(run.context.variables.j).toMatchObject({ error: { code: "expression_error", step_id: "s" } });
  });

  attribute(
    "join.cancel_remaining",
    "false: a branch that begins only then sees the variables and the names of the fork",
    () => {
      const run = finish([
        { id: "s", type: "while", condition: "iteration < 2", body: "p" },
        {
          id: "p",
          type: "parallel",
          branches: { a: { next: "a1" }, b: { next: "b1" } },
          next: "j",
          max_concurrency: 1,
        },
        { id: "a1", type: "noop" },
        { id: "b1", type: "transform", expression: "[iteration, has(vars.late)]" },
        { id: "j", type: "join", mode: "any", cancel_remaining: false, next: "l" },
        { id: "l", type: "set_var", name: "late", value: true, next: "pause" },
        { id: "pause", type: "wait_duration", duration_ms: 5 },
      ]);
      const seen = [...run.world.runs.values()].filter(({ context }) => context.run.parentBranchId === "b");
      expect(seen.map(({ context }) => context.output)).toEqual([
        [0, false],
        [1, true],
      ]);
    },
  );

  describe("join", () => {
    attribute("join.mode", "all: every branch; the first that fails fails it, with that branch's error", () => {
      expect(told(fork(["a", "b"]), "b", "a").context.output).toEqual({ a: "from a", b: "from b" });
      expect(told(fork(["a", "b"]), "a").state).toBe("paused");
      const run = told(fork(["a", "b", "c"]), "a", "!b");
      expect(failureOf(run)).toMatch(/^bad_b: the condition does not hold/);
      expect(run.context.ending?.error?.step_id).toBe("b2");
      expect(branchOf(run, "c").state).toBe("cancelled");
      expect(undone(run)).toEqual(["a"]);
      expect(problemsOf({ type: "join", mode: "most" })).toEqual([
        ".mode: must be one of all, any, count, all_settled",
        START_IS_JOIN,
      ]);
    });

    attribute("join.mode", "any: the first that succeeds; it fails when the last has failed", () => {
      const run = told(fork(["a", "b", "c"], { mode: "any" }), "!a", "b");
      expect(run.context.output).toEqual({ b: "from b" });
      expect(branchOf(run, "c").state).toBe("cancelled");
      expect(failureOf(told(fork(["a", "b"], { mode: "any" }), "!b", "!a"))).toMatch(/^bad_a/);
    });

    attribute("join.mode, join.count", "count: so many must succeed; it fails as soon as they cannot", () => {
      const steps = fork(["a", "b", "c"], { mode: "count", count: 2 });
      expect(told(steps, "!a", "b", "c").context.output).toEqual({ b: "from b", c: "from c" });
      const run = told(steps, "!a", "!c");
      expect(failureOf(run)).toMatch(/^bad_c/);
      expect(branchOf(run, "b").state).toBe("cancelled");
      expect(told(fork(["a", "b"], { mode: "count", count: "${1}" }), "b").context.output).toEqual({ b: "from b" });
      const needs = ": count goes with mode count, and only with it";
      expect(problemsOf({ type: "join", mode: "count" })).toContain(needs);
      expect(problemsOf({ type: "join", count: 1 })).toContain(needs);
      expect(problemsOf({ type: "join", mode: "count", count: 0 })).toEqual([
        ".count: must be at least 1",
        START_IS_JOIN,
      ]);
    });

    attribute("join.count", "one that can never be met, or an error in it, ends the branches and fails at once", () => {
      for (const [count, message] of [
        [3, "count is 3, and 2 branches decide"],
        ["${vars.nowhere}", 'missing key "nowhere": vars.nowhere in steps[1].count'],
        ["${0}", "count must be a number of at least 1"],
      ]) {
        const run = told(fork(["a", "b"], { mode: "count", count }));
        expect(failureOf(run)).toBe(`expression_error: ${message}`);
        expect([branchOf(run, "a").state, branchOf(run, "b").state]).toEqual(["cancelled", "cancelled"]);
      }
    });

    attribute("join.mode", "all_settled: waits for all, and gives the errors of those that failed", () => {
      const run = told(fork(["a", "b"], { mode: "all_settled" }), "!a", "b");
      expect(run.context.output).toEqual({
        a: { error: { code: "bad_a", message: "the condition does not hold: has(vars.a1.ok)", step_id: "a2" } },
        b: "from b",
      });
      expect(told(fork(["a", "b"], { mode: "all_settled" }), "!a", "!b").state).toBe("succeeded");
    });

    attribute("join.on", "only these branches decide; the others' outputs come along if they are there", () => {
      const steps = fork(["a", "b", "c"], { on: ["a"] });
      expect(told(steps, "!b").state).toBe("paused");
      expect(told(steps, "c", "a").context.output).toEqual({ a: "from a", c: "from c" });
      expect(failureOf(told(steps, "c", "!a"))).toMatch(/^bad_a/);
      expect(told(fork(["a", "b"], { on: ["b"], mode: "all_settled" }), "!b").context.output).toMatchObject({
        a: { error: { code: "cancelled" } },
        b: { error: { code: "bad_b" } },
      });
      expect(() => start(fork(["a"], { on: ["a", "x"] }))).toThrow("$.steps[1].on[1]");
      expect(problemsOf({ type: "join", on: [] })).toEqual([".on: must have at least 1 item", START_IS_JOIN]);
      expect(problemsOf({ type: "join", on: ["a b"] })).toEqual([
        ".on[0]: must be 1 to 128 of A-Z a-z 0-9 _ . : -",
        START_IS_JOIN,
      ]);
    });

    attribute("join.cancel_remaining", "true: losers are cancelled, awaited and undone before the run goes on", () => {
      const done: Draft = { id: "b1", type: "noop", compensation: { action: "shop.refund", inputs: { of: "b1" } } };
      const steps = fork(["a", "b"], { mode: "any" }).map((step) =>
        step.id === "b1" ? { ...done, next: "b0" } : step.id === "b2" ? { ...step, condition: "true" } : step,
      );
      const waits: Draft = { id: "b0", type: "wait_for_signal", signal_name: "b", next: "b2" };
      const run = start([...steps, waits]);
      run.world.settle();
      run.signal("a", { ok: true });
      while (!branchOf(run, "b").ended) {
        expect(run.context.step).toBe("j");
        run.world.move();
      }
      expect([branchOf(run, "b").state, undone(run)]).toEqual(["cancelled", ["b1"]]);
      run.world.settle();
      expect([run.state, run.context.output]).toEqual(["succeeded", { a: "from a" }]);
    });

    attribute("join.cancel_remaining", "false: they go on, and are cancelled when the run is about to end", () => {
      const steps = fork(["a", "b"], { mode: "any", cancel_remaining: false }).map((step) =>
        step.id === "z" ? { ...step, type: "wait_for_signal", signal_name: "end", expression: undefined } : step,
      );
      const clean = steps.map(
        (step) => Object.fromEntries(Object.entries(step).filter(([, v]) => v !== undefined)) as Draft,
      );
      const run = told(clean, "a");
      expect([run.context.step, running(run)]).toEqual(["z", ["b"]]);
      tell(run, "end");
      expect([run.state, branchOf(run, "b").state]).toEqual(["succeeded", "cancelled"]);
      expect(branchOf(run, "b").context.ending?.reason).toBe("the run is about to end");
      const done = told(clean, "a", "b");
      expect([running(done), done.context.groups, done.state]).toEqual([[], {}, "paused"]);
      expect(problemsOf({ type: "join", cancel_remaining: "no" })).toEqual([
        ".cancel_remaining: must be true or false",
        START_IS_JOIN,
      ]);
    });

    it("leftover branches hand over what they did: a run that fails later undoes it", () => {
      const steps = fork(["a", "b"], { mode: "any", cancel_remaining: false });
      const waits: Draft[] = [
        { id: "z", type: "wait_for_signal", signal_name: "end", next: "y" },
        { id: "y", type: "error" },
      ];
      const run = told([...steps.filter(({ id }) => id !== "z"), ...waits], "a", "b", "end");
      expect([run.state, undone(run)]).toEqual(["failed", ["b", "a"]]);
    });

    it("a caught plain error leaves them running, a rollback or a timeout of the try does not", () => {
      const inside = (more: Record<string, unknown>, last: Draft): Draft[] => [
        { id: "t", type: "try_catch", try: "s", catch: "c", next: "w", ...more },
        ...fork(["a", "b"], { mode: "any", cancel_remaining: false }).filter(({ id }) => id !== "z"),
        { ...last, id: "z" },
        { id: "c", type: "noop" },
        { id: "w", type: "wait_for_signal", signal_name: "end" },
      ];
      const at = (more: Record<string, unknown>, last: Draft) => {
        const run = start(inside(more, last), { head: { start: "t" } });
        tell(run, "a");
        if (more.timeout_ms !== undefined) run.elapse();
        run.world.settle();
        expect(run.context.step).toBe("w");
        return branchOf(run, "b").ended;
      };
      expect(at({}, { type: "error" })).toBe(false);
      expect(at({ rollback: true }, { type: "error" })).toBe(true);
      expect(at({ timeout_ms: 10 }, { type: "wait_for_signal", signal_name: "never" })).toBe(true);
    });

    it("a branch that is cancelled by itself counts as failed, with code cancelled", () => {
      const run = told(fork(["a", "b"]));
      branchOf(run, "a").cancel();
      run.world.settle();
      expect(failureOf(run)).toBe("cancelled: asked to");
    });

    it("skipped: it waits for nothing, and the branches are detached", () => {
      const run = told(fork(["a"], { when: "false" }));
      expect([run.state, typesOf(run, "j")]).toEqual(["succeeded", ["step.started", "step.skipped"]]);
      expect(branchOf(run, "a").state).toBe("cancelled");
    });

    it("a cancel of the run reaches the branches first, with its compensate", () => {
      for (const compensate of [true, false]) {
        const steps = fork(["a", "b"]).map((step) => (step.id === "b1" ? { ...step, next: "b3" } : step));
        const run = told(steps, "a");
        run.cancel(compensate);
        run.world.settle();
        expect([run.state, branchOf(run, "b").state, branchOf(run, "a").state]).toEqual([
          "cancelled",
          "cancelled",
          "succeeded",
        ]);
        expect(undone(run)).toEqual(compensate ? ["a"] : []);
      }
    });

    it("a quarantined run counts the ends of its branches, and goes on once it is released", () => {
      const run = told(fork(["a", "b"]));
      run.command({ type: "quarantine" });
      tell(run, "a", "b");
      expect([run.state, run.context.step, running(run)]).toEqual(["paused", "j", []]);
      run.command({ type: "release", actor: "api" });
      run.world.settle();
      expect(run.context.output).toEqual({ a: "from a", b: "from b" });
    });
  });
});

describe("a branch that was promised a signal", () => {
  it("takes it at its timeout, although the message that offers it has not arrived", () => {
    const steps = fork(["a", "b"]).map((step) => (step.id === "a1" ? { ...step, timeout_ms: 3_000 } : step));
    const run = start(steps);
    run.world.settle();
    expect(run.signal("a", { ok: true })).toMatchObject({ matched: true });
    expect(run.world.inbox.map(({ command }) => command.type)).toEqual(["take"]);
    run.world.now += 3_000;
    branchOf(run, "a").advance();
    expect(typesOf(branchOf(run, "a"), "a1")).toEqual(["step.started", "step.paused", "step.succeeded"]);
    tell(run, "b");
    expect(run.context.output).toBeDefined();
  });
});
