// Validation as an author meets it: everything that is wrong is listed at once, also beside a step of an unknown type, and a name that
// is nearly right gets a suggestion.

import { describe, expect, it } from "vitest";
import { type CompileOptions, compileRule, compileWorkflow } from "../../machines/index.js";

const noop = (id: string, more: object = {}) => ({ id, type: "noop", ...more });
const wf = (steps: readonly object[], head: object = {}) => ({
  id: "wf",
  name: "Test",
  start: "begin",
  steps,
  ...head,
});

const report = (document: unknown, options?: CompileOptions) => {
  const { problems, warnings } = compileWorkflow(document, options);
  const lines = (list: typeof problems) => list.map(({ path, message }) => `${path}: ${message}`);
  return { problems: lines(problems), warnings: lines(warnings) };
};

describe("every problem is listed", () => {
  it("beside a step of an unknown type: its own edges, the edges of other steps, blocks, and warnings", () => {
    const steps = [
      noop("begin", { next: "loop" }),
      { id: "loop", type: "while", condition: "false", body: "round", next: "odd" },
      noop("round", { next: "odd" }),
      { id: "odd", type: "frobnicate", next: "gone", on_error: "lost", branches: { a: { next: "held" } }, wheel: 1 },
      noop("held"),
      noop("far"),
      { id: "call", type: "action", action: "shop.gone" },
    ];
    expect(report(wf(steps), { action: () => undefined })).toEqual({
      problems: [
        '$.steps[3].type: there is no step type "frobnicate" in this release',
        '$.steps[3].next: there is no step "gone"',
        '$.steps[3].on_error: there is no step "lost"',
        '$.steps[2].next: the step "odd" is in another block: an edge cannot lead into or out of a block',
      ],
      warnings: [
        '$.steps[5]: the step "far" cannot be reached',
        '$.steps[6]: the step "call" cannot be reached',
        "$.steps[6].action: the action shop.gone is not registered, or deprecated in every version",
      ],
    });
  });

  it.each([
    ["a common attribute", { id: "loop", type: "while", condition: "false", body: "round", next: "odd", title: 7 }],
    ["an unknown attribute", { id: "loop", type: "while", condition: "false", body: "round", next: "odd", colour: 7 }],
    ["a required expression", { id: "loop", type: "while", condition: "1 +", body: "round", next: "odd" }],
    [
      "an attribute with a default",
      { id: "loop", type: "while", condition: "false", body: "round", next: "odd", delay_ms: -1 },
    ],
  ])("beside a fault in %s of a container: an edge out of its block", (_, loop) => {
    const { problems } = report(
      wf([noop("begin", { next: "loop" }), loop, noop("round", { next: "odd" }), noop("odd")]),
    );
    expect(problems).toHaveLength(2);
    expect(problems).toContain(
      '$.steps[2].next: the step "odd" is in another block: an edge cannot lead into or out of a block',
    );
  });

  it("beside one faulty branch or case: the targets and the blocks of the others", () => {
    const steps = [
      { id: "begin", type: "parallel", branches: { a: { next: "a1" }, b: { nxt: "b1" } }, next: "join" },
      noop("a1", { next: "after" }),
      noop("b1", { next: "join" }),
      { id: "join", type: "join", next: "pick" },
      {
        id: "pick",
        type: "switch",
        cases: [
          { when: "1 +", next: "nowhere" },
          { when: "true", next: "after" },
        ],
      },
      noop("after"),
    ];
    const { problems, warnings } = report(wf(steps));
    expect(problems).toEqual([
      '$.steps[0].branches.b.nxt: is unknown (did you mean "next"?)',
      "$.steps[0].branches.b.next: is required",
      expect.stringMatching(/^\$\.steps\[4\]\.cases\[0\]\.when: .+/),
      '$.steps[4].cases[0].next: there is no step "nowhere"',
      '$.steps[1].next: the step "after" is in another block: an edge cannot lead into or out of a block',
    ]);
    expect(warnings).toEqual([]);
  });

  it("beside faults in the head of the document, and a start that does not exist", () => {
    const steps = [
      noop("first", { next: "loop" }),
      { id: "loop", type: "while", condition: "false", body: "round", next: "after" },
      noop("round", { next: "after" }),
      noop("after"),
    ];
    const { problems, warnings } = report(wf(steps, { name: 7, start: "nowhere" }));
    expect(problems).toEqual([
      "$.name: must be a string",
      '$.start: there is no step "nowhere"',
      '$.steps[2].next: the step "after" is in another block: an edge cannot lead into or out of a block',
    ]);
    expect(warnings).toEqual([]);
  });

  it("a step that only a faulty step names is not called unreachable", () => {
    const steps = [{ id: "begin", type: "frobnicate", inputs: { to: ["x"] } }, noop("x", { next: "y" }), noop("y")];
    expect(report(wf(steps)).warnings).toEqual([]);
  });
});

