// What every step may have, held against every step type: when, save_as, on_error, next, and the chart they make.
import { describe, expect, test } from "vitest";
import { STEP_TYPES } from "../../../machines/steps/index.js";
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

/** A step of each type that succeeds by itself (waits by their timeouts), and what it stores. */
const SOUND: Record<string, { step: Draft; output?: unknown }> = {
  end: { step: { type: "end", output: { n: 1 } } },
  action: { step: { type: "action", action: "shop.notify" }, output: {} },
  decision: { step: { type: "decision", expression: "'other'", branches: { a: { next: "s2" } } } },
  switch: { step: { type: "switch", cases: [{ when: "false", next: "s2" }] } },
  error: { step: { type: "error" } },
  noop: { step: { type: "noop" } },
  set_var: { step: { type: "set_var", name: "x", value: 1 } },
  transform: { step: { type: "transform", expression: "[1, 2]" }, output: [1, 2] },
  log: { step: { type: "log", message: "here" } },
  assert: { step: { type: "assert", condition: "true" } },
  wait_duration: { step: { type: "wait_duration", duration_ms: 10 } },
  wait_until: { step: { type: "wait_until", until: "${now + duration('10s')}" } },
  wait_for_signal: {
    step: { type: "wait_for_signal", signal_name: "go", timeout_ms: 10, on_timeout: "continue" },
    output: null,
  },
};

const LAST = new Set(["end", "error"]);
const types = [...STEP_TYPES.keys()];
const soundStep = (type: string): Draft => {
  const found = SOUND[type];
  if (!found) throw new Error(`no sound step of type ${type}: give one`);
  return LAST.has(type) ? found.step : { ...found.step, next: "s2" };
};
const after: Draft = { type: "transform", expression: "'after'", save_as: "after" };

describe.each(types)("%s", (type) => {
  const step = soundStep(type);

  test("when: a falsy one skips the step, and the run goes to next", () => {
    for (const when of ["false", "0", "''", "[]", "null"]) {
      const run = finish([{ ...step, when }, after]);
      expect(typesOf(run, "s"), when).toEqual(["step.started", "step.skipped"]);
      expect(metadataOf(run, "step.skipped")).toEqual({ reason: "when" });
      expect(run.state).toBe("succeeded");
      expect(run.context.variables).toEqual(LAST.has(type) ? {} : { after: "after" });
    }
  });

  test("when: a truthy one changes nothing; one that fails is an expression_error", () => {
    expect(typesOf(finish([{ ...step, when: "1" }, after]), "s")).toEqual(typesOf(finish([step, after]), "s"));
    expect(failureOf(finish([{ ...step, when: "vars.nowhere" }, after]))).toBe(
      'expression_error: missing key "nowhere"',
    );
  });

  test("the output is stored under the step's id, under save_as, or nowhere", () => {
    const { output } = SOUND[type] ?? {};
    const stored = (more: Record<string, unknown>) => {
      const { after: _, x: __, ...rest } = finish([{ ...step, ...more }, after]).context.variables;
      return rest;
    };
    expect(stored({})).toEqual(output === undefined ? {} : { s: output });
    expect(stored({ save_as: "there" })).toEqual(output === undefined ? {} : { there: output });
    expect(stored({ save_as: null })).toEqual({});
  });

  test("on_error: fail is the default; continue and a step's id both store the error and go on", () => {
    const broken = { ...step, when: "vars.nowhere" };
    const error = { code: "expression_error", message: 'missing key "nowhere"', step_id: "s" };
    expect(finish([broken, after]).state).toBe("failed");
    expect(finish([{ ...broken, on_error: "fail" }, after]).state).toBe("failed");
    const goesOn = finish([{ ...broken, on_error: "continue" }, after]);
    expect(goesOn.state).toBe("succeeded");
    expect(goesOn.context.variables).toEqual(LAST.has(type) ? { s: { error } } : { s: { error }, after: "after" });
    const handled = finish([{ ...broken, on_error: "s3", save_as: "kept" }, after, { type: "noop" }]);
    expect(handled.context.variables).toEqual({ kept: { error } });
    expect(typesOf(handled, "s3")).toEqual(["step.started", "step.succeeded"]);
    expect(metadataOf(handled, "step.failed")).toEqual({
      code: "expression_error",
      message: error.message,
      retryable: false,
      will_retry: false,
    });
  });

  test("a compensation is undone if the run fails later", () => {
    if (LAST.has(type)) return expect(problemsOf({ ...step, compensation: { action: "shop.refund" } })).toEqual([]);
    const run = finish([{ ...step, compensation: { action: "shop.refund" } }, { type: "error" }]);
    expect(run.undo.map(({ stepId, state }) => [stepId, state])).toEqual([["s", "done"]]);
  });

  test("its rows: started first, all of attempt 0 but an action's own", () => {
    const rows = rowsOf(finish([step, after]), "s");
    expect(rows[0]).toMatchObject({ type: "step.started", attempt: 0, actor: "coordinator" });
    if (type !== "action") expect(rows.every(({ attempt }) => attempt === 0)).toBe(true);
  });

  test("an unknown attribute is refused with its path", () => {
    expect(problemsOf({ ...step, colour: "red" }, after)).toEqual([
      `.colour: is no attribute of a step of type ${type}`,
    ]);
  });

  test("in a dry run nothing is waited for and nothing is sent", () => {
    const run = start([step, after], { identity: { dryRun: true } });
    expect(run.ended).toBe(true);
    expect(run.dispatches.size + run.queued.size).toBe(0);
  });
});

