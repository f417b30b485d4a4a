// Definitions as documents: the JSON that a chain gives, checked by the service's own compiler and run on its machine.
import {
  at,
  cel,
  defineAction,
  fromDocument,
  has,
  orElse,
  pinned,
  type Saga,
  saga,
  text,
} from "@saga-orchestrator/define";
import { Type } from "typebox";
import { describe, expect, it } from "vitest";
import { rehearse } from "../../../src/sdk/define/testing/index.js";
import { begun, blocks, calls, everything, input, lists } from "./every-step.js";
import { compileWorkflow, STEP_TYPES } from "./machine.js";
import { order, shop } from "./order.js";

/** The actions that workers were to execute. */
const dispatched = (events: ReturnType<typeof rehearse>["events"]) =>
  events.filter(({ event_type }) => event_type === "step.dispatched").map(({ metadata }) => metadata?.action);

const INPUTS = { n: 7, lines: [1, 2] };

const stepsOf = (value: Saga) => value.toJSON().steps as readonly Record<string, unknown>[];
const problemsOf = (value: Saga) => compileWorkflow(value.toJSON()).problems;

describe("a definition", () => {
  it("is the document that the design shows, member by member in this order", () => {
    expect(JSON.stringify(order)).toBe(
      JSON.stringify({
        id: "order",
        name: "An order",
        input_schema: JSON.parse(
          JSON.stringify(Type.Object({ sku: Type.String(), quantity: Type.Integer(), amount_cents: Type.Integer() })),
        ),
        start: "worth",
        steps: [
          {
            id: "worth",
            type: "assert",
            condition: "inputs.amount_cents > 0",
            code: "nothing_to_pay",
            next: "reserve",
          },
          {
            ...{ id: "reserve", type: "action", action: "shop.reserve" },
            inputs: { sku: "${inputs.sku}", quantity: "${inputs.quantity}" },
            compensation: { action: "shop.release", inputs: {} },
            next: "confirm",
          },
          { id: "confirm", type: "wait_for_signal", signal_name: "confirmed", timeout_ms: 86_400_000, next: "charge" },
          {
            ...{ id: "charge", type: "action", action: "shop.charge" },
            inputs: { amount_cents: "${math.round(inputs.amount_cents * 1.19)}" },
            retry: { max_attempts: 5, initial_backoff_ms: 200 },
            compensation: { action: "shop.refund", inputs: { receipt: "${output.receipt}" } },
            next: "end",
          },
          { id: "end", type: "end", output: { receipt: "${vars.charge.receipt}", confirmed_by: "${vars.confirm.by}" } },
        ],
      }),
    );
  });

  it("runs: the order succeeds, and a charge that fails releases the goods", () => {
    const inputs = { sku: "tea", quantity: 2, amount_cents: 950 };
    const paid = { reserve: [{ output: { reservation: "R" } }], confirm: [{ output: { by: "ann" } }] };
    const good = rehearse(order.toJSON(), { inputs, mocks: { ...paid, charge: [{ output: { receipt: "P" } }] } });
    expect([good.state, good.output]).toEqual(["succeeded", { receipt: "P", confirmed_by: "ann" }]);
    const bad = { ...paid, charge: [{ error: { code: "declined", retryable: false } }] };
    const failed = rehearse(order.toJSON(), { inputs, mocks: bad });
    expect(failed.state).toBe("failed");
    expect(failed.events.filter(({ event_type }) => event_type === "compensation.started")).toHaveLength(1);
  });

  it("can have every step type, with nearly all attributes, and the service accepts it", () => {
    const all = [everything(), lists(), calls(), blocks()];
    expect(all.flatMap(problemsOf)).toEqual([]);
    const steps = all.flatMap(stepsOf);
    expect([...STEP_TYPES.keys()].filter((type) => !steps.some((step) => step.type === type))).toEqual([]);
    const written = new Set(steps.flatMap((step) => Object.keys(step).map((name) => `${step.type}.${name}`)));
    const missing = [...STEP_TYPES.values()].flatMap(({ name, attributes }) =>
      Object.keys(attributes)
        .map((attribute) => `${name}.${attribute}`)
        .filter((attribute) => !written.has(attribute)),
    );
    expect(missing).toEqual([
      ...["manual_approval.due_at", "collect_input.title", "collect_input.due_in_ms", "collect_input.on_timeout"],
    ]);
    expect(all[0]?.toJSON().entrypoints).toEqual({ late: "t1" });
    for (const one of all) expect(fromDocument(one.toJSON()).toJSON()).toEqual(one.toJSON());
  });

  it("goes on behind its branches, and a branch that has ended does not", () => {
    const value = begun()
      .decision("d", cel<string>`'a'`, { a: (b) => b.noop("a"), b: (b) => b.end("b"), default: (b) => b })
      .noop("after")
      .close();
    expect(problemsOf(value)).toEqual([]);
    expect(stepsOf(value).map(({ id, next }) => [id, next])).toEqual([
      ["d", undefined],
      ["a", "after"],
      ["d.b.end", undefined],
      ["after", undefined],
    ]);
    expect(rehearse(value.toJSON(), { inputs: INPUTS }).state).toBe("succeeded");
  });

  it("jumps back to a step", () => {
    const value = begun()
      .setVar("begin", { i: 0 })
      .setVar("count", ({ vars }) => ({ i: cel<number>`${vars.i} + 1` }))
      .switch("again", [{ when: ({ vars }) => cel`${vars.i} < 3`, then: (b) => b.goTo("count") }], {
        default: (b) => b.noop("enough"),
      })
      .end(({ vars }) => vars.i);
    expect(rehearse(value.toJSON(), { inputs: INPUTS }).output).toBe(3);
  });

  it("goes on where no branch fits, if it says so, and fails without", () => {
    const chosen = begun().decision("d", cel<string>`'b'`, { a: (b) => b.end("a") }, { onNoMatch: "continue" });
    expect(rehearse(chosen.end("none").toJSON(), { inputs: INPUTS }).output).toBe("none");
    const held = begun().switch("d", [{ when: false, then: (b) => b.end("a") }], { onNoMatch: "continue" });
    expect(rehearse(held.end("none").toJSON(), { inputs: INPUTS }).output).toBe("none");
    const failed = begun().switchOn("d", cel<string>`'b'`, { a: (b) => b.end("a") }, { onNoMatch: "fail" });
    expect(rehearse(failed.toJSON(), { inputs: INPUTS }).error?.code).toBe("no_branch_matched");
    const withDefault = () =>
      begun().decision("d", cel<string>`'b'`, { default: (b) => b.noop("n") }, { onNoMatch: "continue" });
    expect(withDefault).toThrow("d has a default, so onNoMatch would never count");
    const last = begun().foreach(
      "f",
      ({ inputs }) => inputs.lines,
      (each) => each.decision("d", cel<string>`'b'`, { a: (b) => b.end("a") }, { onNoMatch: "continue" }),
    );
    expect(() => last.end()).toThrow("nothing follows d where no branch fits: add a step, such as noop");
    const passed = () =>
      begun().switchOn("d", cel<string>`'b'`, { a: (b) => b.end("a") }, { onNoMatch: "fail", when: true });
    expect(passed).toThrow("d may be passed (when, onError)");
    const misspelt = () => begun().switch("d", [], { onNoMatch: "go" as never });
    expect(misspelt).toThrow('d.onNoMatch must be "fail" or "continue"');
  });

  it("calls an action in the version of its contract, or by a computed name, and so is it undone", () => {
    const second = defineAction({ ...shop.refund, version: 2 });
    const value = begun()
      .action("one", pinned(second), { inputs: { receipt: "R" }, undo: [pinned(second), { receipt: "U" }] })
      .action("two", ({ inputs }) => text`shop.refund@${inputs.n}`, {
        inputs: { receipt: "R" },
        undo: { action: ({ output }) => text`shop.${cel`${output}.how`}`, inputs: ({ output }) => ({ output }) },
      })
      .error("over");
    expect(stepsOf(value).map(({ action, compensation }) => [action, compensation])).toEqual([
      ["shop.refund@2", { action: "shop.refund@2", inputs: { receipt: "U" } }],
      ["shop.refund@${inputs.n}", { action: "shop.${output.how}", inputs: { output: "${output}" } }],
      [undefined, undefined],
    ]);
    const { events } = rehearse(value.toJSON(), { inputs: INPUTS, mocks: { two: [{ output: { how: "back" } }] } });
    expect(dispatched(events)).toEqual(["shop.refund@2", "shop.refund@7", "shop.back@1", "shop.refund@2"]);
    expect(() => begun().action("a", "shop.refund" as never, {} as never)).toThrow(
      "a.action takes an action of defineAction",
    );
    expect(() => begun().setVar("v", "x", undefined as never)).toThrow("v has no value for x");
    expect(() => begun().error("e", { when: true } as never)).toThrow("e is an error, which always fails");
    expect(() => begun().noop("a", { undo: { action: () => cel`1`, with: 1 } } as never)).toThrow(
      'unknown member "with"',
    );
  });

  it("waits for no branch where the when of a join does not hold, and undoes what the join gave", () => {
    const side = () => begun().parallel("p", { x: (b) => b.transform("px", "x") });
    const skipped = side()
      .join("j", { when: false })
      .end(({ steps }) => orElse(steps.j.x, "none"));
    expect(rehearse(skipped.toJSON(), { inputs: INPUTS }).output).toBe("none");
    const undone = side()
      .join("j", { undo: [shop.notify, ({ output }) => ({ text: output.x })] })
      .error("over");
    expect(dispatched(rehearse(undone.toJSON(), { inputs: INPUTS }).events)).toEqual(["shop.notify@1"]);
  });

  it("takes an error of its own, and goes on", () => {
    const taken = begun()
      .error("e", { code: "own", onError: (f) => f.log("l", ({ steps }) => steps.e.error.code) })
      .end(({ steps }) => steps.e.error.code);
    expect(rehearse(taken.toJSON(), { inputs: INPUTS }).output).toBe("own");
  });

  it("shows an error that it cannot be written: two steps of one id, an empty end, a misspelt option, another chain", () => {
    const twice = () =>
      begun()
        .parallel("p", { a: (b) => b.noop("x"), b: (b) => b.noop("x") })
        .join("j")
        .end();
    expect(twice).toThrow('saga s has two steps with the id "x"');
    expect(() =>
      begun()
        .decision("d", cel<string>`'a'`, { default: (b) => b })
        .close(),
    ).toThrow("the block d.default has no step");
    expect(() => begun().noop("n", { titel: "x" } as never)).toThrow('unknown member "titel"');
    const other = begun();
    expect(() => begun().decision("d", cel<string>`'a'`, { default: () => other as never })).toThrow(
      "must return the chain",
    );
    expect(() => begun().close()).toThrow("no step");
    expect(() => saga("a b", { name: "S" })).toThrow("must match");
    expect(() => saga("s", { name: "S", input, uncheckedInput: input })).toThrow("give one of them");
  });

  it("may type its inputs without a check: the document has no schema", () => {
    const value = saga("s", { name: "S", uncheckedInput: input }).end(({ inputs }) => inputs.n);
    expect(value.toJSON()).not.toHaveProperty("input_schema");
    expect(rehearse(value.toJSON(), { inputs: INPUTS }).output).toBe(7);
  });

  it("is immutable: two sagas may begin with the same chain", () => {
    const common = begun().noop("first");
    const [one, two] = [common.noop("one").end(), common.noop("two").end()];
    expect([one, two].map((value) => stepsOf(value).map(({ id }) => id))).toEqual([
      ["first", "one", "end"],
      ["first", "two", "end"],
    ]);
  });
});

