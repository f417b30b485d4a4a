// What the published chart says: the author's words on its states, the conditions on its edges.
import { describe, expect, it } from "vitest";
import { program, type StepDocument } from "../definitions.js";

const end: StepDocument = { id: "e", type: "end" };

function stateOf(step: Record<string, unknown>, ...others: StepDocument[]) {
  const steps = [{ id: "s", ...step } as StepDocument, ...others, ...(others.includes(end) ? [] : [end])];
  const { states } = program(steps).chart;
  return states.active.states.s as NonNullable<(typeof states.active.states)[string]>;
}

/** The conditions on the edges of a step `s`. */
function words(step: Record<string, unknown>, ...others: StepDocument[]): Record<string, string | undefined> {
  const { on = {} } = stateOf(step, ...others);
  return Object.fromEntries(Object.entries(on).map(([label, { description }]) => [label, description]));
}

describe("a state", () => {
  it("has the author's title and description, and else what its type does", () => {
    expect(stateOf({ type: "noop", title: "Rest", description: "For a while." }).description).toBe(
      "Rest\n\nFor a while.",
    );
    expect(stateOf({ type: "noop", title: "Rest" }).description).toBe("Rest");
    expect(stateOf({ type: "noop" }).description).toBe("Does nothing.");
    expect(stateOf({ type: "noop", title: "Rest" })).toMatchObject({
      tags: ["noop"],
      meta: { id: "s", title: "Rest" },
    });
  });

  it("names its compensation and its timeout", () => {
    const action = {
      type: "action",
      action: "shop.reserve",
      timeout_ms: 90_000,
      compensation: { action: "shop.release" },
    };
    const state = stateOf({ ...action, title: "Reserve", next: "e" });
    expect(state.description).toBe(
      "Reserve\n\nCalls shop.reserve.\n\nUndone by shop.release.\n\nTimes out after 90 s.",
    );
    expect(state.meta).toMatchObject({ compensation: "shop.release", timeout: "after 90 s" });
  });
});

describe("an edge", () => {
  it("of a switch and of a decision has its condition", () => {
    const cases = [{ when: "inputs.amount > 100", next: "e" }];
    expect(words({ type: "switch", cases, default: "s" })).toEqual({
      "case.0": "inputs.amount > 100",
      default: "no case holds",
    });
    const branches = { a: { next: "e" }, default: { next: "s" } };
    expect(words({ type: "decision", expression: "inputs.kind", branches })).toEqual({
      "branch.a": 'inputs.kind is "a"',
      "branch.default": "no branch matches",
    });
  });

  it("of a wait says what comes, and when it is too late", () => {
    const wait = { type: "wait_for_signal", signal_name: "parcel", timeout_ms: 30_000, next: "e" };
    expect(words({ ...wait, on_timeout: "s" })).toEqual({
      timeout: "after 30 s without the signal parcel",
      next: "the signal parcel",
    });
    expect(words({ ...wait, on_timeout: "continue" })).toEqual({ next: "the signal parcel, or after 30 s" });
  });

  it("into a catch names the errors that it takes", () => {
    const body: StepDocument[] = [
      { id: "b", type: "assert", condition: "true" },
      { id: "c", type: "noop" },
    ];
    const errors = ["payment_*", "declined"];
    expect(words({ type: "try_catch", try: "b", catch: "c", errors, next: "e" }, ...body)).toMatchObject({
      catch: "error payment_*, declined caught",
    });
    expect(words({ type: "try_catch", try: "b", catch: "c", next: "e" }, ...body).catch).toBe("any error caught");
  });

  it("that several ways out share has all their conditions", () => {
    const cases = [
      { when: "vars.a", next: "w" },
      { when: "vars.b", next: "w" },
    ];
    const body = [{ id: "w", type: "while", condition: "iteration < 2", body: "s", next: "e" }];
    const { chart } = program([...body, { id: "s", type: "switch", cases, default: "w" }, end] as StepDocument[]);
    expect(chart.states.active.states.s?.on?.["done.w"]?.description).toBe(
      "vars.a, or vars.b, or no case holds: the round of w is done",
    );
  });

  it("keeps long conditions short", () => {
    const cases = [{ when: `inputs.x == '${"🙂".repeat(500)}'`, next: "e" }];
    const condition = words({ type: "switch", cases, default: "s" })["case.0"] ?? "";
    expect([...condition]).toHaveLength(120);
    expect(encodeURIComponent(condition)).toMatch(/%E2%80%A6$/);
  });
});

describe("an edge that no run can take is not drawn", () => {
  it("where the attributes rule it out", () => {
    expect(words({ type: "wait_for_signal", signal_name: "go", on_timeout: "s", next: "e" })).not.toHaveProperty(
      "timeout",
    );
    expect(words({ type: "cancel" })).toEqual({});
    expect(words({ type: "noop", on_error: "e" })).toEqual({ "run.succeeded": "the run succeeds" });
  });

  it("from a step that nothing leads to", () => {
    const { states } = program([end, { id: "s", type: "noop", next: "e" }]).chart;
    expect(states.active.states.s?.on).toEqual({});
  });

  it("to an undo where a run never owes one", () => {
    expect(program([end]).chart.states.undoing).toBeUndefined();
    expect(program([end]).chart.states.active.on).not.toHaveProperty("undo");
  });
});
