// What every step may have, held against every step type: when, save_as, on_error, next, and the chart they make.
// @module-tag both
import { describe, expect, it } from "vitest";
import type { AnyStateNode } from "xstate";
import { STEP_TYPES } from "../../../machines/steps/index.js";
import { long } from "../../harness/long.js";
import { violations } from "../chain.js";
import { program } from "../definitions.js";
import { type Simulation, START } from "../simulation.js";
import {
  attribute,
  chartOf,
  type Draft,
  failureOf,
  finish,
  metadataOf,
  prepare,
  problemsOf,
  rowsOf,
  typesOf,
} from "./rig.js";

/** A step `s` that succeeds by itself (waits by their timeouts), what it stores, and the steps that it needs around it. */
interface Sound {
  readonly step: Draft;
  readonly output?: unknown;
  readonly around?: readonly Draft[];
  /** Where to begin, if not at `s`. */
  readonly entry?: string;
}

const nothing = (id: string): Draft => ({ id, type: "noop" });
const anId = expect.stringMatching(/^[0-9a-f-]{36}$/);

const SOUND: Record<string, Sound> = {
  end: { step: { type: "end", output: { n: 1 } } },
  action: { step: { type: "action", action: "shop.notify" }, output: {} },
  decision: { step: { type: "decision", expression: "'other'", branches: { a: { next: "s2" } } } },
  switch: { step: { type: "switch", cases: [{ when: "false", next: "s2" }] } },
  error: { step: { type: "error" } },
  noop: { step: { type: "noop" } },
  set_var: { step: { type: "set_var", name: "x", value: 1 } },
  transform: { step: { type: "transform", expression: "[1, 2]" }, output: [1, 2] },
  merge: { step: { type: "merge", sources: ["{'a': 1}", "{'b': 2}"] }, output: { a: 1, b: 2 } },
  filter: { step: { type: "filter", items: "[1, 2]", condition: "item > 1" }, output: [2] },
  map: { step: { type: "map", items: "[1, 2]", expression: "item + index" }, output: [1, 3] },
  log: { step: { type: "log", message: "here" } },
  metric_emit: { step: { type: "metric_emit", name: "orders" } },
  assert: { step: { type: "assert", condition: "true" } },
  http_request: { step: { type: "http_request", url: "https://shop.example" }, output: {} },
  webhook_emit: { step: { type: "webhook_emit", url: "https://shop.example", event_type: "made" } },
  wait_duration: { step: { type: "wait_duration", duration_ms: 10 } },
  wait_until: { step: { type: "wait_until", until: "${now + duration('10s')}" } },
  wait_for_event: {
    step: { type: "wait_for_event", topic: "sent", timeout_ms: 10, on_timeout: "continue" },
    output: null,
  },
  emit_event: { step: { type: "emit_event", topic: "made" } },
  wait_for_signal: {
    step: { type: "wait_for_signal", signal_name: "go", timeout_ms: 10, on_timeout: "continue" },
    output: null,
  },
  while: {
    step: { type: "while", condition: "iteration < 2", body: "b", delay_ms: 5 },
    output: [null, null],
    around: [nothing("b")],
  },
  try_catch: { step: { type: "try_catch", try: "b", catch: "c" }, around: [nothing("b"), nothing("c")] },
  foreach: {
    step: { type: "foreach", items: "[1, 2]", body: "b" },
    output: [null, null],
    around: [nothing("b")],
  },
  parallel: {
    step: { type: "parallel", branches: { a: { next: "b" } }, next: "j" },
    around: [nothing("b"), { id: "j", type: "join", save_as: null, next: "s2" }],
  },
  join: {
    step: { type: "join" },
    output: { a: null },
    around: [{ id: "p", type: "parallel", branches: { a: { next: "b" } }, next: "s" }, nothing("b")],
    entry: "p",
  },
  sub_saga: { step: { type: "sub_saga", workflow_id: "child" }, output: 7 },
  spawn_saga: { step: { type: "spawn_saga", workflow_id: "child" }, output: { run_id: anId } },
  emit_signal: { step: { type: "emit_signal", run_id: "${run.id}", signal_name: "go" }, output: { signal_id: anId } },
  cancel: {
    step: { type: "cancel", run_id: "${vars.p.run_id}" },
    around: [{ id: "p", type: "spawn_saga", workflow_id: "child", next: "s" }],
    entry: "p",
  },
  manual_approval: {
    step: { type: "manual_approval", assignee: "ann", due_in_ms: 10, on_timeout: "continue" },
    output: null,
  },
  collect_input: {
    step: { type: "collect_input", assignee: "ann", form_schema: {}, due_in_ms: 10, on_timeout: "continue" },
    output: null,
  },
};