/** What an `end` gives, as the machine computes it. */
const given = (value: Saga, inputs: Record<string, unknown> = INPUTS) =>
  rehearse(value.toJSON(), { inputs: inputs as never }).output;

describe("a value in a definition", () => {
  const NASTY = [
    "${inputs.n}",
    "$${x}",
    "a}b{",
    `"quoted" and 'single'`,
    "back\\slash",
    "line\nbreak",
    "😀 ${",
    "$",
    "19.99 €",
    "",
  ];

  it.each(NASTY)("stays what it is in a template: %j", (nasty) => {
    expect(given(begun().end({ nasty, list: [nasty, null, 1.5, true, []] }))).toEqual({
      nasty,
      list: [nasty, null, 1.5, true, []],
    });
  });

  it.each(NASTY)("stays what it is in an expression, and in a text: %j", (nasty) => {
    const value = begun().end(({ inputs }) => ({
      of: cel`${{ k: [nasty, inputs.n] }}`,
      text: text`${nasty}${inputs.n}`,
    }));
    expect(given(value)).toEqual({ of: { k: [nasty, 7] }, text: `${nasty}7` });
  });

  it("numbers keep their value", () => {
    const numbers = [0, -1, 2.5, 1e21, 9007199254740991, 1e-7];
    expect(given(begun().end(cel`${numbers}`))).toEqual(numbers);
    expect(() => cel`${Number.NaN}`).toThrow("NaN is no JSON value");
    expect(() => begun().end({ n: Number.POSITIVE_INFINITY })).toThrow("end.output.n is Infinity");
    expect(() => cel`${"\ud83d"}`).toThrow("surrogate");
  });

  it("an expression is written as its author wrote it, with parentheses where it is a part of another one", () => {
    const written = (value: unknown) => begun().end({ value: value as never });
    const cases = [
      [cel`inputs.n == 7 || "a" != 'b'`, "inputs.n == 7 || \"a\" != 'b'", true],
      [cel`("a)" + "(b")`, '("a)" + "(b")', "a)(b"],
      [cel`(1 + 2) * (3 + 4)`, "(1 + 2) * (3 + 4)", 21],
      [cel`${cel`1 + 2`} * 2`, "(1 + 2) * 2", 6],
      [cel<number>`${cel`1 + 2`}`, "1 + 2", 3],
      [cel<{ a: number[] }>`{"a": [7]}`.a[0], '({"a": [7]}).a[0]', 7],
    ] as const;
    for (const [value, source, result] of cases) {
      expect(stepsOf(written(value))[0]?.output).toEqual({ value: `\${${source}}` });
      expect(given(written(value))).toEqual({ value: result });
    }
  });

  it("names that need it are quoted, and lists are indexed", () => {
    const odd = Type.Object({ "a-b": Type.Object({ in: Type.Array(Type.Array(Type.String())) }), é: Type.String() });
    const value = saga("s", { name: "S", input: odd })
      .transform("step-1", 5)
      .end(({ inputs, steps }) => ({
        ...{ deep: inputs["a-b"].in[0][1], e: inputs["é"], step: steps["step-1"], at: at(at(inputs["a-b"].in, 0), 1) },
      }));
    expect(stepsOf(value)[1]?.output).toHaveProperty("deep", '${inputs["a-b"]["in"][0][1]}');
    expect(given(value, { "a-b": { in: [["x", "y"]] }, é: "z" })).toEqual({ deep: "y", e: "z", step: 5, at: "y" });
  });

  it("what may be missing has another value, or a test", () => {
    const value = begun().end(({ inputs }) => ({ note: orElse(inputs.note, "none"), there: has(inputs.note) }));
    expect(given(value)).toEqual({ note: "none", there: false });
    expect(given(value, { ...INPUTS, note: "x" })).toEqual({ note: "x", there: true });
  });

  it("money: a dollar sign before an amount stays one, and one whole text stays text", () => {
    const value = begun().end(({ inputs }) => ({ price: text`US$${inputs.n}`, only: text`${inputs.n}` }));
    expect(given(value)).toEqual({ price: "US$7", only: "7" });
  });

  it("a reference has no value yet: using it as one says what to write", () => {
    expect(() => begun().log("l", ({ inputs }) => `n is ${inputs.n}`)).toThrow(
      "inputs.n has no value yet: write text`",
    );
  });
});
