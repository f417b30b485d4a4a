// sub_saga and spawn_saga: which run they make, what it inherits, what comes back, and who undoes it.
import { describe, expect, it } from "vitest";
import { pausedReason, wakeAt } from "../../../machines/index.js";
import { program } from "../definitions.js";
import type { Simulation, SimulationOptions } from "../simulation.js";
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

const workflow = (steps: Draft[], head: Record<string, unknown> = {}) =>
  program(steps as never, { id: "child", ...head });
const charge = (id: string, more: Record<string, unknown> = {}): Draft => ({
  id,
  type: "action",
  action: "shop.charge",
  inputs: { of: id },
  compensation: { action: "shop.refund", inputs: { of: id } },
  ...more,
});
const WORKFLOWS = {
  child: workflow(
    [
      { id: "a", type: "transform", expression: "inputs" },
      { id: "other", type: "transform", expression: "'other'" },
    ],
    { entrypoints: { side: "other" }, version: 3 },
  ),
  waits: workflow([
    { id: "a", type: "wait_for_signal", signal_name: "go", next: "b" },
    { id: "b", type: "end" },
  ]),
  fails: workflow([charge("a", { next: "b" }), { id: "b", type: "error", code: "inner", message: "deep" }]),
  strict: workflow([{ id: "a", type: "noop" }], { input_schema: { required: ["n"] } }),
  slow: workflow([{ id: "a", type: "wait_for_signal", signal_name: "go" }], { timeout_ms: 50 }),
  charges: workflow([charge("a")]),
  waitsLong: workflow([charge("a", { next: "b" }), { id: "b", type: "wait_for_signal", signal_name: "go" }]),
};
const options = { workflows: WORKFLOWS } satisfies Partial<SimulationOptions>;
const sub = (workflow_id: string, more: Record<string, unknown> = {}): Draft => ({
  type: "sub_saga",
  workflow_id,
  ...more,
});
const childrenOf = ({ world, id }: Simulation) => [...world.runs.values()].filter((run) => run.id !== id);
const childOf = (run: Simulation) => childrenOf(run).at(-1) as Simulation;
const undone = ({ world }: Simulation) =>
  [...world.runs.values()]
    .flatMap(({ sent }) => sent)
    .flatMap(({ call }) => (call.phase === "compensation" ? call.inputs.of : []));

attribute("sub_saga.workflow_id", "names a published workflow, also by a template; else not_found", () => {
  expect(
    finish([sub("${inputs.which}", { inputs: { n: 1 } })], { ...options, inputs: { which: "child" } }).context.output,
  ).toEqual({ n: 1 });
  expect(failureOf(finish([sub("nowhere")], options))).toBe("not_found: there is no published workflow nowhere");
  expect(problemsOf({ type: "sub_saga" })).toEqual([".workflow_id: is required"]);
  expect(failureOf(finish([sub("${1}")], options))).toBe("expression_error: workflow_id must be a string");
  expect(chartOf([sub("child")]).s).toEqual(["run.succeeded -> succeeded"]);
});

