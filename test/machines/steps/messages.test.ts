// emit_signal and cancel: what one run sends to another, or to itself.
import { describe, expect, it } from "vitest";
import { program } from "../definitions.js";
import { RUN_ID, type Simulation } from "../simulation.js";
import { attribute, type Draft, failureOf, finish, metadataOf, problemsOf, start, typesOf } from "./rig.js";

const NOBODY = "01900000-0000-7000-8000-0000000000ff";
const other = program(
  [
    { id: "a", type: "action", action: "shop.charge", compensation: { action: "shop.refund" }, next: "b" },
    { id: "b", type: "wait_for_signal", signal_name: "go" },
  ],
  { id: "other" },
);
/** The step `s`, behind one that spawned another run. */
const beside = (step: Draft, more: Partial<Parameters<typeof start>[1]> = {}): Simulation => {
  const spawn: Draft = { id: "p", type: "spawn_saga", workflow_id: "other", next: "w" };
  const hold: Draft = { id: "w", type: "wait_for_signal", signal_name: "now", next: "s" };
  const run = start([step, spawn, hold], { workflows: { other }, head: { start: "p" }, ...more });
  run.world.settle();
  run.signal("now");
  run.world.settle();
  return run;
};
const otherOf = ({ world, id }: Simulation) => [...world.runs.values()].find((run) => run.id !== id) as Simulation;
const emit = (more: Record<string, unknown> = {}): Draft => ({
  type: "emit_signal",
  run_id: "${vars.p.run_id}",
  signal_name: "go",
  ...more,
});