const WORKFLOWS = { child: program([{ id: "s", type: "transform", expression: "7" }], { id: "child" }) };
const LAST = new Set(["end", "error"]);
const PAUSES = [
  ...[
    "action",
    "http_request",
    "wait_duration",
    "wait_until",
    "wait_for_signal",
    "while",
    "foreach",
    "join",
    "sub_saga",
  ],
  ...["wait_for_event", "manual_approval", "collect_input"],
];
/** Those that have attempts. */
const CALLS = new Set(["action", "http_request"]);
/** What they send is for other runs: in a dry run there is nothing to store. */
const SENDS = new Set(["emit_signal", "cancel"]);
const types = [...STEP_TYPES.keys()];
const after: Draft = { type: "transform", expression: "'after'", save_as: "after" };

function sound(type: string): Sound {
  const found = SOUND[type];
  if (!found) throw new Error(`no sound step of type ${type}: give one`);
  return found;
}

/** The step, what follows it, and what it needs around it. */
function stepsOf(type: string, more: Record<string, unknown> = {}, ...following: Draft[]): Draft[] {
  const { step, around = [] } = sound(type);
  const next = LAST.has(type) || step.next ? {} : { next: "s2" };
  return [{ ...step, ...next, ...more }, ...(following.length > 0 ? following : [after]), ...around];
}

/** The same where `on_error` and `save_as` are given: of a parallel, its join's count. */
function ruledBy(type: string, rule: Record<string, unknown>, ...following: Draft[]): Draft[] {
  const broken = { when: "vars.nowhere" };
  if (type !== "parallel") return stepsOf(type, { ...broken, ...rule }, ...following);
  return stepsOf(type, broken, ...following).map((step) =>
    step.id === "j" ? { ...step, save_as: "s", ...rule } : step,
  );
}

const options = (type: string, more = {}) => ({
  workflows: WORKFLOWS,
  head: { start: sound(type).entry ?? "s" },
  ...more,
});
const run = (type: string, steps: Draft[], more = {}) => finish(steps, options(type, more));
/** What the steps around it stored is not of interest. */
const variablesOf = ({ context }: Simulation) => {
  const { p: _, x: __, ...variables } = context.variables;
  return variables;
};

