// try_catch, and `error` that raises again: what is caught, what the catch sees, where the run goes on, what is undone first.
import { describe, expect, it } from "vitest";
import type { Dispatch } from "../../../machines/index.js";
import { pausedReason, wakeAt } from "../../../machines/index.js";
import type { Simulation, WorkerMove } from "../simulation.js";
import {
  attribute,
  chartOf,
  type Draft,
  failureOf,
  finish,
  metadataOf,
  problemsOf,
  rowsOf,
  start,
  typesOf,
} from "./rig.js";

const see = "[error.code, error.message, error.step_id]";
const tried = (more: Record<string, unknown> = {}, body: Draft = { type: "error", code: "mine" }): Draft[] => [
  { type: "try_catch", try: "b", catch: "c", next: "z", ...more },
  { id: "b", ...body },
  { id: "c", type: "transform", expression: see },
  { id: "z", type: "noop" },
];
const charge = (id: string, more: Record<string, unknown> = {}): Draft => ({
  id,
  type: "action",
  action: "shop.charge",
  inputs: { of: id },
  compensation: { action: "shop.refund", inputs: { of: id } },
  ...more,
});
const undone = ({ sent }: Simulation) =>
  sent.filter(({ call }) => call.phase === "compensation").map(({ call }) => call.inputs.of);
const broken: Draft = { type: "transform", expression: "vars.nowhere" };

