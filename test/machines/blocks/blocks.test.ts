// Combinations of blocks: branches, items, rounds, tries and sub-sagas in one run, with their errors, ends and undos.
import { describe, expect, it } from "vitest";
import type { Dispatch } from "../../../machines/index.js";
import { program } from "../definitions.js";
import type { Simulation, SimulationOptions, WorkerMove } from "../simulation.js";
import { finish, typesOf } from "../steps/rig.js";

const charge = (id: string, more: Record<string, unknown> = {}) => ({
  id,
  type: "action",
  action: "shop.charge",
  inputs: { of: id },
  compensation: { action: "shop.refund", inputs: { of: id } },
  ...more,
});

const undone = (simulation: Simulation) =>
  simulation.sent.filter(({ call }) => call.phase === "compensation").map(({ call }) => call.inputs.of);

const failing =
  (...steps: string[]) =>
  (dispatch: Dispatch): WorkerMove =>
    steps.includes(String(dispatch.call.inputs.of)) && dispatch.call.phase === "forward"
      ? { kind: "failure", code: "declined", retryable: false, outcomeUnknown: false }
      : { kind: "result", result: { by: dispatch.call.inputs.of ?? null } };

const answer = failing();

describe("parallel and join", () => {
  const fork = (join: Record<string, unknown>, options: Partial<SimulationOptions> = {}) =>
    finish(
      [
        { type: "parallel", branches: { a: { next: "x" }, b: { next: "y" } }, next: "j" },
        charge("x", { next: "j" }),
        charge("y"),
        { id: "j", type: "join", next: "z", ...join },
        { id: "z", type: "transform", expression: "vars.j" },
      ] as never,
      { worker: answer, ...options },
    );

  it("all branches run, and their outputs come back by name", () => {
    const run = fork({});
    expect(run.context.output).toEqual({ a: { by: "x" }, b: { by: "y" } });
    expect(typesOf(run, "j")).toEqual(["step.started", "step.paused", "step.succeeded"]);
  });

  it("a branch that fails cancels the others, and everything is undone", () => {
    const run = fork({}, { worker: failing("y") });
    expect([run.state, run.context.ending?.error?.code]).toEqual(["failed", "declined"]);
    const all = [...run.world.runs.values()];
    expect(all.every(({ ended }) => ended)).toBe(true);
    expect(all.flatMap(undone)).toEqual(["x"]);
  });

  it("any: the loser is cancelled and undone before the run goes on", () => {
    const run = fork({ mode: "any" });
    expect(Object.keys(run.context.output as object)).toHaveLength(1);
  });
});

describe("foreach", () => {
  it("outputs come in input order, under concurrency", () => {
    const run = finish(
      [
        { type: "foreach", items: "inputs.list", body: "b", max_concurrency: 2 },
        { id: "b", type: "transform", expression: "item * 2.0 + index" },
      ] as never,
      { inputs: { list: [5, 6, 7] } },
    );
    expect(run.context.output).toEqual([10, 13, 16]);
  });

  it("tolerated failures become {error}; one more fails the step", () => {
    const steps = (tolerated: number) => [
      { type: "foreach", items: "[1, 2, 3]", body: "b", tolerated_failures: tolerated },
      { id: "b", type: "assert", condition: "item != 2", next: "c" },
      { id: "c", type: "transform", expression: "item" },
    ];
    expect(finish(steps(1) as never).context.output).toMatchObject([1, { error: { code: "assertion_failed" } }, 3]);
    expect(finish(steps(0) as never).context.ending?.error).toMatchObject({ code: "assertion_failed", step_id: "b" });
  });
});

describe("while", () => {
  it("rounds repeat until the condition is false; the last outputs stay", () => {
    const run = finish([
      { type: "set_var", name: "n", value: 0, next: "w" },
      { id: "w", type: "while", condition: "vars.n < 5", body: "b", keep_last: 2 },
      { id: "b", type: "set_var", name: "n", value: "${vars.n + 1}", next: "c" },
      { id: "c", type: "transform", expression: "[vars.n, iteration]", next: "w" },
    ] as never);
    expect(run.context.output).toEqual([
      [4, 3],
      [5, 4],
    ]);
  });

  it("one round over the limit fails the loop", () => {
    const run = finish([
      { type: "while", condition: "true", body: "b", max_iterations: 3 },
      { id: "b", type: "noop" },
    ] as never);
    expect(run.context.ending?.error?.code).toBe("loop_limit_exceeded");
  });
});