describe.each(types)("%s", { tags: "short" }, (type) => {
  it("when: a falsy one skips the step, and the run goes to next", () => {
    for (const when of ["false", "0", "''", "[]", "null"]) {
      const skipped = run(type, stepsOf(type, { when }));
      expect(typesOf(skipped, "s"), when).toEqual(["step.started", "step.skipped"]);
      expect(metadataOf(skipped, "step.skipped")).toEqual({ reason: "when" });
      expect(skipped.state).toBe("succeeded");
      expect(variablesOf(skipped)).toEqual(LAST.has(type) ? {} : { after: "after" });
    }
  });

  it("when: a truthy one changes nothing; one that fails is an expression_error", () => {
    expect(typesOf(run(type, stepsOf(type, { when: "1" })), "s")).toEqual(typesOf(run(type, stepsOf(type)), "s"));
    expect(failureOf(run(type, stepsOf(type, { when: "vars.nowhere" })))).toBe(
      'expression_error: missing key "nowhere": vars.nowhere in steps[0].when',
    );
  });

  it("the output is stored under the step's id, under save_as, or nowhere", () => {
    const { output } = sound(type);
    const stored = (more: Record<string, unknown>) => {
      const { after: _, ...rest } = variablesOf(run(type, stepsOf(type, more)));
      return rest;
    };
    expect(stored({})).toEqual(output === undefined ? {} : { s: output });
    expect(stored({ save_as: "there" })).toEqual(output === undefined ? {} : { there: output });
    expect(stored({ save_as: null })).toEqual({});
  });

  it("on_error: fail is the default; continue and a step's id both store the error and go on", () => {
    const error = {
      code: "expression_error",
      message: 'missing key "nowhere": vars.nowhere in steps[0].when',
      step_id: "s",
    };
    expect(run(type, ruledBy(type, {})).state).toBe("failed");
    expect(run(type, ruledBy(type, { on_error: "fail" })).state).toBe("failed");
    const goesOn = run(type, ruledBy(type, { on_error: "continue" }));
    expect(goesOn.state).toBe("succeeded");
    expect(variablesOf(goesOn)).toEqual(LAST.has(type) ? { s: { error } } : { s: { error }, after: "after" });
    const handled = run(type, ruledBy(type, { on_error: "s3", save_as: "kept" }, after, { type: "noop" }));
    expect(variablesOf(handled)).toEqual({ kept: { error } });
    expect(typesOf(handled, "s3")).toEqual(["step.started", "step.succeeded"]);
    expect(metadataOf(handled, "step.failed")).toEqual({
      code: "expression_error",
      message: error.message,
      retryable: false,
      will_retry: false,
    });
  });

  it("a compensation is undone if the run fails later", () => {
    const compensation = { action: "shop.refund" };
    if (LAST.has(type)) return expect(problemsOf({ ...sound(type).step, compensation })).toEqual([]);
    const failed = run(type, stepsOf(type, { compensation }, { type: "error" }));
    expect(failed.undo.filter(({ action }) => action).map(({ stepId, state }) => [stepId, state])).toEqual([
      ["s", "done"],
    ]);
  });

  it("its rows: started first, all of attempt 0 but an action's own", () => {
    const rows = rowsOf(run(type, stepsOf(type)), "s");
    expect(rows[0]).toMatchObject({ type: "step.started", attempt: 0, actor: "coordinator" });
    if (!CALLS.has(type)) expect(rows.every(({ attempt }) => attempt === 0)).toBe(true);
  });

  it("an unknown attribute is refused with its path", () => {
    expect(problemsOf({ ...sound(type).step, colour: "red" }, after)).toContain(
      `.colour: is not an attribute of the step type ${type}`,
    );
  });

  it("in a dry run nothing is waited for and nothing is sent", () => {
    const dry = run(type, stepsOf(type), { identity: { dryRun: true } });
    expect(dry.state).toBe(type === "error" ? "failed" : "succeeded");
    expect([dry.now, dry.sent.length, dry.world.inbox.length]).toEqual([START, 0, 0]);
    const others = [...dry.world.runs.values()].filter(({ id }) => id !== dry.id);
    expect(others.every(({ context }) => context.run.dryRun)).toBe(true);
    if (SENDS.has(type)) expect(metadataOf(dry, "step.skipped")).toEqual({ reason: "dry_run" });
  });
});

/** The step inside a block: in a branch, in a try, in the body of a loop. */
const PLACES: Record<string, (entry: string) => Draft[]> = {
  "by itself": () => [],
  "in a branch": (entry) => [
    { id: "par", type: "parallel", branches: { only: { next: entry } }, next: "all" },
    { id: "all", type: "join" },
  ],
  "in an item": (entry) => [{ id: "each", type: "foreach", items: "[1]", body: entry }],
  "in a try": (entry) => [
    { id: "try", type: "try_catch", try: entry, catch: "caught", next: "z" },
    nothing("caught"),
    nothing("z"),
  ],
  "in a loop": (entry) => [{ id: "loop", type: "while", condition: "iteration < 2", body: entry }],
};

/** In the short form some of them: each makes the block a run of its own, or another step of the same run. */
const places = Object.keys(PLACES).filter((place) => long(["by itself", "in an item"].includes(place), true));

function placed(type: string, place: string, more: Record<string, unknown> = {}, following: Draft[] = []) {
  const { entry = "s" } = sound(type);
  const blocks = PLACES[place]?.(entry) ?? [];
  const head = { start: blocks[0]?.id ?? entry };
  return { steps: [...stepsOf(type, more, ...following), ...blocks], options: { workflows: WORKFLOWS, head } };
}

const finishPlaced = (type: string, place: string, more = {}, about = {}) => {
  const { steps, options } = placed(type, place, more);
  return finish(steps, { ...options, ...about });
};
const family = ({ world, id }: Simulation) =>
  [...world.runs.values()].filter(({ context: { run } }) => run.id === id || run.parentRunId !== undefined);
const rowsInFamily = (simulation: Simulation) =>
  family(simulation).flatMap((each) => each.rows.map(({ type, stepId, to }) => `${stepId} ${type} ${to}`));