describe("try_catch", () => {
  attribute(
    "try_catch.try, try_catch.catch",
    "the catch handles an error that leaves the try; both go on at next",
    () => {
      const run = finish(tried());
      expect(run.context.variables.c).toEqual(["mine", "the workflow raised an error", "b"]);
      expect([typesOf(run, "s"), typesOf(run, "z").length]).toEqual([["step.started", "step.succeeded"], 2]);
      const well = finish(tried({}, { type: "noop" }));
      expect([typesOf(well, "c"), typesOf(well, "z").length, well.context.variables]).toEqual([[], 2, {}]);
      expect(chartOf(tried())).toEqual({
        s: ["try -> b", "catch -> c", "next -> z"],
        b: ["raise.s -> s"],
        c: ["done.s -> s", "raise.s -> s"],
        z: ["run.succeeded -> succeeded"],
      });
      expect(problemsOf({ type: "try_catch" })).toEqual([".try: is required", ".catch: is required"]);
      expect(problemsOf({ type: "try_catch", try: "x", catch: "y" })).toEqual([
        '.catch: there is no step "y"',
        '.try: there is no step "x"',
      ]);
    },
  );

  attribute("try_catch.try, try_catch.catch", "a next to the try_catch ends either chain; an end ends the run", () => {
    for (const body of [
      { type: "noop", next: "s" },
      { type: "error", code: "mine" },
    ]) {
      const steps = tried({}, body).map((step) => (step.id === "c" ? { ...step, next: "s" } : step));
      expect(typesOf(finish(steps), "z")).toHaveLength(2);
    }
    const compensation = { action: "shop.refund" };
    const ended = finish(tried({ compensation }, { type: "end", output: 1 }));
    expect([ended.context.output, typesOf(ended, "z"), typesOf(ended, "s")]).toEqual([
      1,
      [],
      ["step.started", "step.succeeded"],
    ]);
    expect(ended.undo.map(({ stepId }) => stepId)).toEqual(["s"]);
  });

  attribute("try_catch.catch", "sees error, as do the branches, items and compensations inside it", () => {
    const run = finish([
      { type: "try_catch", try: "b", catch: "c" },
      { id: "b", type: "error", code: "mine", message: "why", details: { n: 1 } },
      { id: "c", type: "parallel", branches: { a: { next: "a1" } }, next: "j" },
      { id: "a1", type: "foreach", items: "[1]", body: "a2" },
      { id: "a2", type: "transform", expression: "[error.code, error.details]" },
      {
        id: "j",
        type: "join",
        compensation: { action: "shop.refund", inputs: { of: "${error.message}" } },
        next: "e",
      },
      { id: "e", type: "error", code: "last" },
    ]);
    expect(run.context.variables.j).toEqual({ a: [["mine", { n: 1 }]] });
    expect(undone(run)).toEqual(["why"]);
  });

  attribute("try_catch.catch", "an inner catch's error hides the outer one, which is visible again after it", () => {
    const run = finish([
      { type: "try_catch", try: "b", catch: "c" },
      { id: "b", type: "error", code: "outer" },
      { id: "c", type: "try_catch", try: "d", catch: "e", error_var: "inner", next: "f" },
      { id: "d", type: "transform", expression: "error.code", next: "d2" },
      { id: "d2", type: "error", code: "inner" },
      { id: "e", type: "transform", expression: "error.code" },
      { id: "f", type: "transform", expression: "error.code" },
    ]);
    expect(run.context.variables).toMatchObject({
      d: "outer",
      e: "inner",
      f: "outer",
      error: { code: "outer" },
      inner: { code: "inner" },
    });
  });

  attribute("try_catch.errors", "is all codes; others than named go outward, to an outer try or the run", () => {
    const caught = (errors: unknown, code: string) =>
      typesOf(finish(tried({ errors }, { type: "error", code })), "c").length > 0;
    for (const [pattern, code, takes] of [
      ["mine", "mine", true],
      ["mine", "mines", false],
      ["http_*", "http_503", true],
      ["http_*", "timeout", false],
      ["*", "anything", true],
    ] as const)
      expect(caught([pattern], code), `${pattern} ${code}`).toBe(takes);
    expect(caught(["other", "m*"], "mine")).toBe(true);
    const outer = finish([
      { type: "try_catch", try: "t", catch: "c" },
      { id: "t", type: "try_catch", try: "b", catch: "never", errors: ["other"] },
      { id: "b", type: "error", code: "mine" },
      { id: "never", type: "noop" },
      { id: "c", type: "noop" },
    ]);
    expect([typesOf(outer, "t"), typesOf(outer, "never"), typesOf(outer, "c").length]).toEqual([
      ["step.started", "step.failed"],
      [],
      2,
    ]);
    for (const errors of [[], ["a*b"], [""], ["**"], "x"])
      expect(
        problemsOf({ type: "try_catch", try: "s2", catch: "s3", errors }, { type: "noop" }, { type: "noop" }).length,
      ).toBe(1);
  });

  attribute("try_catch.errors", "an error that is not caught is the try's own: its on_error has a say", () => {
    const run = finish(tried({ errors: ["other"], on_error: "continue" }));
    expect([typesOf(run, "s"), typesOf(run, "z").length]).toEqual([["step.started", "step.failed"], 2]);
    expect(run.context.variables).toMatchObject({ s: { error: { code: "mine", step_id: "b" } } });
    const inCatch = finish(
      tried({ on_error: "continue" }).map((step) => (step.id === "c" ? { ...broken, id: "c" } : step)),
    );
    expect(inCatch.context.variables).toMatchObject({ s: { error: { code: "expression_error", step_id: "c" } } });
    expect(metadataOf(inCatch, "step.failed", "s")).toMatchObject({ code: "expression_error" });
  });

  attribute("try_catch.error_var", "is `error`: the variable of the error; entering removes it", () => {
    expect(finish(tried()).context.variables.error).toEqual({
      code: "mine",
      message: "the workflow raised an error",
      step_id: "b",
    });
    expect(finish(tried({ error_var: "why" })).context.variables).toHaveProperty("why.code", "mine");
    const variables = { error: "old", why: "old" };
    expect(finish(tried({}, { type: "noop" }), { variables }).context.variables).toEqual({ why: "old" });
    const skipped = finish(tried({ when: "false" }, { type: "noop" }), { variables });
    expect(skipped.context.variables).toEqual(variables);
    expect(
      problemsOf({ type: "try_catch", try: "s2", catch: "s3", error_var: "a b" }, { type: "noop" }, { type: "noop" }),
    ).toEqual([".error_var: must be 1 to 128 of A-Z a-z 0-9 _ . : -"]);
  });

  attribute(
    "try_catch.rollback",
    "the completed steps of the try are undone before the catch, in a run that goes on",
    () => {
      const steps = (rollback: boolean): Draft[] => [
        charge("s", { next: "t" }),
        { id: "t", type: "try_catch", try: "x", catch: "c", rollback, next: "z" },
        charge("x", { next: "y" }),
        charge("y", { next: "e" }),
        { id: "e", type: "error" },
        charge("c"),
        { id: "z", type: "error", code: "late" },
      ];
      expect(undone(finish(steps(true)))).toEqual(["y", "x", "c", "s"]);
      expect(undone(finish(steps(false)))).toEqual(["c", "y", "x", "s"]);
      const run = finish(steps(true));
      const caught = run.rows.findIndex(({ stepId, type }) => stepId === "c" && type === "step.started");
      const undos = run.rows.flatMap(({ metadata }, at) =>
        metadata?.phase === "compensation" && metadata.output ? at : [],
      );
      expect(undos.filter((at) => at < caught)).toHaveLength(2);
      expect(run.rows.slice(0, caught).every(({ to }) => to === "running" || to === "paused")).toBe(true);
      expect(run.rows.filter(({ type }) => type === "compensation.started")).toHaveLength(1);
    },
  );

  attribute("try_catch.rollback", "not where the error is not caught here: the list stays whole", () => {
    const run = finish([
      { type: "try_catch", try: "x", catch: "c", rollback: true, errors: ["other"] },
      charge("x", { next: "e" }),
      { id: "e", type: "error" },
      { id: "c", type: "noop" },
    ]);
    expect([run.state, undone(run)]).toEqual(["failed", ["x"]]);
    expect(run.rows.find(({ metadata }) => metadata?.phase === "compensation")?.to).toBe("compensating");
  });

  attribute("try_catch.rollback", "a cancel that arrives meanwhile takes effect after it", () => {
    const run = start([
      charge("s", { next: "t" }),
      { id: "t", type: "try_catch", try: "x", catch: "c", rollback: true, next: "z" },
      charge("x", { next: "e" }),
      { id: "e", type: "error" },
      { id: "c", type: "noop" },
      { id: "z", type: "noop" },
    ]);
    run.work();
    run.work();
    expect([run.state, run.context.call?.phase]).toEqual(["running", "compensation"]);
    expect(run.cancel()).toMatchObject({ state: "running", alreadyTerminal: false });
    run.drain();
    expect([run.state, undone(run), typesOf(run, "c")]).toEqual(["cancelled", ["x", "s"], []]);
    expect(typesOf(run, "t")).toEqual(["step.started", "step.failed"]);
    expect(run.rows.filter(({ type }) => type === "compensation.started")).toHaveLength(1);
  });

  attribute(
    "try_catch.rollback",
    "steps that a branch completed before the try was entered are not undone by it",
    () => {
      const run = start([
        { id: "s", type: "parallel", branches: { a: { next: "a1" }, b: { next: "b1" } }, next: "j" },
        { id: "a1", type: "wait_for_signal", signal_name: "a" },
        charge("b1", { next: "b2" }),
        { id: "b2", type: "wait_for_signal", signal_name: "b" },
        { id: "j", type: "join", mode: "any", cancel_remaining: false, next: "t" },
        { id: "t", type: "try_catch", try: "x", catch: "c", rollback: true, next: "w" },
        charge("x", { next: "x2" }),
        { id: "x2", type: "wait_for_signal", signal_name: "go", next: "e" },
        { id: "e", type: "error" },
        { id: "c", type: "noop" },
        { id: "w", type: "wait_for_signal", signal_name: "end", next: "f" },
        { id: "f", type: "error", code: "late" },
      ]);
      for (const name of ["a", "b", "go"]) {
        run.world.settle();
        run.signal(name);
      }
      run.world.settle();
      expect([run.context.step, undone(run)]).toEqual(["w", ["x"]]);
      run.signal("end");
      run.world.settle();
      expect([run.state, undone(run)]).toEqual(["failed", ["x", "b1"]]);
    },
  );

  attribute(
    "try_catch.timeout_ms",
    "cancels what is inside, code timeout at the try_catch's id, for its own catch",
    () => {
      const run = start(tried({ timeout_ms: 100 }, { type: "wait_for_signal", signal_name: "never" }));
      expect([wakeAt(run.context), pausedReason(run.context)]).toEqual([run.now + 100, "signal"]);
      run.elapse(99);
      expect(run.state).toBe("paused");
      run.elapse(1);
      expect(run.context.variables.c).toEqual(["timeout", "the try did not end in time", "s"]);
      expect(metadataOf(run, "step.failed", "b")).toMatchObject({ code: "cancelled" });
      const refused = finish(
        tried({ timeout_ms: 10, errors: ["mine"] }, { type: "wait_for_signal", signal_name: "x" }),
      );
      expect([failureOf(refused).split(":")[0], refused.context.ending?.error?.step_id]).toEqual(["timeout", "s"]);
      // The catch chain has all the time it wants.
      const slow: Draft = { id: "c", type: "wait_duration", duration_ms: 500 };
      expect(finish(tried({ timeout_ms: 100 }).map((step) => (step.id === "c" ? slow : step))).state).toBe("succeeded");
      expect(
        problemsOf({ type: "try_catch", try: "s2", catch: "s3", timeout_ms: 0 }, { type: "noop" }, { type: "noop" }),
      ).toEqual([".timeout_ms: must be at least 1"]);
      expect(failureOf(finish(tried({ timeout_ms: "${vars.nowhere}" })))).toMatch(/^expression_error/);
    },
  );

  describe("a timeout with a dispatch open", () => {
    const run = (worker: (dispatch: Dispatch) => WorkerMove, more: Record<string, unknown> = {}) => {
      const steps = [
        { id: "s", type: "try_catch", try: "x", catch: "c", timeout_ms: 100, next: "z", ...more },
        charge("x", { timeout_ms: 1000, next: "y" }),
        { id: "y", type: "noop" },
        { id: "c", type: "transform", expression: "error.code" },
        { id: "z", type: "noop" },
      ];
      const simulation = start(steps, { worker });
      simulation.elapse(100);
      return simulation;
    };
    const isForward = ({ call }: Dispatch) => call.phase === "forward";

    attribute(
      "try_catch.timeout_ms, try_catch.rollback",
      "its answer is awaited, and what did happen is undone",
      () => {
        for (const rollback of [true, false]) {
          const open = run(() => ({ kind: "result", result: {} }), { rollback });
          expect([open.state, open.context.step, open.cancelled.length]).toEqual(["running", "x", 1]);
          open.drain();
          expect([open.state, typesOf(open, "y"), undone(open)]).toEqual(["succeeded", [], rollback ? ["x"] : []]);
          const succeeded = rowsOf(open, "x").filter(({ type, attempt }) => type === "step.succeeded" && attempt === 1);
          expect(succeeded.map(({ to }) => to)).toEqual(["running"]);
          expect(open.context.owed).toBe(rollback ? 0 : 1);
        }
      },
    );

    attribute("try_catch.timeout_ms", "a plain failure did not happen; silence may have", () => {
      const refused = run(() => ({ kind: "failure", code: "no", retryable: true, outcomeUnknown: false }), {
        rollback: true,
      });
      refused.drain();
      expect([refused.state, undone(refused)]).toEqual(["succeeded", []]);
      expect(metadataOf(refused, "step.failed", "x")).toMatchObject({ code: "cancelled", message: "no: no!" });
      const silent = run((dispatch) => (isForward(dispatch) ? { kind: "silence" } : { kind: "result", result: {} }), {
        rollback: true,
      });
      silent.drain();
      expect([silent.state, undone(silent)]).toEqual(["succeeded", ["x"]]);
    });

    attribute("try_catch.timeout_ms", "one around it that times out meanwhile waits for it", () => {
      const simulation = start(
        [
          { id: "s", type: "try_catch", try: "t", catch: "o", timeout_ms: 150, next: "z" },
          { id: "t", type: "try_catch", try: "x", catch: "c", timeout_ms: 100 },
          charge("x", { timeout_ms: 1000 }),
          { id: "c", type: "wait_for_signal", signal_name: "never" },
          { id: "o", type: "transform", expression: "[error.code, error.step_id]" },
          { id: "z", type: "noop" },
        ],
        { worker: () => ({ kind: "silence" }) },
      );
      const wakes: number[] = [];
      for (let moves = 0; moves < 20 && !simulation.ended; moves++) {
        wakes.push(simulation.now);
        simulation.world.move();
      }
      expect(simulation.context.variables.o).toEqual(["timeout", "s"]);
      expect(simulation.state).toBe("succeeded");
      expect(wakes.length).toBeLessThan(10);
    });
  });

  attribute("try_catch.timeout_ms", "may expire while the token leaves an inner catch chain", () => {
    const simulation = start(
      [
        { id: "s", type: "try_catch", try: "t", catch: "o", timeout_ms: 100, next: "z" },
        { id: "t", type: "try_catch", try: "x", catch: "c", next: "m" },
        { id: "x", type: "error" },
        { id: "c", type: "noop", next: "m" },
        { id: "m", type: "wait_duration", duration_ms: 1000 },
        { id: "o", type: "noop" },
        { id: "z", type: "noop" },
      ],
      { budget: 1, entries: 4 },
    );
    // It stands before `m`, which is not entered yet, and outside the chain of `t`.
    expect([simulation.context.step, simulation.context.frames.map(({ kind }) => kind)]).toEqual(["m", ["try"]]);
    simulation.elapse(100);
    expect([simulation.context.step, typesOf(simulation, "t")]).toEqual(["o", ["step.started", "step.succeeded"]]);
  });

  describe("leaving a catch chain by next", () => {
    it("to a step that is reached without it: error is out of scope, and the try's next does not follow", () => {
      const run = finish([
        { type: "try_catch", try: "b", catch: "c", next: "z", compensation: { action: "shop.refund" } },
        { id: "b", type: "switch", cases: [{ when: "false", next: "b2" }], default: "b2" },
        { id: "b2", type: "error", code: "mine" },
        { id: "c", type: "noop", next: "m" },
        { id: "z", type: "noop", next: "m" },
        { id: "m", type: "transform", expression: "[vars.error.code]", next: "n" },
        { id: "n", type: "transform", expression: "error.code", on_error: "continue" },
      ]);
      expect([run.state, typesOf(run, "z")]).toEqual(["succeeded", []]);
      expect(run.context.variables).toMatchObject({ m: ["mine"], n: { error: { code: "expression_error" } } });
      expect(typesOf(run, "s")).toEqual(["step.started", "step.succeeded"]);
      expect(run.undo.map(({ stepId }) => stepId)).toEqual(["s"]);
    });

    it("to the loop that holds the try: the round is done", () => {
      const run = finish([
        { type: "while", condition: "iteration < 3", body: "t" },
        { id: "t", type: "try_catch", try: "b", catch: "c", next: "never" },
        { id: "b", type: "error" },
        { id: "c", type: "transform", expression: "iteration", next: "s" },
        { id: "never", type: "noop" },
      ]);
      expect([run.context.output, typesOf(run, "never"), typesOf(run, "t").length]).toEqual([[0, 1, 2], [], 6]);
    });

    it("to the join of the branch: the branch is done", () => {
      const run = finish([
        { type: "parallel", branches: { a: { next: "t" } }, next: "j" },
        { id: "t", type: "try_catch", try: "b", catch: "c", next: "never" },
        { id: "b", type: "error" },
        { id: "c", type: "transform", expression: "error.code", next: "j" },
        { id: "never", type: "noop" },
        { id: "j", type: "join" },
      ]);
      expect(run.context.output).toEqual({ a: "error" });
    });

    it("a chain that several tries share belongs to whichever was caught", () => {
      const run = finish([
        { type: "try_catch", try: "a", catch: "c", next: "t" },
        { id: "a", type: "error", code: "one" },
        { id: "t", type: "try_catch", try: "b", catch: "c", next: "z", save_as: "t" },
        { id: "b", type: "error", code: "two" },
        { id: "c", type: "transform", expression: "(has(vars.seen) ? vars.seen : []) + [error.code]", save_as: "seen" },
        { id: "z", type: "noop" },
      ]);
      expect([run.state, run.context.variables.seen]).toEqual(["succeeded", ["one", "two"]]);
    });
  });

  describe("error without a code", () => {
    const raise = (body: Draft, raiser: Draft, more: Draft[] = []) =>
      finish([...tried({}, body).slice(0, 2), { ...raiser, id: "c" }, { id: "z", type: "noop" }, ...more]);

    attribute("error.code", "raises the error that was caught last again, unchanged", () => {
      const body: Draft = { type: "error", code: "mine", message: "why", details: { n: 1 } };
      const error = { code: "mine", message: "why", details: { n: 1 }, step_id: "b" };
      expect(raise(body, { type: "error" }).context.ending?.error).toEqual(error);
      expect(raise(body, { type: "error", message: "other" }).context.ending?.error).toEqual(error);
      expect(raise(body, { type: "error", code: "new" }).context.ending?.error).toMatchObject({
        code: "new",
        step_id: "c",
      });
      expect(failureOf(finish([{ type: "error" }]))).toBe("error: the workflow raised an error");
    });

    attribute("error.code", "also behind the catch, and an outer try may take it", () => {
      const run = finish([
        { type: "try_catch", try: "t", catch: "o" },
        { id: "t", type: "try_catch", try: "b", catch: "c", next: "again" },
        { id: "b", type: "error", code: "mine" },
        { id: "c", type: "noop" },
        { id: "again", type: "error" },
        { id: "o", type: "transform", expression: "[error.code, error.step_id]" },
      ]);
      expect(run.context.output).toEqual(["mine", "b"]);
    });

    attribute("error.code", "a branch is a run of its own: it caught nothing", () => {
      const more: Draft[] = [
        { id: "x", type: "error" },
        { id: "j", type: "join" },
      ];
      const run = raise(
        { type: "error", code: "mine" },
        { type: "parallel", branches: { a: { next: "x" } }, next: "j" },
        more,
      );
      expect(run.context.ending?.error).toMatchObject({ code: "error", step_id: "x" });
    });
  });

  it("a cancel and the run's own timeout are never caught", () => {
    const body: Draft = { type: "wait_for_signal", signal_name: "never" };
    const run = start(tried({}, body));
    run.cancel();
    expect([run.state, typesOf(run, "c"), typesOf(run, "s")]).toEqual([
      "cancelled",
      [],
      ["step.started", "step.failed"],
    ]);
    const late = finish(tried({}, body), { identity: { expiresAt: run.now + 10 } });
    expect([failureOf(late), typesOf(late, "c")]).toEqual(["timeout: the run did not end in time", []]);
  });
});