describe("emit_signal and cancel", () => {
  attribute("emit_signal.run_id", "is a run that is there, in any case of its letters; else not_found", () => {
    const run = beside(emit({ run_id: "${vars.p.run_id}" }));
    expect(run.context.variables.s).toEqual({ signal_id: run.world.signals.find(({ name }) => name === "go")?.id });
    expect(otherOf(run).state).toBe("succeeded");
    const shouting = start([emit({ run_id: RUN_ID.toUpperCase() })]);
    expect(shouting.world.inbox.map(({ to }) => to)).toEqual([RUN_ID]);
    for (const [run_id, message] of [
      [NOBODY, `there is no run ${NOBODY}`],
      ["someone", "run_id is not a run id"],
    ])
      expect(failureOf(finish([emit({ run_id })]))).toBe(`not_found: ${message}`);
    expect(problemsOf({ type: "emit_signal", signal_name: "x" })).toEqual([".run_id: is required"]);
  });

  attribute("emit_signal.run_id", "may be the run itself: a later wait takes it", () => {
    const run = start([emit({ run_id: "${run.id}", next: "s2" }), { type: "wait_for_signal", signal_name: "go" }]);
    run.world.settle();
    expect([run.state, run.signals.map(({ consumed }) => consumed)]).toEqual(["succeeded", [true]]);
  });

  attribute("emit_signal.run_id", "a branch is reached through the run that it is a part of", () => {
    const run = start([
      { id: "p", type: "parallel", branches: { a: { next: "w" }, b: { next: "s" } }, next: "j" },
      { id: "w", type: "wait_for_signal", signal_name: "go" },
      emit({ id: "s", run_id: "${run.root_id}", payload: { n: 1 } }),
      { id: "j", type: "join" },
    ]);
    run.world.settle();
    expect(run.context.output).toMatchObject({ a: { n: 1 } });
  });

  attribute("emit_signal.signal_name", "is a template; reserved and malformed names fail the step", () => {
    const run = start([emit({ run_id: RUN_ID, signal_name: "order-${inputs.n}" })], { inputs: { n: 7 } });
    run.world.settle();
    expect(run.world.signals.map(({ name }) => name)).toEqual(["order-7"]);
    for (const name of ["", "a b", "user_task.1.submitted", "x".repeat(129), ".", ".."])
      expect(failureOf(finish([emit({ run_id: RUN_ID, signal_name: name })]))).toMatch(
        /^expression_error: signal_name must /,
      );
    expect(problemsOf({ type: "emit_signal", run_id: RUN_ID })).toEqual([".signal_name: is required"]);
  });

  attribute("emit_signal.payload", "is an object, {} if absent", () => {
    const payload = (more: Record<string, unknown>) => {
      const run = start([emit({ run_id: RUN_ID, ...more })], { inputs: { n: 7 } });
      run.world.settle();
      return run.world.signals[0]?.payload;
    };
    expect(payload({})).toEqual({});
    expect(payload({ payload: { n: "${inputs.n}" } })).toEqual({ n: 7 });
    expect(failureOf(finish([emit({ run_id: RUN_ID, payload: "${1}" })]))).toBe(
      "expression_error: payload must be an object",
    );
    expect(problemsOf(emit({ payload: [] }))).toEqual([".payload: must be an object"]);
  });

  attribute("emit_signal.run_id, emit_signal.payload", "each entry sends one of its own, a restart none twice", () => {
    const loop: Draft[] = [
      { type: "while", condition: "iteration < 3", body: "e" },
      { ...emit({ run_id: RUN_ID, payload: { n: "${iteration}" } }), id: "e" },
      { id: "w", type: "wait_for_signal", signal_name: "never" },
    ];
    const steps = loop.map((step, index) => (index === 0 ? { ...step, next: "w" } : step));
    for (const reload of [false, true]) {
      const run = start(steps, { reload, budget: 1 });
      run.world.settle();
      expect(run.world.signals.map(({ payload }) => payload)).toEqual([{ n: 0 }, { n: 1 }, { n: 2 }]);
    }
  });

  const stop = (more: Record<string, unknown> = {}): Draft => ({ type: "cancel", run_id: "${vars.p.run_id}", ...more });

  attribute("cancel.run_id", "another run is cancelled, and this one goes on", () => {
    const run = beside(stop());
    expect([run.state, typesOf(run, "s")]).toEqual(["succeeded", ["step.started", "step.succeeded"]]);
    expect(run.context.variables).not.toHaveProperty("s");
    expect([otherOf(run).state, otherOf(run).context.ending?.reason]).toEqual(["cancelled", "cancelled"]);
    expect(failureOf(finish([stop({ run_id: NOBODY })]))).toBe(`not_found: there is no run ${NOBODY}`);
    expect(failureOf(finish([stop({ run_id: "someone" })]))).toBe("not_found: run_id is not a run id");
  });

  attribute(
    "cancel.run_id",
    "itself if absent or named: that ends it, also from inside a try, where nothing catches it",
    () => {
      for (const more of [{}, { run_id: RUN_ID }, { run_id: RUN_ID.toUpperCase() }]) {
        const run = finish([
          { type: "try_catch", try: "a", catch: "c" },
          { id: "a", type: "action", action: "shop.charge", compensation: { action: "shop.refund" }, next: "k" },
          { id: "k", type: "cancel", ...more, next: "z" },
          { id: "c", type: "noop" },
          { id: "z", type: "noop" },
        ]);
        expect([run.state, typesOf(run, "k"), typesOf(run, "c"), typesOf(run, "z")]).toEqual([
          "cancelled",
          ["step.started", "step.succeeded"],
          [],
          [],
        ]);
        expect(run.undo.map(({ state }) => state)).toEqual(["done"]);
        expect(metadataOf(run, "step.failed", "s")).toMatchObject({ code: "cancelled" });
      }
    },
  );

  attribute("cancel.run_id", "itself, in a branch, is the branch; the root's id ends the whole run", () => {
    const branch = (more: Record<string, unknown>) =>
      finish([
        { id: "p", type: "parallel", branches: { a: { next: "k" }, b: { next: "n" } }, next: "j" },
        { id: "k", type: "cancel", reason: "enough", ...more },
        { id: "n", type: "transform", expression: "1" },
        { id: "j", type: "join", mode: "all_settled" },
      ]);
    expect(branch({}).context.output).toEqual({ a: { error: { code: "cancelled", message: "enough" } }, b: 1 });
    expect(branch({ run_id: "${run.root_id}" }).state).toBe("cancelled");
  });

  attribute("cancel.reason", "is the reason of the cancelled run; `cancelled` if absent or empty", () => {
    const reason = (more: Record<string, unknown>) =>
      finish([{ type: "cancel", ...more }], { inputs: { n: 7 } }).context.ending?.reason;
    expect(reason({ reason: "order ${inputs.n}" })).toBe("order 7");
    expect(reason({})).toBe("cancelled");
    expect(reason({ reason: "" })).toBe("cancelled");
    expect(otherOf(beside(stop({ reason: "why" }))).context.ending?.reason).toBe("why");
    expect(problemsOf({ type: "cancel", reason: 1 })).toEqual([".reason: must be a string"]);
  });

  attribute("cancel.compensate", "is true: completed steps are undone; false: nothing is", () => {
    const undos = (compensate: boolean) => {
      const run = beside(stop({ compensate }), { worker: () => ({ kind: "result", result: {} }) });
      run.world.settle();
      const done = otherOf(run);
      expect(done.state).toBe("cancelled");
      return done.sent.filter(({ call }) => call.phase === "compensation").length;
    };
    expect([undos(true), undos(false)]).toEqual([1, 0]);
    const self = finish([
      { type: "action", action: "shop.charge", compensation: { action: "shop.refund" }, next: "k" },
      { id: "k", type: "cancel", compensate: false },
    ]);
    expect([self.state, self.sent.length]).toEqual(["cancelled", 1]);
    expect(problemsOf({ type: "cancel", compensate: "no" })).toEqual([".compensate: must be true or false"]);
  });

  it("a run that ended before the command reached it ignores the command", () => {
    const run = beside(stop());
    const ended = otherOf(run);
    const rows = ended.rows.length;
    run.world.deliver({
      to: ended.id,
      id: "again",
      command: { type: "cancel", compensate: true, actor: "x" },
    });
    expect(ended.rows.length).toBe(rows);
  });
});