describe.each(types)("%s in a block", (type) => {
  const alone = typesOf(run(type, stepsOf(type)), "s");

  it("in a branch or an item: a run of its own, whose output comes back", { tags: "short" }, () => {
    for (const [place, container] of [
      ["in a branch", "all"],
      ["in an item", "each"],
    ] as const) {
      const whole = finishPlaced(type, place);
      const [child] = family(whole).filter(({ context }) => context.run.parentBranchId !== undefined);
      expect(typesOf(child as Simulation, "s")).toEqual(alone);
      expect(typesOf(whole, "s")).toEqual([]);
      const output = type === "end" ? { n: 1 } : "after";
      const outputs = place === "in a branch" ? { only: output } : [output];
      if (type === "error") expect(failureOf(whole)).toBe("error: the workflow raised an error");
      else expect(whole.context.variables).toEqual({ [container]: outputs });
    }
  });

  it("in a try: its error goes to the catch, its success past it", { tags: "short" }, () => {
    const well = finishPlaced(type, "in a try");
    expect(typesOf(well, "s")).toEqual(alone);
    expect(typesOf(well, "z")).toHaveLength(type === "end" ? 0 : 2);
    expect(typesOf(well, "caught")).toHaveLength(type === "error" ? 2 : 0);
    const broken = finishPlaced(type, "in a try", { when: "vars.nowhere" });
    expect(broken.state).toBe("succeeded");
    expect(broken.context.variables.error).toMatchObject({ code: "expression_error", step_id: "s" });
    for (const { rows } of [well, broken])
      expect(rows.filter(({ stepId }) => stepId === "try").map((row) => row.type)).toEqual([
        "step.started",
        "step.succeeded",
      ]);
  });

  it("in a loop: entered once a round, each an entry of its own", { tags: "short" }, () => {
    const twice = finishPlaced(type, "in a loop");
    expect(typesOf(twice, "s")).toEqual(LAST.has(type) ? alone : [...alone, ...alone]);
    expect(typesOf(twice, "loop")).toEqual(["step.started", type === "error" ? "step.failed" : "step.succeeded"]);
  });

  it.each(places)("after a restart at every commit the same: %s", (place) => {
    const compensation = { compensation: { action: "shop.refund" } };
    const whole = finishPlaced(type, place, compensation);
    const again = finishPlaced(type, place, compensation, { reload: true, budget: 1 });
    expect(rowsInFamily(again)).toEqual(rowsInFamily(whole));
    expect(again.context.variables).toEqual(whole.context.variables);
  });

  it.each(places)("a cancel at every point ends it, and undoes what it did unless told not to: %s", (place) => {
    for (const compensate of [true, false]) {
      let points = 0;
      for (; cancelledAt(type, place, points, compensate); points += long(41, 7));
      expect(points).toBeGreaterThan(0);
    }
  });
});

/** The run, cancelled after so many commits and moves; false if it has ended by then. */
function cancelledAt(type: string, place: string, point: number, compensate: boolean): boolean {
  const compensation = { action: "shop.refund" };
  const { steps, options } = placed(type, place, { compensation }, [{ ...after, compensation }]);
  const simulation = prepare(steps, { ...options, budget: 1, reload: true });
  for (let commits = 0; commits < point && !simulation.ended; commits++)
    if (!simulation.follow()) simulation.world.move();
  if (simulation.ended) return false;
  simulation.cancel(compensate);
  for (let moves = 0; moves < 500 && family(simulation).some(({ ended }) => !ended); moves++) simulation.world.move();
  const all = family(simulation);
  expect(all.map((each) => violations(each))).toEqual(all.map(() => []));
  expect(simulation.state).toBe("cancelled");
  const undos = all.flatMap(({ sent }) => sent).filter(({ call }) => call.phase === "compensation");
  const owed = simulation.world.undo.filter(({ action }) => action !== undefined);
  expect(undos).toHaveLength(compensate ? owed.length : 0);
  expect(new Set(undos.map(({ call }) => call.idempotencyKey)).size).toBe(undos.length);
  return true;
}