describe("a suggestion is made for", () => {
  it("a step id, wherever one is named", () => {
    const steps = [
      noop("begin", { next: "chrage_card", on_error: "contineu" }),
      { id: "pick", type: "decision", expression: "1", branches: { a: { next: "Charge-Card" } } },
      { id: "charge_card", type: "parallel", branches: { left: { next: "l" } }, next: "join" },
      noop("l"),
      { id: "join", type: "join", mode: "any", on: ["lefft"] },
    ];
    expect(report(wf(steps, { entrypoints: { other: "pik" } })).problems).toEqual([
      '$.steps[0].next: there is no step "chrage_card" (did you mean "charge_card"?)',
      '$.steps[0].on_error: there is no step "contineu" (did you mean "continue"?)',
      '$.steps[1].branches.a.next: there is no step "Charge-Card" (did you mean "charge_card"?)',
      '$.entrypoints.other: there is no step "pik" (did you mean "pick"?)',
      '$.steps[4].on[0]: there is no branch "lefft" (did you mean "left"?)',
    ]);
  });

  it("a step type, an attribute, and a field of the document or of a part of a step", () => {
    const steps = [
      { id: "begin", type: "waitForSignal", next: "log" },
      { id: "log", type: "log", mesage: "m", message: "m", nxt: "act" },
      { id: "act", type: "action", action: "a.b", retri: {}, retry: { max_attempt: 3, initial_backoff_ms: 1 } },
    ];
    expect(report(wf(steps, { desciption: "d" })).problems).toEqual([
      '$.desciption: is unknown (did you mean "description"?)',
      '$.steps[0].type: there is no step type "waitForSignal" in this release (did you mean "wait_for_signal"?)',
      '$.steps[1].mesage: is not an attribute of the step type log (did you mean "message"?)',
      '$.steps[1].nxt: is not an attribute of the step type log (did you mean "next"?)',
      '$.steps[2].retri: is not an attribute of the step type action (did you mean "retry"?)',
      '$.steps[2].retry.max_attempt: is unknown (did you mean "max_attempts"?)',
      "$.steps[2].retry.max_attempts: is required",
    ]);
  });

  it("an action, a name in an expression, and a variable", () => {
    const steps = [
      { id: "begin", type: "action", action: "shop.chagre", save_as: "payment", next: "log" },
      { id: "log", type: "log", message: "${input.n} ${vars.paymnet.id}" },
    ];
    const actions = () => ["shop.refund", "shop.charge", "other.charge"];
    expect(report(wf(steps), { action: () => undefined, actions })).toEqual({
      problems: [],
      warnings: [
        '$.steps[1].message: there is no name "input" in any scope (did you mean "inputs"?)',
        '$.steps[1].message: nothing in this definition sets vars.paymnet (did you mean "payment"?)',
        '$.steps[0].action: the action shop.chagre is not registered, or deprecated in every version (did you mean "shop.charge"?)',
      ],
    });
  });

  it("nothing that is only a little alike, and nothing beside names of one or two characters", () => {
    const { problems } = report(wf([noop("begin", { next: "b" }), noop("a", { next: "reserve" }), noop("refund")]));
    expect(problems).toEqual(['$.steps[0].next: there is no step "b"', '$.steps[1].next: there is no step "reserve"']);
  });

  it("as many names as its budget allows, however many are wrong", () => {
    const steps = Array.from({ length: 1000 }, (_, index) =>
      noop(`step_with_a_long_name_${index}`.padEnd(120, "x"), {
        next: `stap_with_a_long_name_${index}`.padEnd(120, "y"),
      }),
    );
    const { problems } = report(wf(steps, { start: steps[0]?.id }));
    expect(problems).toHaveLength(1000);
    const suggested = problems.filter((line) => line.includes("did you mean")).length;
    expect(suggested).toBeLessThan(100);
  });
});

