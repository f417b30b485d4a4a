// foreach: its list, its items' names, how many run at once, how many may fail, and what comes back.
import { describe, expect, it } from "vitest";
import type { Simulation } from "../simulation.js";
import { attribute, chartOf, type Draft, failureOf, finish, problemsOf, start, typesOf } from "./rig.js";

const each = (items: string, body: Draft, more: Record<string, unknown> = {}): Draft[] => [
  { type: "foreach", items, body: "b", ...more },
  { id: "b", ...body },
];
const value = (expression: string): Draft => ({ type: "transform", expression });
/** Items wait for a signal of their own, and fail if it does not say ok. */
const waiting = (items: string, more: Record<string, unknown> = {}): Draft[] => [
  { type: "foreach", items, body: "b", ...more },
  { id: "b", type: "wait_for_signal", signal_name: "go-${index}", next: "c" },
  { id: "c", type: "assert", condition: "has(vars.b.ok)", code: "bad-${index}", next: "d" },
  {
    id: "d",
    type: "transform",
    expression: "item",
    compensation: { action: "shop.refund", inputs: { of: "${item}" } },
  },
];
const items = ({ world }: Simulation) =>
  [...world.runs.values()].filter(({ context }) => context.run.parentBranchId !== undefined);
const running = (run: Simulation) =>
  items(run).flatMap(({ ended, context }) => (ended ? [] : context.run.parentBranchId));
const undone = ({ world }: Simulation) =>
  [...world.runs.values()].flatMap(({ sent }) => sent.map(({ call }) => call.inputs.of));
function told(steps: Draft[], ...ends: string[]): Simulation {
  const run = start(steps);
  run.world.settle();
  for (const end of ends) {
    run.signal(`go-${end.replace("!", "")}`, end.startsWith("!") ? {} : { ok: true });
    run.world.settle();
  }
  return run;
}

