// Questions about a run, in CEL: what they see, and why some have no value.
import { describe, expect, it } from "vitest";
import { answerTo, ExpressionError, ExpressionSyntaxError } from "../../machines/index.js";
import { program } from "./definitions.js";
import { Simulation } from "./simulation.js";

const NOW = Date.UTC(2026, 10, 30, 12);

function waiting(variables: object = {}, inputs: object = {}): Simulation {
  const wait = { id: "wait", type: "wait_for_signal", signal_name: "go", next: "end" };
  const steps = [wait, { id: "end", type: "end", output: { done: true, of: "${vars}" } }];
  const run = new Simulation({ program: program(steps), variables, inputs } as never);
  run.advance();
  return run;
}

const ask = (run: Simulation, source: string) => answerTo({ context: run.context, source, now: NOW });

describe("a query", () => {
  it("sees inputs, variables, the run and the time, with values of every kind", () => {
    const run = waiting(
      { price: 12.5, tea: "🍵", none: null, lines: [], deep: { "a-b": [1, { "": true }] } },
      { amount: 20.25 },
    );
    expect(ask(run, "inputs.amount + vars.price")).toBe(32.75);
    expect(ask(run, "vars.tea + ' for ' + run.workflow_id")).toBe("🍵 for test");
    expect(ask(run, "vars.none")).toBeNull();
    expect(ask(run, "vars.lines")).toEqual([]);
    expect(ask(run, "vars.deep['a-b'][1]")).toEqual({ "": true });
    expect(ask(run, "{'open': vars.lines.size(), 'has': has(vars.receipt)}")).toEqual({ open: 0, has: false });
    expect(ask(run, "string(now)")).toBe("2026-11-30T12:00:00Z");
    expect(ask(run, "vars")).toEqual(run.context.variables);
  });

  it("changes nothing of the run", () => {
    const run = waiting({ n: 1 });
    const before = JSON.stringify(run.context);
    ask(run, "vars.n + 1");
    expect(JSON.stringify(run.context)).toBe(before);
  });

  it("sees the output once the run has succeeded, and not before", () => {
    const run = waiting({ n: 1 });
    expect(() => ask(run, "output.done")).toThrow(/this run has no output; there are features, inputs, now, run, vars/);
    run.signal("go");
    expect(ask(run, "output.done")).toBe(true);
  });

  it("sees the item of an item, and of no other run", () => {
    const steps = [
      { id: "each", type: "foreach", items: "['a', 'b']", body: "wait", next: "end" },
      { id: "wait", type: "wait_for_signal", signal_name: "go" },
      { id: "end", type: "end" },
    ];
    const root = new Simulation({ program: program(steps) });
    root.advance();
    root.world.settle();
    const items = root.world.childrenOf(root.id);
    expect(items.map((item) => ask(item, "item + string(index)"))).toEqual(["a0"]);
    expect(() => ask(root, "item")).toThrow(ExpressionSyntaxError);
  });

  it("that is no expression is told from one that has no value for this run", () => {
    const run = waiting({ n: 1, text: "x" });
    for (const source of ["", " ", "vars.", "vars.n +", "nothing", "now.plus(", "f(1)"])
      expect(() => ask(run, source), source).toThrow(ExpressionSyntaxError);
    for (const source of ["vars.nowhere", "vars.n + vars.text", "1 / 0", "vars.text.no"])
      expect(() => ask(run, source), source).toThrow(ExpressionError);
  });

  it("ends when its step budget is used up", () => {
    const run = waiting({ many: Array.from({ length: 3_000 }, (_, nth) => nth) });
    const source = "vars.many.all(a, vars.many.all(b, a + b >= 0))";
    expect(() => ask(run, source)).toThrow(/step budget/);
  });
});