describe("variables", () => {
  const reading = (source: string, ...others: object[]) =>
    report(wf([{ id: "begin", type: "transform", expression: source, save_as: "own" }, ...others])).warnings.filter(
      (line) => line.includes("sets vars."),
    );

  it("that nothing sets are warned about, however they are written", () => {
    expect(reading("vars.total + 1")).toEqual(["$.steps[0].expression: nothing in this definition sets vars.total"]);
    expect(reading('vars["step-1"].x')).toEqual(["$.steps[0].expression: nothing in this definition sets vars.step-1"]);
    expect(reading("[1].map(x, vars.factor * x)")).toHaveLength(1);
  });

  it("that the expression itself tests for, or computes the names of, are not", () => {
    expect(reading("has(vars.total) ? vars.total : 0")).toEqual([]);
    expect(reading('"total" in vars && vars.total > 1')).toEqual([]);
    expect(reading("vars[inputs.name]")).toEqual([]);
    expect(reading("[{'total': 1}].map(vars, vars.total)")).toEqual([]);
  });

  it("that a step sets are not: its output, its save_as, its error, its assignments, flat or nested", () => {
    const sets = (more: object, ...names: string[]) =>
      expect(reading(names.map((name) => `vars["${name}"]`).join(" + "), more)).toEqual([]);
    sets({ id: "call", type: "action", action: "a.b" }, "call", "own");
    sets({ id: "call", type: "action", action: "a.b", save_as: "paid" }, "paid");
    sets({ id: "all", type: "set_var", variables: { a: 1, "b-c": 2 } }, "a", "b-c");
    sets({ id: "one", type: "set_var", inputs: { name: "d", value: 1 } }, "d");
    sets({ id: "t", type: "try_catch", try: "n", catch: "m" }, "error");
    sets({ id: "t", type: "try_catch", try: "n", catch: "m", error_var: "fault" }, "fault");
    sets({ id: "check", type: "assert", condition: "true", on_error: "continue" }, "check");
    sets({ id: "odd", type: "frobnicate" }, "odd");
  });

  it("that only look as if a step set them are warned about: a discarded output, a step without one", () => {
    expect(reading("vars.call", { id: "call", type: "action", action: "a.b", save_as: null })).toHaveLength(1);
    expect(reading("vars.note", { id: "note", type: "log", message: "m" })).toHaveLength(1);
  });
});

describe("$schema", () => {
  it("is allowed at the top of a workflow and of a rule, as a string, and kept", () => {
    const $schema = "https://example.com/workflow.schema.json";
    const compiled = compileWorkflow(wf([noop("begin")], { $schema }));
    expect([compiled.problems, compiled.program?.document.$schema]).toEqual([[], $schema]);
    const rule = {
      rule_id: "r",
      name: "R",
      rule_type: "decision_table",
      spec: { hit_policy: "first", rows: [], default_output: {} },
    };
    expect(compileRule({ $schema, ...rule }).problems).toEqual([]);
    expect(compileRule({ $schema: 7, ...rule }).problems).toEqual([
      { path: '$["$schema"]', message: "must be a string" },
    ]);
  });
});
