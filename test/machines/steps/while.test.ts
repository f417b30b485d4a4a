// while: rounds in the run itself, their limit, their pause, their outputs.
import { describe, expect, it } from "vitest";
import { attribute, chartOf, type Draft, failureOf, finish, metadataOf, problemsOf, start, typesOf } from "./rig.js";

const count: Draft = { id: "b", type: "transform", expression: "iteration", save_as: "last" };
const loop = (more: Record<string, unknown> = {}, body: Draft = count): Draft[] => [
  { type: "while", condition: "iteration < 3", body: "b", ...more },
  body,
];

describe("while", () => {
  attribute("while.condition", "is checked before each round, and sees iteration from 0", () => {
    const run = finish(loop());
    expect(run.context.variables).toEqual({ s: [0, 1, 2], last: 2 });
    expect(run.context.output).toEqual([0, 1, 2]);
    expect(typesOf(finish(loop({ condition: "false" })), "b")).toEqual([]);
    expect(finish(loop({ condition: "false" })).context.output).toEqual([]);
    expect(failureOf(finish(loop({ condition: "vars.last < 1" })))).toBe(
      'expression_error: missing key "last": vars.last < 1 in steps[0].condition',
    );
    expect(problemsOf({ type: "while", body: "s" })).toContain(".condition: is required");
  });

  attribute("while.condition", "an error in a later round fails the loop, and its on_error has a say", () => {
    const steps = [...loop({ condition: "iteration < 1 || vars.nowhere", on_error: "z" }), { id: "z", type: "noop" }];
    const run = finish(steps);
    expect(run.context.variables.s).toMatchObject({ error: { code: "expression_error", step_id: "s" } });
    expect([typesOf(run, "s"), typesOf(run, "z").length]).toEqual([["step.started", "step.failed"], 2]);
  });

  attribute("while.body", "is a block: its end, or a next to the while, is the end of a round", () => {
    expect(finish(loop({}, { ...count, next: "s" })).context.output).toEqual([0, 1, 2]);
    expect(chartOf(loop())).toEqual({
      s: ["while -> b", "run.succeeded -> succeeded"],
      b: ["done.s -> s", "raise.s -> s"],
    });
    expect(problemsOf({ type: "while", condition: "true" })).toEqual([".body: is required"]);
    expect(problemsOf({ type: "while", condition: "true", body: "nowhere" })).toContain(
      '.body: there is no step "nowhere"',
    );
  });

  attribute("while.body", "works in the run itself: its variables stay, an end in it ends the run", () => {
    const run = finish([
      { type: "set_var", name: "sum", value: 0, next: "w" },
      { id: "w", type: "while", condition: "vars.sum < 10", body: "b", compensation: { action: "shop.refund" } },
      { id: "b", type: "set_var", name: "sum", value: "${vars.sum + 4}", next: "c" },
      { id: "c", type: "switch", cases: [{ when: "vars.sum > 7", next: "d" }], default: "w" },
      { id: "d", type: "end", output: "${vars.sum}" },
    ]);
    expect(run.context.output).toBe(8);
    expect(typesOf(run, "w")).toEqual(["step.started", "step.succeeded"]);
    // It succeeded, so its compensation is on the list.
    expect(run.undo.map(({ stepId }) => stepId)).toEqual(["w"]);
  });

  attribute("while.body", "an error in it fails the loop", () => {
    const run = finish(loop({}, { id: "b", type: "assert", condition: "iteration < 1" }));
    expect(failureOf(run)).toMatch(/^assertion_failed/);
    expect(metadataOf(run, "step.failed", "s")).toMatchObject({ code: "assertion_failed", will_retry: false });
  });

  attribute("while.max_iterations", "is 1000, at most 10000; one round more is loop_limit_exceeded", () => {
    const endless = (more = {}) => finish(loop({ condition: "true", ...more }), { entries: 3000 });
    expect(failureOf(endless())).toBe("loop_limit_exceeded: the loop has run 1000 rounds");
    expect(failureOf(endless({ max_iterations: 3 }))).toBe("loop_limit_exceeded: the loop has run 3 rounds");
    expect(failureOf(endless({ max_iterations: "${1 + 1}" }))).toBe("loop_limit_exceeded: the loop has run 2 rounds");
    expect(finish(loop({ max_iterations: 3 })).state).toBe("succeeded");
    for (const [max, message] of [
      [0, "must be at least 1"],
      [10_001, "must be at most 10000"],
      [1.5, "must be a whole number"],
    ])
      expect(problemsOf({ type: "while", condition: "true", body: "s2", max_iterations: max }, count)).toContain(
        `.max_iterations: ${message}`,
      );
  });

  attribute("while.max_iterations, while.keep_last", "are evaluated once, at the entry", () => {
    const body: Draft = { id: "b", type: "set_var", name: "n", value: 1 };
    const run = finish(loop({ condition: "true", max_iterations: "${has(vars.n) ? 9 : 2}" }, body));
    expect(failureOf(run)).toMatch(/has run 2 rounds/);
    for (const name of ["max_iterations", "keep_last"]) {
      const broken = finish(loop({ [name]: "${vars.nowhere}" }));
      expect([failureOf(broken), typesOf(broken, "b")]).toEqual([
        `expression_error: missing key "nowhere": vars.nowhere in steps[0].${name}`,
        [],
      ]);
    }
  });

  attribute("while.delay_ms", "is waited between two rounds, not before the first nor after the last", () => {
    const run = start(loop({ delay_ms: "${iteration * 100}" }));
    expect([run.state, run.context.step, run.context.variables.last]).toEqual(["paused", "s", 0]);
    run.elapse(99);
    expect(run.state).toBe("paused");
    run.elapse(1);
    expect(run.context.variables.last).toBe(1);
    run.elapse(200);
    expect([run.state, run.context.output]).toEqual(["succeeded", [0, 1, 2]]);
    expect(metadataOf(finish(loop({ condition: "iteration < 2", delay_ms: 5 })), "step.paused")).toMatchObject({
      awaiting: "timer",
    });
    expect(problemsOf({ type: "while", condition: "true", body: "s2", delay_ms: -1 }, count)).toContain(
      ".delay_ms: must be at least 0",
    );
  });

  attribute(
    "while.delay_ms",
    "a cancel, a timeout of a try or a failure of the delay writes one row of the loop",
    () => {
      const cancelled = start(loop({ delay_ms: 5 }));
      cancelled.cancel();
      expect(typesOf(cancelled, "s")).toEqual(["step.started", "step.paused", "step.failed"]);
      const timed = finish(
        [
          ...loop({ delay_ms: 50 }),
          { id: "t", type: "try_catch", try: "s", catch: "c", timeout_ms: 5 },
          { id: "c", type: "noop" },
        ],
        { head: { start: "t" } },
      );
      expect(typesOf(timed, "s")).toEqual(["step.started", "step.paused", "step.failed"]);
      const broken = finish(loop({ delay_ms: "${vars.nowhere}" }));
      expect(typesOf(broken, "s")).toEqual(["step.started", "step.failed"]);
    },
  );

  attribute("while.keep_last", "is 10: so many last outputs are kept", () => {
    const rounds = (more = {}) => finish(loop({ condition: "iteration < 12", ...more })).context.output;
    expect(rounds()).toEqual([2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    expect(rounds({ keep_last: 2 })).toEqual([10, 11]);
    expect(rounds({ keep_last: "${1}" })).toEqual([11]);
    expect(rounds({ keep_last: 0 })).toEqual([]);
    expect(problemsOf({ type: "while", condition: "true", body: "s2", keep_last: -1 }, count)).toContain(
      ".keep_last: must be at least 0",
    );
  });

  attribute("while.keep_last", "the kept outputs have the limit of an output in every round", () => {
    const big: Draft = { id: "b", type: "transform", expression: "vars.text" };
    const text = "x".repeat(40);
    const run = finish(loop({ condition: "iteration < 9" }, big), { variables: { text }, limits: { output: 100 } });
    expect(failureOf(run)).toBe("limit_exceeded: the output is over 100 characters of JSON");
    expect(typesOf(run, "b")).toHaveLength(6);
    const few = finish(loop({ keep_last: 1 }, big), { variables: { text }, limits: { output: 100 } });
    expect(few.state).toBe("succeeded");
  });

  it("loops in loops: each sees its own iteration, inside and in its attributes", () => {
    const run = finish([
      { type: "while", condition: "iteration < 2", body: "inner" },
      { id: "inner", type: "while", condition: "iteration < 2", body: "b", delay_ms: "${iteration}", next: "c" },
      { id: "b", type: "transform", expression: "iteration", save_as: null },
      { id: "c", type: "transform", expression: "[iteration, vars.inner]", save_as: null },
    ]);
    expect(run.context.output).toEqual([
      [0, [0, 1]],
      [1, [0, 1]],
    ]);
  });
});
