// The steps that choose a way: decision and switch.
import { expect, test } from "vitest";
import { attribute, chartOf, type Draft, failureOf, finish, problemsOf } from "./rig.js";

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

attribute("decision.expression", "its value, as text, names the branch", () => {
  expect(taken(decide(), { v: "a" })).toBe("a");
  expect(taken(decide(), { v: 2 })).toBe("b");
  expect(taken(decide({ expression: "inputs.v / 2.0" }), { v: 4 })).toBe("b");
  expect(taken(decide(), { v: true })).toBe("b");
  expect(taken(decide(), { v: [1, 2] })).toBe("a");
  expect(failureOf(way(decide({ expression: "vars.x" })))).toBe('expression_error: missing key "x"');
  expect(problemsOf({ type: "decision", branches: { a: { next: "s" } } })).toEqual([".expression: is required"]);
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
  expect(problemsOf(decide({ branches: { a: { next: "s2", to: 1 } } }), A)).toEqual([
    ".branches.a.to: is not known here",
  ]);
  expect(problemsOf(decide({ branches: { "a b": { next: "nowhere" } } }))).toEqual([
    '.branches["a b"].next: there is no step "nowhere"',
  ]);
  const many = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`b${index}`, { next: "s2" }]));
  expect(problemsOf(decide({ branches: many(100) }), A)).toEqual([]);
  expect(problemsOf(decide({ branches: many(101) }), A)).toEqual([": must have at most 100 branches"]);
});

const cases = [
  { when: "inputs.v > 10", next: "s2" },
  { when: "inputs.v > 5", next: "s3" },
];

attribute("switch.cases", "the first that holds; a case that fails is an expression_error", () => {
  expect(taken({ type: "switch", cases }, { v: 11 })).toBe("a");
  expect(taken({ type: "switch", cases }, { v: 6 })).toBe("b");
  expect(failureOf(way({ type: "switch", cases }))).toMatch(/^expression_error/);
  expect(problemsOf({ type: "switch", cases: [] })).toEqual([".cases: must have at least 1 items"]);
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

test("the chart has an edge for every branch, case and default", () => {
  expect(chartOf([decide({ branches: { a: { next: "s2" }, default: { next: "s3" } } }), A, B]).s).toEqual([
    "running",
    "branch.a -> s2",
    "branch.default -> s3",
  ]);
  expect(chartOf([{ type: "switch", cases, default: "s4", next: "s4" }, A, B, NEXT]).s).toEqual([
    "running",
    "case.0 -> s2",
    "case.1 -> s3",
    "default -> s4",
    "next -> s4",
    "skip -> s4",
    "continue -> s4",
  ]);
});