describe("foreach", () => {
  attribute("foreach.items", "is a list; its outputs come back in its order", () => {
    const run = finish(each("inputs.list", value("item * 2")), { inputs: { list: [3, 1, 2] } });
    expect(run.context.output).toEqual([6, 2, 4]);
    expect(items(run).map(({ context }) => context.run.parentBranchId)).toEqual(["0", "1", "2"]);
    expect(finish(each("[]", value("1"))).context.output).toEqual([]);
    for (const wrong of ["inputs", "'ab'", "null"])
      expect(failureOf(finish(each(wrong, value("1"))))).toBe("expression_error: items must be a list");
    expect(problemsOf({ type: "foreach", body: "s2" }, { type: "noop" })).toContain(".items: is required");
  });

  attribute("foreach.items", "order is that of the list also where the last ends first", () => {
    const steps = waiting("['a', 'b', 'c']", { max_concurrency: 0 });
    expect(told(steps, "2", "0", "1").context.output).toEqual(["a", "b", "c"]);
  });

  attribute("foreach.body", "is a block of runs of their own: nothing of it stays but the outputs", () => {
    const body: Draft = { type: "set_var", name: "x", value: "${vars.x + 1}", next: "c" };
    const run = finish([...each("[1, 2]", body), { id: "c", ...value("vars.x") }], { variables: { x: 1 } });
    expect(run.context.variables).toEqual({ x: 1, s: [2, 2] });
    expect(chartOf(each("[1]", value("1")))).toEqual({
      s: ["run.succeeded -> succeeded"],
      b: ["run.succeeded -> succeeded"],
    });
    // An end, or a next to the foreach, ends the item alone.
    expect(finish(each("[1, 2]", { type: "end", output: "${item}" })).context.output).toEqual([1, 2]);
    expect(finish(each("[1, 2]", { ...value("item"), next: "s" })).context.output).toEqual([1, 2]);
    expect(problemsOf({ type: "foreach", items: "[]" })).toEqual([".body: is required"]);
  });

  attribute(
    "foreach.item_var, foreach.index_var",
    "are more names; item and index stay, and outer ones are seen",
    () => {
      const run = finish([
        { type: "foreach", items: "['a', 'b']", body: "inner", item_var: "outer", index_var: "row" },
        { id: "inner", type: "foreach", items: "[outer + '1', outer + '2']", body: "b" },
        { id: "b", ...value("[outer, string(row), item, string(index)]") },
      ]);
      expect(run.context.output).toEqual([
        [
          ["a", "0", "a1", "0"],
          ["a", "0", "a2", "1"],
        ],
        [
          ["b", "1", "b1", "0"],
          ["b", "1", "b2", "1"],
        ],
      ]);
      const named = (more: object) =>
        problemsOf({ type: "foreach", items: "[]", body: "s2", ...more }, { type: "noop" });
      for (const name of ["item_var", "index_var"]) {
        expect(named({ [name]: "vars" })).toEqual([`.${name}: "vars" is a reserved name`]);
        for (const unsayable of ["my-item", "in", "1st"])
          expect(named({ [name]: unsayable })).toEqual([
            `.${name}: must be a CEL identifier: A-Z a-z 0-9 _, and not a reserved word of CEL`,
          ]);
        expect(named({ [name]: "__proto__" })).toEqual([`.${name}: must not be __proto__`]);
      }
      expect(named({ item_var: "x", index_var: "x" })).toEqual([".index_var: must differ from item_var"]);
      expect(named({ item_var: "item", index_var: "index" })).toEqual([]);
      expect(named({ item_var: "index" })).toEqual(['.item_var: "index" is a reserved name']);
    },
  );

  attribute("foreach.max_concurrency", "is 1: one after the other; a window moves on; 0 is all", () => {
    expect(running(told(waiting("[1, 2, 3]")))).toEqual(["0"]);
    const steps = waiting("[1, 2, 3, 4]", { max_concurrency: 2 });
    expect(running(told(steps))).toEqual(["0", "1"]);
    expect(running(told(steps, "1"))).toEqual(["0", "2"]);
    expect(running(told(steps, "1", "2", "0"))).toEqual(["3"]);
    expect(running(told(waiting("[1, 2, 3]", { max_concurrency: "${0}" })))).toEqual(["0", "1", "2"]);
    expect(failureOf(told(waiting("[1]", { max_concurrency: "${-1}" })))).toMatch(/^expression_error/);
    expect(problemsOf({ type: "foreach", items: "[]", body: "s2", max_concurrency: 1.5 }, { type: "noop" })).toEqual([
      ".max_concurrency: must be a whole number",
    ]);
  });

  attribute(
    "foreach.tolerated_failures",
    "is 0; over it: that item's error, what is in flight is cancelled, all is undone",
    () => {
      const none = told(waiting("[1, 2, 3, 4]", { max_concurrency: 3 }), "0", "!1");
      expect([failureOf(none).split(":")[0], none.context.ending?.error?.step_id]).toEqual(["bad-1", "c"]);
      expect(items(none).map(({ state }) => state)).toEqual(["succeeded", "failed", "cancelled", "cancelled"]);
      expect(undone(none)).toEqual([1]);
      const one = { max_concurrency: 3, tolerated_failures: 1 };
      expect(told(waiting("[1, 2, 3]", one), "!0", "2", "1").context.output).toMatchObject([
        { error: { code: "bad-0", step_id: "c" } },
        2,
        3,
      ]);
      expect(failureOf(told(waiting("[1, 2, 3]", one), "!0", "1", "!2"))).toMatch(/^bad-2/);
      expect(told(waiting("[1]", { tolerated_failures: "${1}" }), "!0").state).toBe("succeeded");
      expect(
        problemsOf({ type: "foreach", items: "[]", body: "s2", tolerated_failures: -1 }, { type: "noop" }),
      ).toEqual([".tolerated_failures: must be at least 0"]);
    },
  );

  attribute("foreach.tolerated_failures", "an error in it fails the step before any item runs", () => {
    const run = told(waiting("[1, 2]", { tolerated_failures: "${vars.nowhere}" }));
    expect([failureOf(run), items(run)]).toEqual([
      'expression_error: missing key "nowhere": vars.nowhere in steps[0].tolerated_failures',
      [],
    ]);
  });

  attribute("foreach.tolerated_failures", "no item starts after the failure that exceeds the tolerance", () => {
    const run = told(waiting("[1, 2, 3]"), "!0");
    expect([run.state, items(run).length]).toEqual(["failed", 1]);
  });

  attribute("foreach.max_items", "is 10000; a longer list fails the step with limit_exceeded", () => {
    expect(failureOf(finish(each("[1, 2, 3]", value("1"), { max_items: 2 })))).toBe(
      "limit_exceeded: there are 3 items, over max_items (2)",
    );
    expect(finish(each("[1, 2]", value("1"), { max_items: "${2}" })).state).toBe("succeeded");
    const list = Array.from({ length: 10_001 }, () => 0);
    expect(failureOf(finish(each("inputs.list", value("1")), { inputs: { list } }))).toMatch(
      /over max_items \(10000\)/,
    );
    expect(problemsOf({ type: "foreach", items: "[]", body: "s2", max_items: -1 }, { type: "noop" })).toEqual([
      ".max_items: must be at least 0",
    ]);
  });

  it("an item that is cancelled by itself is a failed one, with code cancelled", () => {
    const run = told(waiting("[1]", { tolerated_failures: 1 }));
    items(run)[0]?.cancel();
    run.world.settle();
    expect(run.context.output).toMatchObject([{ error: { code: "cancelled", message: "asked to" } }]);
  });

  it("a try around it that times out cancels the items, forgets the list, and may be entered again", () => {
    const run = start(
      [
        ...waiting("[1, 2]", { max_concurrency: 0 }),
        { id: "t", type: "try_catch", try: "s", catch: "w", timeout_ms: 10 },
        { id: "w", type: "wait_for_signal", signal_name: "end" },
      ],
      { head: { start: "t" } },
    );
    run.world.settle();
    run.elapse();
    run.world.settle();
    expect(items(run).map(({ state }) => state)).toEqual(["cancelled", "cancelled"]);
    expect([run.context.step, run.context.items, run.context.groups]).toEqual(["w", undefined, {}]);
    expect(typesOf(run, "s")).toEqual(["step.started", "step.paused", "step.failed"]);
  });
});