test("the chart: next, skip and continue are edges to the next step, on_error to its own", () => {
  const chart = chartOf([
    { type: "noop", next: "s2", on_error: "s3" },
    { type: "noop" },
    { type: "noop", on_error: "continue" },
  ]);
  expect(chart).toEqual({
    s: ["running", "next -> s2", "skip -> s2", "continue -> s2", "error -> s3"],
    s2: ["running"],
    s3: ["running"],
  });
});

test("the chart: a step that may pause has a twin with the same ways out", () => {
  for (const type of types) {
    const chart = chartOf([soundStep(type), after]);
    const pauses = ["action", "wait_duration", "wait_until", "wait_for_signal"].includes(type);
    expect(Object.keys(chart), type).toEqual(pauses ? ["s", "s~paused", "s2"] : ["s", "s2"]);
    if (!pauses) continue;
    const [, ...ways] = chart.s ?? [];
    expect(ways).toContain("pause -> s~paused");
    const twin = ways.filter((way) => !way.startsWith("pause"));
    expect(chart["s~paused"]).toEqual(["paused", ...twin, ...(type === "action" ? ["resume -> s"] : [])]);
  }
});

test("the chart: a dot in an id, an asterisk and a percent sign in a branch make no path and no wildcard", () => {
  const chart = chartOf([
    { id: "s.1", type: "decision", expression: "'a'", branches: { "a*": { next: "s.2" }, "a%2A": { next: "s3" } } },
    { id: "s.2", type: "noop" },
    { type: "noop" },
  ]);
  expect(chart["s%2E1"]).toEqual(["running", "branch.a%2A -> s%2E2", "branch.a%252A -> s3"]);
});

attribute("step.id, step.type, step.next", "without a next the run is done, with the last step's output", () => {
  expect(finish([{ type: "noop", next: "s2" }, after]).context.output).toBe("after");
  expect(finish([{ type: "transform", expression: "1", next: "s2" }, { type: "noop" }]).context.output).toBeUndefined();
  expect(finish([{ type: "transform", expression: "1", when: "false" }]).context.output).toBeUndefined();
  expect(problemsOf({ id: "a b", type: "noop" })).toContain(".id: must be 1 to 128 of A-Z a-z 0-9 _ . : -");
  expect(problemsOf({ type: "noop", next: "nowhere" })).toEqual(['.next: there is no step "nowhere"']);
});

attribute("step.title, step.description", "are for people, and change nothing", () => {
  const run = finish([{ type: "transform", expression: "1", title: "One ${vars.x}", description: "Makes one." }]);
  expect(run.context.output).toBe(1);
  expect(problemsOf({ type: "noop", title: 1, description: [] })).toEqual([
    ".title: must be a string",
    ".description: must be a string",
  ]);
});

attribute("step.when", "is bare CEL", () => {
  expect(problemsOf({ type: "noop", when: true })).toEqual([".when: must be a CEL expression (a string)"]);
  expect(
    finish([{ type: "transform", expression: "1", when: "inputs.go" }], { inputs: { go: "yes" } }).context.output,
  ).toBe(1);
});

attribute("step.save_as", "is a variable's name or null", () => {
  expect(problemsOf({ type: "noop", save_as: "" })).toEqual([".save_as: must be 1 to 128 of A-Z a-z 0-9 _ . : -"]);
  expect(problemsOf({ type: "noop", save_as: "__proto__" })).toEqual(['.save_as: must not be "__proto__"']);
  expect(problemsOf({ type: "noop", save_as: false })).toEqual([".save_as: must be a string"]);
});

attribute("step.on_error", "is fail, continue or a step that exists", () => {
  expect(problemsOf({ type: "noop", on_error: "nowhere" })).toEqual(['.on_error: there is no step "nowhere"']);
  expect(problemsOf({ type: "noop", on_error: null })).toEqual([".on_error: must be a string"]);
});

attribute("step.on_error", "an error that nobody stores leaves no variable", () => {
  const run = finish([{ type: "error", on_error: "s2", save_as: null }, { type: "noop" }]);
  expect(run.context.variables).toEqual({});
});

attribute(
  "step.compensation, compensation.action, compensation.inputs",
  "needs an action; inputs are an object",
  () => {
    expect(problemsOf({ type: "noop", compensation: {} })).toEqual([".compensation.action: is required"]);
    expect(problemsOf({ type: "noop", compensation: { action: "a.b", inputs: [], retry: {} } })).toEqual([
      ".compensation.retry: is not known here",
      ".compensation.inputs: must be an object",
    ]);
  },
);
