// The steps that choose a way: decision and switch.
import { describe, expect, it } from "vitest";
import { compileRule, type JsonObject, type Rule } from "../../../machines/index.js";
import { attribute, chartOf, type Draft, failureOf, finish, metadataOf, problemsOf, typesOf } from "./rig.js";

const A: Draft = { type: "end", output: "a" };
const B: Draft = { type: "end", output: "b" };
const NEXT: Draft = { type: "end", output: "next" };
/** A step `s` that can go to s2 (a), s3 (b) and s4 (next). */
const way = (step: Draft, inputs = {}) => finish([step, A, B, NEXT], { inputs });
const taken = (step: Draft, inputs = {}) => way(step, inputs).context.output;

const decide = (more: Record<string, unknown> = {}): Draft => ({
  type: "decision",
  expression: "inputs.v",
  branches: { a: { next: "s2" }, "2": { next: "s3" }, true: { next: "s3" }, "[1,2]": { next: "s2" } },
  ...more,
});

describe("decision and switch", () => {
  attribute("decision.expression", "its value, as text, names the branch", () => {
    expect(taken(decide(), { v: "a" })).toBe("a");
    expect(taken(decide(), { v: 2 })).toBe("b");
    expect(taken(decide({ expression: "inputs.v / 2.0" }), { v: 4 })).toBe("b");
    expect(taken(decide(), { v: true })).toBe("b");
    expect(taken(decide(), { v: [1, 2] })).toBe("a");
    expect(failureOf(way(decide({ expression: "vars.x" })))).toBe(
      'expression_error: missing key "x": vars.x in steps[0].expression',
    );
    const either = [": needs either expression or rule_id"];
    expect(problemsOf({ type: "decision", branches: { a: { next: "s" } } })).toEqual(either);
    expect(problemsOf(decide({ rule_id: "r" }), A, B)).toEqual(either);
  });

  attribute("decision.branches", "else default, else next, else no_branch_matched", () => {
    expect(taken(decide({ next: "s4" }), { v: "zzz" })).toBe("next");
    const branches = { a: { next: "s2" }, default: { next: "s3" } };
    expect(taken(decide({ branches, next: "s4" }), { v: "zzz" })).toBe("b");
    expect(failureOf(way(decide(), { v: "zzz" }))).toBe("no_branch_matched: no branch matches and there is no default");
    expect(taken(decide({ on_error: "s4" }), { v: "zzz" })).toBe("next");
  });

  attribute("decision.branches", "names that reach a prototype are names like any other", () => {
    expect(failureOf(way(decide(), { v: "constructor" }))).toMatch(/^no_branch_matched/);
    expect(failureOf(way(decide(), { v: "__proto__" }))).toMatch(/^no_branch_matched/);
    const branches = JSON.parse('{"__proto__": {"next": "s2"}, "a*": {"next": "s3"}, "a%2A": {"next": "s4"}}');
    expect(taken(decide({ branches }), { v: "__proto__" })).toBe("a");
    expect(taken(decide({ branches }), { v: "a*" })).toBe("b");
    expect(taken(decide({ branches }), { v: "a%2A" })).toBe("next");
  });

  attribute("decision.branches", "is checked: its members, its targets, its number", () => {
    expect(problemsOf(decide({ branches: {} }))).toEqual([".branches: must not be empty"]);
    expect(problemsOf(decide({ branches: { a: "s2" } }))).toEqual([".branches.a: must be an object"]);
    expect(problemsOf(decide({ branches: { a: { next: "s2", to: 1 } } }), A)).toEqual([".branches.a.to: is unknown"]);
    expect(problemsOf(decide({ branches: { "a b": { next: "nowhere" } } }))).toEqual([
      '.branches["a b"].next: there is no step "nowhere"',
    ]);
    const many = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, index) => [`b${index}`, { next: "s2" }]));
    expect(problemsOf(decide({ branches: many(100) }), A)).toEqual([]);
    expect(problemsOf(decide({ branches: many(101) }), A)).toEqual([": must have at most 100 branches"]);
  });

  const RULE = compileRule({
    rule_id: "r",
    name: "A rule",
    rule_type: "decision_table",
    spec: {
      hit_policy: "first",
      rows: [
        { when: "v == 'a'", then: { branch: "a", to: "b" } },
        { when: "inputs.v == 2", then: { branch: 2 } },
        { when: "v == 'none'", then: { other: "a" } },
        { when: "v == '$'", then: { branch: "${v}" } },
      ],
    },
  }).rule as Rule;
  const MINE = { ...RULE, ruleId: "mine", tenantId: "t1" };
  const DEFAULTED = { ...RULE, ruleId: "defaulted", defaultOutput: { branch: "b" } };
  const byRule = (more: Record<string, unknown> = {}): Draft => ({
    type: "decision",
    rule_id: "r",
    branches: { a: { next: "s2" }, b: { next: "s3" }, "2": { next: "s3" } },
    ...more,
  });
  const ruled = (step: Draft, inputs: JsonObject, identity: object = {}) =>
    finish([step, A, B, NEXT], { inputs, identity, rules: [RULE, MINE, DEFAULTED] });

  attribute("decision.rule_id", "the rule's output names the branch, and the audit says how", () => {
    const run = ruled(byRule(), { v: 2 });
    expect(run.context.output).toBe("b");
    expect(typesOf(run, "s")).toEqual(["step.started", "rule.evaluated", "step.succeeded"]);
    expect(metadataOf(run, "rule.evaluated")).toEqual({
      rule_id: "r",
      version: 1,
      matched_row: 1,
      used_default: false,
      rows: [
        { index: 0, matched: false },
        { index: 1, matched: true },
      ],
    });
    expect(ruled(byRule({ rule_id: "${inputs.which}" }), { v: "a", which: "r" }).context.output).toBe("a");
    expect(problemsOf(byRule({ rule_id: 1 }), A, B)).toEqual([".rule_id: must be a string"]);
  });

  attribute("decision.rule_id", "what `then` holds is data: a template in it is text", () => {
    expect(ruled(byRule({ branches: { "${v}": { next: "s2" } } }), { v: "$" }).context.output).toBe("a");
  });

  attribute("decision.rule_id", "without a row or a default no branch is named; the audit says so too", () => {
    const run = ruled(byRule({ next: "s4" }), { v: "zzz" });
    expect(run.context.output).toBe("next");
    expect(metadataOf(run, "rule.evaluated")).toMatchObject({ matched_row: null, used_default: false });
    expect(ruled(byRule({ branches: { default: { next: "s2" } } }), { v: "zzz" }).context.output).toBe("a");
    const lost = ruled(byRule(), { v: "zzz" });
    expect(failureOf(lost)).toMatch(/^no_branch_matched/);
    expect(typesOf(lost, "s")).toEqual(["step.started", "rule.evaluated", "step.failed"]);
    const byDefault = ruled(byRule({ rule_id: "defaulted" }), { v: "zzz" });
    expect(byDefault.context.output).toBe("b");
    expect(metadataOf(byDefault, "rule.evaluated")).toMatchObject({ matched_row: null, used_default: true });
  });

  attribute("decision.rule_id", "a rule that is not there, or another tenant's, is not found", () => {
    expect(failureOf(ruled(byRule({ rule_id: "nowhere" }), {}))).toBe("not_found: there is no published rule nowhere");
    const long = "x".repeat(127);
    expect(failureOf(ruled(byRule({ rule_id: `${long}\u{1F600}` }), {}))).toBe(
      `not_found: there is no published rule ${long}`,
    );
    expect(failureOf(ruled(byRule({ rule_id: "mine" }), { v: "a" }))).toBe(
      "not_found: there is no published rule mine",
    );
    expect(failureOf(ruled(byRule({ rule_id: "mine" }), { v: "a" }, { tenantId: "t2" }))).toMatch(/^not_found/);
    expect(ruled(byRule({ rule_id: "mine" }), { v: "a" }, { tenantId: "t1" }).context.output).toBe("a");
    expect(ruled(byRule({ rule_id: "nowhere", on_error: "s4" }), {}).context.output).toBe("next");
  });

  attribute("decision.rule_inputs", "are what the rule sees; the run's inputs if absent", () => {
    expect(ruled(byRule({ rule_inputs: { v: "${inputs.deep.v}" } }), { deep: { v: "a" } }).context.output).toBe("a");
    expect(failureOf(ruled(byRule({ rule_inputs: {} }), { v: "a" }))).toBe(
      "expression_error: unknown name \"v\": v == 'a' in spec.rows[0].when",
    );
    expect(failureOf(ruled(byRule({ rule_inputs: "${1}" }), {}))).toBe(
      "expression_error: rule_inputs must be an object",
    );
    expect(problemsOf(byRule({ rule_inputs: [] }), A, B)).toEqual([".rule_inputs: must be an object"]);
    expect(problemsOf(decide({ rule_inputs: {} }), A, B)).toEqual([".rule_inputs: goes with rule_id"]);
  });

  attribute("decision.output_key", "is branch by default; a member that is not there names no branch", () => {
    expect(ruled(byRule({ output_key: "to" }), { v: "a" }).context.output).toBe("b");
    expect(ruled(byRule({ output_key: "${'to'}" }), { v: "a" }).context.output).toBe("b");
    expect(ruled(byRule({ next: "s4" }), { v: "none" }).context.output).toBe("next");
    expect(ruled(byRule({ output_key: "constructor", next: "s4" }), { v: "a" }).context.output).toBe("next");
    expect(problemsOf(byRule({ output_key: 1 }), A, B)).toEqual([".output_key: must be a string"]);
  });

  const cases = [
    { when: "inputs.v > 10", next: "s2" },
    { when: "inputs.v > 5", next: "s3" },
  ];

  attribute("switch.cases", "the first that holds; a case that fails is an expression_error", () => {
    expect(taken({ type: "switch", cases }, { v: 11 })).toBe("a");
    expect(taken({ type: "switch", cases }, { v: 6 })).toBe("b");
    expect(failureOf(way({ type: "switch", cases }))).toMatch(/^expression_error/);
    expect(problemsOf({ type: "switch", cases: [] })).toEqual([".cases: must have at least 1 item"]);
    expect(problemsOf({ type: "switch", cases: [{ when: "true" }, { next: "s", when: "1 +" }] })).toEqual([
      ".cases[0].next: is required",
      expect.stringMatching(/^\.cases\[1\]\.when: .*\(at character \d+\)$/),
    ]);
    expect(problemsOf({ type: "switch", cases: [{ when: "true", next: "nowhere" }] })).toEqual([
      '.cases[0].next: there is no step "nowhere"',
    ]);
    expect(problemsOf({ type: "switch", cases: Array(101).fill({ when: "true", next: "s" }) })).toEqual([
      ": must have at most 100 branches",
    ]);
  });

  attribute("switch.default", "else default, else next, else no_branch_matched; it goes with cases only", () => {
    expect(taken({ type: "switch", cases, default: "s3", next: "s4" }, { v: 1 })).toBe("b");
    expect(taken({ type: "switch", cases, next: "s4" }, { v: 1 })).toBe("next");
    expect(failureOf(way({ type: "switch", cases }, { v: 1 }))).toBe(
      "no_branch_matched: no case holds and there is no default",
    );
    expect(problemsOf({ type: "switch", cases, default: "nowhere" }, A, B)).toEqual([
      '.default: there is no step "nowhere"',
    ]);
    expect(problemsOf({ type: "switch", expression: "1", branches: { a: { next: "s" } }, default: "s" })).toEqual([
      ".default: goes with cases; use branches.default",
    ]);
  });

  attribute("switch.expression, switch.branches", "instead of cases, as a decision's", () => {
    const step: Draft = {
      type: "switch",
      expression: "inputs.v",
      branches: { "2": { next: "s2" }, default: { next: "s3" } },
    };
    expect(taken(step, { v: 2 })).toBe("a");
    expect(taken(step, { v: 3 })).toBe("b");
    expect(taken({ ...step, branches: { "2": { next: "s2" } }, next: "s4" }, { v: 3 })).toBe("next");
    expect(failureOf(way({ ...step, branches: { "2": { next: "s2" } } }, { v: 3 }))).toMatch(/^no_branch_matched/);
    expect(problemsOf({ type: "switch" })).toEqual([": needs either cases or expression with branches"]);
    expect(problemsOf({ type: "switch", cases, expression: "1", branches: { a: { next: "s" } } }, A, B)).toEqual([
      ": needs either cases or expression with branches",
    ]);
    expect(problemsOf({ type: "switch", expression: "1" })).toEqual([": needs both expression and branches"]);
  });

  it("the chart has an edge for every branch, case and default", () => {
    expect(chartOf([decide({ branches: { a: { next: "s2" }, default: { next: "s3" } } }), A, B]).s).toEqual([
      "branch.a -> s2",
      "branch.default -> s3",
    ]);
    expect(chartOf([{ type: "switch", cases, default: "s4", next: "s4" }, A, B, NEXT]).s).toEqual([
      "case.0 -> s2",
      "case.1 -> s3",
      "default -> s4",
    ]);
  });
});