describe("sub_saga and spawn_saga", () => {
  attribute(
    "sub_saga.workflow_id",
    "the child inherits tenant, dry run, features, business key; the run waits for it",
    () => {
      const identity = { tenantId: "t", features: { x: true }, businessKey: "order-7" };
      const run = start([sub("waits")], { ...options, identity });
      run.world.settle();
      expect([run.state, pausedReason(run.context)]).toEqual(["paused", "children"]);
      expect(metadataOf(run, "step.paused")).toEqual({ awaiting: "children" });
      const child = childOf(run);
      expect(child.context.run).toMatchObject({
        ...identity,
        dryRun: false,
        workflowId: "waits",
        parentRunId: run.id,
        parentStepId: "s",
        rootRunId: run.id,
        depth: 1,
        inputs: {},
      });
      expect([child.context.run.family, child.context.run.parentBranchId, child.context.variables]).toEqual([
        undefined,
        undefined,
        {},
      ]);
      child.signal("go");
      run.world.settle();
      expect(run.state).toBe("succeeded");
    },
  );

  attribute(
    "sub_saga.version",
    "is the latest published one if absent; every attempt of an entry runs the same",
    () => {
      const asked: unknown[] = [];
      const retry = { max_attempts: 3, initial_backoff_ms: 10, jitter: false };
      const run = start([sub("fails", { retry })], options);
      const { fetch } = run.world;
      run.world.fetch = (simulation, need) => {
        if (need.kind === "workflow") asked.push(need.version);
        return fetch.call(run.world, simulation, need);
      };
      run.drain();
      // The first attempt asked before this listened; it took version 1.
      expect(asked).toEqual([1, 1]);
      expect(finish([sub("child", { version: 3 })], options).state).toBe("succeeded");
      expect(failureOf(finish([sub("nowhere", { version: "${2}" })], options))).toBe(
        "not_found: there is no published workflow nowhere version 2",
      );
      expect(failureOf(finish([sub("child", { version: "${1.5}" })], options))).toBe(
        "expression_error: version must be a whole number",
      );
      expect(problemsOf(sub("child", { version: 0 }))).toEqual([".version: must be at least 1"]);
    },
  );

  attribute("sub_saga.entrypoint", "is the child's start if absent; an unknown one is not_found", () => {
    expect(finish([sub("child", { entrypoint: "side" })], options).context.output).toBe("other");
    for (const name of ["", "default"])
      expect(finish([sub("child", { entrypoint: name, inputs: { n: 1 } })], options).context.output).toEqual({ n: 1 });
    expect(failureOf(finish([sub("child", { entrypoint: "nowhere" })], options))).toBe(
      "not_found: the workflow child has no entrypoint nowhere",
    );
  });

  attribute("sub_saga.inputs", "are evaluated at the entry, and held against the child's schema", () => {
    const run = finish([sub("child", { inputs: { n: "${inputs.n + 1}" } })], { ...options, inputs: { n: 1 } });
    expect(run.context.output).toEqual({ n: 2 });
    expect(failureOf(finish([sub("strict")], options))).toBe("schema_mismatch: the inputs of strict: lacks n");
    expect(failureOf(finish([sub("child", { inputs: "${1}" })], options))).toBe(
      "expression_error: inputs must be an object",
    );
    expect(problemsOf(sub("child", { inputs: [] }))).toEqual([".inputs: must be an object"]);
  });

  attribute("sub_saga.timeout_ms", "cancels the child, which is awaited; the step fails with code timeout", () => {
    const run = start([sub("waitsLong", { timeout_ms: 100 })], options);
    while (childOf(run)?.state !== "paused") run.world.move();
    expect(wakeAt(run.context)).toBe(run.now + 100);
    run.elapse(100);
    expect([run.state, run.context.step]).toEqual(["paused", "s"]);
    run.drain();
    expect([failureOf(run), run.context.ending?.error?.step_id]).toEqual([
      "timeout: the sub-saga did not end in time",
      "s",
    ]);
    expect([childOf(run).state, undone(run)]).toEqual(["cancelled", ["a"]]);
    // A child's own timeout is a failure of the child.
    const own = finish([sub("slow", { timeout_ms: 500 })], options).context.ending?.error;
    expect(own).toMatchObject({ code: "child_failed", step_id: "s", cause: { code: "timeout" } });
    expect(problemsOf(sub("child", { timeout_ms: 0 }))).toEqual([".timeout_ms: must be at least 1"]);
  });

  it("a failure is child_failed with the child's error as its cause; the child has undone itself first", () => {
    const run = finish([sub("fails")], options);
    expect(run.context.ending?.error).toEqual({
      code: "child_failed",
      message: "deep",
      cause: { code: "inner", message: "deep", step_id: "b" },
      step_id: "s",
    });
    expect(undone(run)).toEqual(["a"]);
    const caught = finish(
      [
        { type: "try_catch", try: "t", catch: "c", errors: ["child_failed"] },
        { ...sub("fails"), id: "t" },
        { id: "c", type: "transform", expression: "error.cause.code" },
      ],
      options,
    );
    expect(caught.context.output).toBe("inner");
  });

  it("a child that was cancelled by itself: code cancelled, with its reason", () => {
    const run = start([sub("waits")], options);
    run.world.settle();
    childOf(run).cancel();
    run.world.settle();
    expect(failureOf(run)).toBe("cancelled: asked to");
  });

  it("retry: none unless given; each attempt is a new child, and the backoff is a pause", () => {
    expect(childrenOf(finish([sub("fails")], options))).toHaveLength(1);
    const retry = { max_attempts: 3, initial_backoff_ms: 100, jitter: false };
    const run = finish([sub("fails", { retry })], options);
    expect([childrenOf(run).length, run.state, run.context.ending?.error?.code]).toEqual([3, "failed", "child_failed"]);
    const failures = rowsOf(run, "s").filter(({ type }) => type === "step.failed");
    expect(failures.map(({ metadata }) => metadata?.will_retry)).toEqual([true, true, false]);
    expect(run.now - (failures[0]?.at ?? 0)).toBe(300);
    expect(undone(run)).toEqual(["a", "a", "a"]);
    const never = { ...retry, non_retryable_codes: ["child_failed"] };
    expect(childrenOf(finish([sub("fails", { retry: never })], options))).toHaveLength(1);
    const timed = finish([sub("waits", { retry: { ...retry, max_attempts: 2 }, timeout_ms: 10 })], options);
    expect([childrenOf(timed).length, failureOf(timed).split(":")[0]]).toEqual([2, "timeout"]);
  });

  it("runs are nested ten deep: over it the step fails with limit_exceeded", () => {
    const program = workflow([sub("deep", { id: "s" })]);
    const run = finish([sub("deep")], { workflows: { deep: program } });
    let error = run.context.ending?.error as { code?: string; cause?: unknown } | undefined;
    let depth = 0;
    for (; error?.code === "child_failed"; depth++) error = error.cause as typeof error;
    expect([depth, error?.code]).toEqual([10, "limit_exceeded"]);
  });

  describe("undo", () => {
    const then = (more: Record<string, unknown>, last: Draft = { id: "z", type: "error" }, id = "charges"): Draft[] => [
      sub(id, { next: "z", ...more }),
      last,
    ];
    const compensation = { action: "shop.refund", inputs: { of: "whole" } };

    it("the parent undoes the steps of a child, unless the step's own compensation replaces them", () => {
      expect(undone(finish(then({}), options))).toEqual(["a"]);
      expect(undone(finish(then({ compensation }), options))).toEqual(["whole"]);
    });

    it("a child with nothing to undo is skipped with a warning", () => {
      const run = finish(then({}, { id: "z", type: "error" }, "child"), options);
      expect(run.rows.flatMap(({ metadata }) => (metadata?.kind === "undo_passed" ? [metadata.steps] : []))).toEqual([
        ["s"],
      ]);
      expect(run.context.requiresManualReview).toBe(false);
    });

    /** The child has succeeded, but the run does not know yet when it is told to stop. */
    const late = (more: Record<string, unknown>, around: Draft[] = [], start_ = "s") => {
      const waits = { ...WORKFLOWS, late: workflow([charge("a")]) };
      const run = start([sub("late", { compensation, ...more }), ...around], {
        workflows: waits,
        head: { start: start_ },
      });
      while (!childOf(run)?.ended) run.world.move();
      expect(run.world.inbox.map(({ command }) => command.type)).toEqual(["child"]);
      return run;
    };

    it("a child that succeeded before a cancel reached it is undone by the step's compensation", () => {
      const run = late({});
      run.cancel();
      run.drain();
      expect([run.state, undone(run)]).toEqual(["cancelled", ["whole"]]);
    });

    it("so is one that the timeout of a try around it reaches too late; after a timeout of its own step it has succeeded", () => {
      const timed = late({ timeout_ms: 10 });
      timed.elapse(10);
      timed.drain();
      expect([timed.state, undone(timed)]).toEqual(["succeeded", []]);
      const tried = late(
        {},
        [
          { id: "t", type: "try_catch", try: "s", catch: "c", timeout_ms: 10, rollback: true },
          { id: "c", type: "noop" },
        ],
        "t",
      );
      tried.elapse(10);
      tried.drain();
      expect([tried.state, undone(tried)]).toEqual(["succeeded", ["whole"]]);
    });

    it("one that the cancel did end has undone itself, and is not undone again", () => {
      const run = start([sub("waitsLong", { compensation })], options);
      run.world.settle();
      run.cancel();
      run.drain();
      expect([run.state, undone(run)]).toEqual(["cancelled", ["a"]]);
    });
  });

  const spawn = (workflow_id: string, more: Record<string, unknown> = {}): Draft => ({
    type: "spawn_saga",
    workflow_id,
    ...more,
  });

  attribute("spawn_saga.workflow_id", "starts a run that is not a child, and goes on", () => {
    const identity = { tenantId: "t", features: { x: true }, businessKey: "order-7" };
    const run = finish([spawn("waits", { next: "s2" }), { type: "noop" }], { ...options, identity });
    const spawned = childOf(run);
    expect(run.context.variables.s).toEqual({ run_id: spawned.id });
    expect(spawned.context.run).toMatchObject({ tenantId: "t", features: { x: true }, workflowId: "waits" });
    for (const member of ["parentRunId", "rootRunId", "businessKey", "parentEntry"])
      expect(spawned.context.run[member as keyof typeof spawned.context.run], member).toBeUndefined();
    expect(failureOf(finish([spawn("nowhere")], options))).toMatch(/^not_found/);
    expect(problemsOf({ type: "spawn_saga" })).toEqual([".workflow_id: is required"]);
  });

  attribute("spawn_saga.workflow_id", "a cancel of the run leaves it alone, and so does a failure", () => {
    const run = start([spawn("waits", { next: "s2" }), { type: "wait_for_signal", signal_name: "never" }], options);
    run.cancel();
    run.world.settle();
    expect([run.state, childOf(run).state]).toEqual(["cancelled", "paused"]);
  });

  attribute("spawn_saga.version, spawn_saga.entrypoint, spawn_saga.inputs", "are those of a sub_saga", () => {
    const run = finish([spawn("child", { version: 3, entrypoint: "side", inputs: { n: "${1 + 1}" } })], options);
    expect(childOf(run).context.run).toMatchObject({ version: 3, entrypoint: "side", inputs: { n: 2 } });
    expect(failureOf(finish([spawn("child", { entrypoint: "nowhere" })], options))).toMatch(/^not_found/);
    expect(failureOf(finish([spawn("strict")], options))).toMatch(/^schema_mismatch/);
    expect(problemsOf(spawn("child", { version: "1", inputs: 1 }))).toEqual([
      ".version: must be a number",
      ".inputs: must be an object",
    ]);
  });

  attribute("spawn_saga.idempotency_key", "the same key, the same run; without one every entry starts its own", () => {
    const loop = (more: Record<string, unknown>): Draft[] => [
      { type: "while", condition: "iteration < 2", body: "p" },
      { ...spawn("child", more), id: "p", next: "t" },
      { id: "t", type: "transform", expression: "vars.p.run_id" },
    ];
    const [first, second] = finish(loop({}), options).context.output as string[];
    expect(first).not.toBe(second);
    const keyed = start(loop({ idempotency_key: "k-${inputs.n}" }), { ...options, inputs: { n: 1 } });
    keyed.drain();
    const ids = keyed.context.output as string[];
    expect(ids[0]).toBe(ids[1]);
    expect(childrenOf(keyed)).toHaveLength(1);
    for (const key of ["", "x".repeat(256)])
      expect(failureOf(finish([spawn("child", { idempotency_key: key })], options))).toBe(
        "expression_error: idempotency_key must be 1 to 255 characters",
      );
  });

  it("the children of a dry run are dry", () => {
    const run = finish([spawn("charges", { next: "s2" }), sub("charges", { id: "s2" })], {
      ...options,
      identity: { dryRun: true },
    });
    run.world.settle();
    expect(childrenOf(run).map(({ state, sent }) => [state, sent.length])).toEqual([
      ["succeeded", 0],
      ["succeeded", 0],
    ]);
    expect(typesOf(childOf(run), "a")).toEqual(["step.started", "step.skipped"]);
  });
});