describe("an attribute that is a number", () => {
  it.each([
    { type: "wait_duration", duration_ms: "${decimal(inputs.n)}" },
    { type: "wait_duration", duration_ms: "${(decimal('1.50') * inputs.n).round()}" },
    { type: "foreach", items: "[1]", body: "b", max_items: "${decimal(inputs.n)}", max_concurrency: "${decimal(1)}" },
    { type: "while", condition: "iteration < 1", body: "b", max_iterations: "${decimal('5.00')}" },
    { type: "wait_for_signal", signal_name: "go", timeout_ms: "${decimal(inputs.n)}", on_timeout: "continue" },
  ])("takes a decimal: %j", (draft: Draft) => {
    const steps = [draft, ...("body" in draft ? [{ id: "b", type: "noop" }] : [])];
    expect(finish(steps, { inputs: { n: 5 } }).context.state).toBe("succeeded");
  });
});

describe("the chart", { tags: "short" }, () => {
  it("next, skip and continue are edges to the next step, on_error to its own", () => {
    const when = "inputs.go";
    const chart = chartOf([
      { type: "noop", when, next: "s2", on_error: "s3" },
      { type: "noop", when, next: "s3", on_error: "continue" },
      { type: "noop", on_error: "s" },
    ]);
    expect(chart).toEqual({
      s: ["next -> s2", "skip -> s2", "error -> s3"],
      s2: ["next -> s3", "skip -> s3", "continue -> s3"],
      s3: ["run.succeeded -> succeeded"],
    });
  });

  it("in the machine that runs, a step that may pause has a twin with the same ways out", () => {
    for (const type of types) {
      const { machine } = prepare(stepsOf(type), { head: { start: sound(type).entry ?? "s" } }).program;
      const { states } = machine.root.states.active as AnyStateNode;
      const waysOf = (key: string) => [...(states[key]?.transitions.keys() ?? [])];
      const twin = waysOf("s~paused");
      expect(twin, type).toEqual(
        PAUSES.includes(type) ? [...waysOf("s").filter((way) => way !== "pause"), "resume"] : [],
      );
    }
  });

  it("a dot in an id, an asterisk and a percent sign in a branch make no path and no wildcard", () => {
    const chart = chartOf([
      {
        id: "s.1",
        type: "decision",
        expression: "'a'",
        branches: { "a*": { next: "s.2" }, "a%2A": { next: "s3" } },
        next: "s3",
      },
      { id: "s.2", type: "noop" },
      { type: "noop" },
    ]);
    expect(chart["s%2E1"]).toEqual(["branch.a%2A -> s%2E2", "branch.a%252A -> s3", "next -> s3"]);
  });

  attribute("step.id, step.type, step.next", "without a next the run is done, with the last step's output", () => {
    expect(finish([{ type: "noop", next: "s2" }, after]).context.output).toBe("after");
    expect(
      finish([{ type: "transform", expression: "1", next: "s2" }, { type: "noop" }]).context.output,
    ).toBeUndefined();
    expect(finish([{ type: "transform", expression: "1", when: "false" }]).context.output).toBeUndefined();
    expect(problemsOf({ id: "a b", type: "noop" })).toContain(".id: must be 1 to 128 of A-Z a-z 0-9 _ . : -");
    expect(problemsOf({ type: "noop", next: "nowhere" })).toEqual(['.next: there is no step "nowhere"']);
  });

  attribute("step.title, step.description", "are shown in the chart, and change nothing else", () => {
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
    expect(problemsOf({ type: "noop", save_as: "__proto__" })).toEqual([".save_as: must not be __proto__"]);
    expect(problemsOf({ type: "noop", save_as: false })).toEqual([".save_as: must be a string"]);
  });

  attribute("step.on_error", "is fail, continue or a step that exists", () => {
    expect(problemsOf({ type: "noop", on_error: "nowhere" })).toEqual(['.on_error: there is no step "nowhere"']);
    expect(problemsOf({ type: "noop", on_error: 1 })).toEqual([".on_error: must be a string"]);
  });

  attribute("step.on_error", "an error that is not stored leaves no variable", () => {
    const run = finish([{ type: "error", on_error: "s2", save_as: null }, { type: "noop" }]);
    expect(run.context.variables).toEqual({});
  });

  attribute(
    "step.compensation, compensation.action, compensation.inputs",
    "needs an action; inputs are an object",
    () => {
      expect(problemsOf({ type: "noop", compensation: {} })).toEqual([".compensation.action: is required"]);
      expect(problemsOf({ type: "noop", compensation: { action: "a.b", inputs: [], retry: {} } })).toEqual([
        ".compensation.retry: is unknown",
        ".compensation.inputs: must be an object",
      ]);
    },
  );
});
