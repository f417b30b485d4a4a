// The check of a workflow in a unit test: findings with code and path, as `saga check` prints them. What each rule finds is in test/machines/check.
import { describe, expect, it } from "vitest";
import { saga } from "../../../src/sdk/define/index.js";
import { checkWorkflow, type Finding } from "../../../src/sdk/define/testing/index.js";

const order = {
  ...{ id: "order", name: "Order", start: "reserve" },
  steps: [
    { id: "reserve", type: "action", action: "shop.reserve", inputs: { quantity: "two" }, next: "confirm" },
    { id: "confirm", type: "wait_for_signal", signal_name: "confirm", next: "done" },
    { id: "done", type: "end" },
  ],
};
const codes = (findings: readonly Finding[]) => findings.map(({ code, path, step }) => [code, path, step]);

describe("checkWorkflow", () => {
  it("finds what the document alone shows", () => {
    expect(codes(checkWorkflow(order))).toEqual([["wait_without_timeout", "$.steps[1]", "confirm"]]);
    expect(checkWorkflow({ ...order, timeout_ms: 1_000 })).toEqual([]);
  });

  it("finds what the actions show, and one that is not among them", () => {
    const actions = {
      "shop.reserve": {
        compensable: true,
        input_schema: { type: "object", properties: { quantity: { type: "integer" } } },
      },
    };
    expect(codes(checkWorkflow(order, { actions }))).toEqual(
      expect.arrayContaining([
        ["effect_without_undo", "$.steps[0]", "reserve"],
        ["template_misfit", "$.steps[0].inputs.quantity", "reserve"],
      ]),
    );
    expect(codes(checkWorkflow(order, { actions: {} }))).toContainEqual([
      "action_unknown",
      "$.steps[0].action",
      "reserve",
    ]);
    // A list of versions, as in a rehearsal.
    const versions = { "shop.reserve": [{ version: 1, compensable: true }, { version: 2 }] };
    expect(codes(checkWorkflow(order, { actions: versions })).map(([code]) => code)).toEqual(["wait_without_timeout"]);
  });

  it("takes a saga, names problems as errors, and never throws", () => {
    const typed = saga("typed", { name: "Typed" }).end(() => ({ a: 1 }));
    expect(checkWorkflow(typed, { workflows: [typed], rules: [] })).toEqual([]);
    expect(checkWorkflow({ ...order, start: "nowhere" })).toMatchObject([
      { code: "invalid", severity: "error", path: "$.start" },
    ]);
    expect(checkWorkflow([])).toMatchObject([{ code: "invalid", path: "$" }]);
  });

  it("knows the other workflows and rules that it is given", () => {
    const child = { id: "s", type: "sub_saga", workflow_id: "typed", inputs: {}, next: "done" };
    const parent = { id: "p", name: "P", start: "s", steps: [child, { id: "done", type: "end" }] };
    const typed = saga("typed", { name: "Typed" }).end(() => ({ a: 1 }));
    expect(checkWorkflow(parent, { workflows: [typed] })).toEqual([]);
    expect(codes(checkWorkflow(parent, { workflows: [] }))).toEqual([
      ["workflow_unknown", "$.steps[0].workflow_id", "s"],
    ]);
    expect(checkWorkflow(parent)).toEqual([]);
  });
});