describe("try_catch", () => {
  const tried = (more: Record<string, unknown>, options: Partial<SimulationOptions> = {}) =>
    finish(
      [
        charge("s", { next: "t" }),
        { id: "t", type: "try_catch", try: "x", catch: "c", next: "z", ...more },
        charge("x", { next: "y" }),
        charge("y"),
        { id: "c", type: "transform", expression: "[error.code, error.step_id]" },
        charge("z"),
      ] as never,
      { worker: failing("y"), ...options },
    );

  it("the error goes to the catch, and the run goes on behind the try", () => {
    const run = tried({});
    expect(run.state).toBe("succeeded");
    expect(run.context.variables).toMatchObject({ c: ["declined", "y"], error: { code: "declined", step_id: "y" } });
    expect(typesOf(run, "t")).toEqual(["step.started", "step.succeeded"]);
    expect(undone(run)).toEqual([]);
  });

  it("rollback: the completed steps of the try are undone before the catch, while the run is running", () => {
    const run = tried({ rollback: true });
    expect([run.state, undone(run)]).toEqual(["succeeded", ["x"]]);
    expect(run.rows.some(({ to }) => to === "compensating")).toBe(false);
  });

  it("codes that are not caught go outward", () => {
    const run = tried({ errors: ["timeout", "http_*"] });
    expect([run.state, undone(run)]).toEqual(["failed", ["x", "s"]]);
  });

  it("a timeout cancels everything inside, and its own catch may handle it", () => {
    const run = finish([
      { type: "try_catch", try: "w", catch: "c", timeout_ms: 1_000 },
      { id: "w", type: "wait_for_signal", signal_name: "never" },
      { id: "c", type: "transform", expression: "[error.code, error.step_id]" },
    ] as never);
    expect(run.context.output).toEqual(["timeout", "s"]);
  });

  it("error without a code raises the caught error again", () => {
    const run = finish([
      { type: "try_catch", try: "x", catch: "c" },
      { id: "x", type: "error", code: "mine", details: { n: 1 } },
      { id: "c", type: "error" },
    ] as never);
    expect(run.context.ending?.error).toEqual({
      code: "mine",
      message: "the workflow raised an error",
      details: { n: 1 },
      step_id: "x",
    });
  });
});

describe("sub_saga", () => {
  const child = (steps: unknown[]) => program(steps as never, { id: "child" });
  const parent = (more: Record<string, unknown> = {}, after: unknown[] = []) => [
    { type: "sub_saga", workflow_id: "child", inputs: { n: 1 }, ...(after.length > 0 && { next: "z" }), ...more },
    ...after,
  ];

  it("its output is the child's", () => {
    const workflows = { child: child([{ id: "s", type: "transform", expression: "inputs.n + 1" }]) };
    expect(finish(parent() as never, { workflows }).context.output).toBe(2);
  });

  it("a child that fails: child_failed, with its cause", () => {
    const workflows = { child: child([{ id: "s", type: "error", code: "inner" }]) };
    const { ending } = finish(parent() as never, { workflows }).context;
    expect(ending?.error).toMatchObject({ code: "child_failed", step_id: "s", cause: { code: "inner" } });
  });

  it("the parent undoes the steps of a child that succeeded, in the order of completion", () => {
    const workflows = { child: child([charge("a", { next: "b" }), charge("b")]) };
    const saga = { id: "saga", type: "sub_saga", workflow_id: "child", next: "z" };
    const steps = [charge("first", { next: "saga" }), saga, { id: "z", type: "error" }];
    const run = finish(steps as never, { workflows, worker: answer, head: { start: "first" } });
    expect([run.state, undone(run)]).toEqual(["failed", ["b", "a", "first"]]);
    expect(run.rows.filter(({ metadata }) => metadata?.child_run_id).length).toBeGreaterThan(0);
  });

  it("its own compensation replaces the child's list", () => {
    const workflows = { child: child([charge("a")]) };
    const compensation = { action: "shop.refund", inputs: { of: "whole" } };
    const run = finish(parent({ compensation }, [{ id: "z", type: "error" }]) as never, { workflows, worker: answer });
    expect(undone(run)).toEqual(["whole"]);
  });
});
