// The review of definitions: each planted mistake is found with its code and its path, and nothing else is; what is right, or not known, is left alone.
import { describe, expect, it } from "vitest";
import { checkWorkflow, FINDING_CODES, knownOf } from "../../../machines/index.js";
import { document, findings, LISTED, type Step } from "./rig.js";

const noop = (id: string, more: object = {}): Step => ({ id, type: "noop", ...more });
const reserve = (more: object = {}): Step => ({
  ...{ id: "reserve", type: "action", action: "shop.reserve" },
  inputs: { sku: "${inputs.sku}", quantity: 1 },
  compensation: { action: "shop.release", inputs: { reservation: "${output.reservation}" } },
  ...more,
});
const notify = (inputs: unknown, more: object = {}): Step => ({
  id: "notify",
  type: "action",
  action: "shop.notify",
  inputs,
  ...more,
});
const wait = (more: object = {}): Step => ({
  id: "wait",
  type: "wait_for_signal",
  signal_name: "confirmed",
  timeout_ms: 1000,
  ...more,
});
const tried = (catching: object, ...body: readonly Step[]): readonly Step[] => [
  { id: "try", type: "try_catch", try: body[0]?.id, catch: "caught", ...catching },
  ...body,
  noop("caught"),
];
const forked = (join: object, ...ends: readonly Step[]): readonly Step[] => [
  {
    id: "fork",
    type: "parallel",
    branches: Object.fromEntries(ends.map(({ id }) => [id, { next: id }])),
    next: "join",
  },
  { id: "join", type: "join", ...join },
  ...ends,
];
const fail = (id: string): Step => ({ id, type: "error", code: "no" });

type Mistake = readonly [name: string, steps: readonly Step[], found: readonly string[], head?: object];

const MISTAKES: readonly Mistake[] = [
  ["a problem of the compiler", [noop("a", { next: "b" })], ["invalid $.steps[0].next"]],
  ["a compensable action without undo", [reserve({ compensation: undefined })], ["effect_without_undo $.steps[0]"]],
  [
    "a sub-saga whose children have no undo",
    [{ id: "sub", type: "sub_saga", workflow_id: "child", inputs: { sku: "a" } }],
    ["child_effect_without_undo $.steps[0].workflow_id"],
  ],
  [
    "an undo of what is not compensable",
    [notify({}, { compensation: { action: "shop.release", inputs: { reservation: "r" } } })],
    ["undo_not_compensable $.steps[0]"],
  ],
  [
    "undo inputs without a member that is required",
    [reserve({ compensation: { action: "shop.release", inputs: {} } })],
    ["undo_inputs $.steps[0].compensation.inputs"],
  ],
  [
    "undo inputs of another type",
    [reserve({ compensation: { action: "shop.release", inputs: { reservation: "${output.lines}" } } })],
    ["undo_inputs $.steps[0].compensation.inputs.reservation"],
  ],
  [
    "undo inputs that are left out where the undo wants its own",
    [reserve({ compensation: { action: "shop.release" } })],
    ["undo_inputs $.steps[0].compensation"],
  ],
  [
    "an undo that reads a member which the output rules out",
    [reserve({ compensation: { action: "shop.release", inputs: { reservation: "${output.id}" } } })],
    ["member_missing $.steps[0].compensation.inputs.reservation"],
  ],
  [
    "an undo that is compensable",
    [reserve({ compensation: { action: "shop.undoable" } })],
    ["undo_compensable $.steps[0].compensation.action"],
  ],
  [
    "a step that undoes itself",
    [{ id: "a", type: "action", action: "shop.undoable", compensation: { action: "shop.undoable" } }],
    ["undo_of_itself $.steps[0].compensation.action", "undo_compensable $.steps[0].compensation.action"],
  ],
  [
    "an undo of a step that never succeeds",
    [{ ...fail("no"), compensation: { action: "shop.notify", inputs: {} } }],
    ["undo_never $.steps[0].compensation"],
  ],
  [
    "on_undo_failure without an undo",
    [noop("a", { on_undo_failure: "incident" })],
    ["undo_policy_unused $.steps[0].on_undo_failure"],
  ],
  [
    "on_failure beside an on_error",
    [notify({}, { on_error: "continue", on_failure: "incident" })],
    ["failure_policy_unused $.steps[0].on_failure"],
  ],
  [
    "a literal of another type",
    [reserve({ inputs: { sku: "tea", quantity: "two" } })],
    ["template_misfit $.steps[0].inputs.quantity"],
  ],
  [
    "a literal out of bounds",
    [reserve({ inputs: { sku: "tea", quantity: 0 } })],
    ["template_misfit $.steps[0].inputs.quantity"],
  ],
  [
    "an input of the workflow of another type",
    [reserve({ inputs: { sku: "${inputs.quantity}", quantity: 1 } })],
    ["template_misfit $.steps[0].inputs.sku"],
  ],
  [
    "the output of a step of another type",
    [reserve({ next: "notify" }), notify({ count: "${vars.reserve.reservation}" })],
    ["template_misfit $.steps[1].inputs.count"],
  ],
  [
    "a text with a template where a number is due",
    [notify({ count: "${inputs.quantity} pieces" })],
    ["template_misfit $.steps[0].inputs.count"],
  ],
  ["a literal that is not in the enum", [notify({ mode: "phone" })], ["template_misfit $.steps[0].inputs.mode"]],
  [
    "an expression of another type",
    [notify({ count: "${size(inputs.sku) > 1}" })],
    ["template_misfit $.steps[0].inputs.count"],
  ],
  ["inputs that lack a member", [reserve({ inputs: { sku: "tea" } })], ["template_misfit $.steps[0].inputs"]],
  ["inputs that are left out", [reserve({ inputs: undefined })], ["template_misfit $.steps[0].inputs"]],
  [
    "inputs with a member too many",
    [reserve({ inputs: { sku: "tea", quantity: 1, colour: "red" } })],
    ["template_misfit $.steps[0].inputs.colour"],
  ],
  ["inputs that are no object", [notify("${inputs.sku}")], ["template_misfit $.steps[0].inputs"]],
  [
    "inputs of a sub-saga that do not fit",
    [
      {
        id: "sub",
        type: "sub_saga",
        workflow_id: "child",
        inputs: {},
        compensation: { action: "shop.notify", inputs: {} },
      },
    ],
    ["template_misfit $.steps[0].inputs"],
  ],
  [
    "a member that the input schema rules out",
    [notify({ to: "${inputs.colour}" })],
    ["member_missing $.steps[0].inputs.to"],
  ],
  ["a member of a text", [notify({ to: "${inputs.sku.name}" })], ["member_missing $.steps[0].inputs.to"]],
  [
    "items that are no list",
    [{ id: "f", type: "filter", items: "inputs.sku", condition: "item > index" }],
    ["template_misfit $.steps[0].items"],
  ],
  [
    "a signal that nothing can wait for",
    [{ id: "s", type: "emit_signal", run_id: "${run.id}", signal_name: "user_task.1" }],
    ["signal_name $.steps[0].signal_name"],
  ],
  [
    "a signal with a payload that does not fit",
    [{ id: "s", type: "emit_signal", run_id: "${run.id}", signal_name: "confirmed", payload: { by: 7 } }],
    ["signal_payload $.steps[0].payload.by"],
  ],
  ["a variable that nothing sets", [noop("a", { when: "vars.gone > 1" })], ["variable_unset $.steps[0].when"]],
  [
    "a variable that a later step sets",
    [noop("a", { when: "vars.b > 1", next: "b" }), { id: "b", type: "transform", expression: "inputs.quantity" }],
    ["variable_unset_here $.steps[0].when"],
  ],
  [
    "a variable of a branch, behind its join",
    forked({ next: "after" }, { id: "left", type: "transform", expression: "inputs.sku" }, noop("right")).concat(
      noop("after", { when: "vars.left == 'a'" }),
    ),
    ["variable_unset_here $.steps[4].when"],
  ],
  ["a name that no scope has", [noop("a", { when: "input.sku == ''" })], ["name_unknown $.steps[0].when"]],
  [
    "a subtraction that means an id",
    [
      noop("a", { when: "vars.step-1 > 0", next: "step-1" }),
      { id: "step", type: "transform", expression: "inputs.quantity", next: "a" },
      noop("step-1"),
    ],
    ["expression_doubt $.steps[0].when", "step_unreachable $.steps[1]"],
  ],
  ["a when that never holds", [noop("a", { when: "1 > 2" })], ["condition_constant $.steps[0].when"]],
  [
    "a case above others that always holds",
    [
      {
        id: "s",
        type: "switch",
        cases: [
          { when: "true", next: "a" },
          { when: "inputs.quantity > 1", next: "b" },
        ],
      },
      noop("a"),
      noop("b"),
    ],
    ["condition_constant $.steps[0].cases[0].when"],
  ],
  [
    "an assertion that checks nothing",
    [{ id: "a", type: "assert", condition: "1 < 2" }],
    ["condition_constant $.steps[0].condition"],
  ],
  ["a step that nothing leads to", [noop("a"), noop("b")], ["step_unreachable $.steps[1]"]],
  [
    "an on_timeout without a time limit",
    [wait({ timeout_ms: undefined, on_timeout: "late" }), noop("late")],
    ["way_never $.steps[0].on_timeout"],
    { timeout_ms: 5000 },
  ],
  [
    "a next beside a default",
    [
      { id: "s", type: "switch", cases: [{ when: "inputs.quantity > 1", next: "a" }], default: "a", next: "b" },
      noop("a"),
      noop("b"),
    ],
    ["way_never $.steps[0].next"],
  ],
  ["a wait without a time limit", [wait({ timeout_ms: undefined })], ["wait_without_timeout $.steps[0]"]],
  [
    "a task without a time limit",
    [{ id: "t", type: "collect_input", assignee: "ann", form_schema: {} }],
    ["wait_without_timeout $.steps[0]"],
  ],
  [
    "a wait that is longer than the run",
    [wait({ timeout_ms: 5000 })],
    ["timeout_never $.steps[0].timeout_ms"],
    { timeout_ms: 5000 },
  ],
  [
    "a pause that is longer than the try around it",
    tried({ timeout_ms: 1000 }, { id: "p", type: "wait_duration", duration: "PT2S" }),
    ["timeout_never $.steps[1].duration"],
  ],
  [
    "a heartbeat that is not shorter than the attempt",
    [notify({}, { timeout_ms: 1000, heartbeat_timeout_ms: 1000 })],
    ["heartbeat_never $.steps[0].heartbeat_timeout_ms"],
  ],
  [
    "a heartbeat that is longer than the registration's timeout",
    [notify({}, { heartbeat_timeout_ms: 6000 })],
    ["heartbeat_never $.steps[0].heartbeat_timeout_ms"],
  ],
  [
    "retries that are longer than the run",
    [notify({}, { timeout_ms: 100, retry: { max_attempts: 4, initial_backoff_ms: 1000, jitter: false } })],
    ["retry_too_long $.steps[0].retry"],
    { timeout_ms: 7000 },
  ],
  [
    "a first backoff over the longest",
    [notify({}, { retry: { max_attempts: 4, initial_backoff_ms: 1000, max_backoff_ms: 10 } })],
    ["backoff_capped $.steps[0].retry.initial_backoff_ms"],
  ],
  [
    "steps that lead back to each other",
    [noop("a", { next: "b" }), noop("b", { next: "a" })],
    ["cycle_endless $.steps[0]"],
  ],
  [
    "a loop whose condition nothing changes",
    [{ id: "w", type: "while", condition: "inputs.quantity > 0", body: "b" }, noop("b")],
    ["loop_endless $.steps[0].condition"],
  ],
  [
    "a loop whose body sets another variable",
    [
      { id: "x", type: "set_var", name: "n", value: 3, next: "w" },
      { id: "w", type: "while", condition: "vars.n > 0", body: "b" },
      { id: "b", type: "set_var", name: "m", value: "${vars.n - 1}" },
    ],
    ["loop_endless $.steps[1].condition"],
  ],
  [
    "a loop that never begins",
    [{ id: "w", type: "while", condition: "false", body: "b" }, noop("b")],
    ["condition_constant $.steps[0].condition"],
  ],
  [
    "a saga that runs itself, whatever happens",
    [{ id: "sub", type: "sub_saga", workflow_id: "order", inputs: { sku: "a" } }],
    ["workflow_unknown $.steps[0].workflow_id", "saga_runs_itself $.steps[0]"],
  ],
  [
    "a saga that waits for itself",
    [{ id: "sub", type: "sub_saga", workflow_id: "order", when: "inputs.quantity > 1" }],
    ["workflow_unknown $.steps[0].workflow_id", "saga_waits_for_itself $.steps[0].workflow_id"],
    { concurrency: { key: "one", limit: 1 } },
  ],
  [
    "a count over the branches",
    forked({ mode: "count", count: 3 }, noop("left"), noop("right")),
    ["join_never $.steps[1].count"],
  ],
  ["a branch that always fails", forked({}, noop("left"), fail("right")), ["join_never $.steps[1].mode"]],
  ["branches that all fail", forked({ mode: "any" }, fail("left"), fail("right")), ["join_never $.steps[1].mode"]],
  [
    "an on_error of a parallel",
    forked({}, noop("left"), noop("right")).map((step) =>
      step.id === "fork" ? { ...step, on_error: "continue" } : step,
    ),
    ["on_error_ignored $.steps[0].on_error"],
  ],
  [
    "a catch of what nobody raises",
    tried({ errors: ["payment_*"] }, { id: "a", type: "assert", condition: "inputs.quantity > 1", code: "too_few" }),
    ["catch_never $.steps[0].errors"],
  ],
  [
    "a catch of steps that take their own errors",
    tried({}, notify({}, { on_error: "continue" })),
    ["catch_never $.steps[0].catch"],
  ],
  [
    "a catch chain that goes back to its try",
    tried({}, notify({})).map((step) => (step.id === "caught" ? { ...step, next: "try" } : step)),
    ["catch_returns $.steps[2].next"],
  ],
  [
    "an action that is not registered",
    [{ id: "a", type: "action", action: "shop.gone" }],
    ["action_unknown $.steps[0].action"],
  ],
  [
    "an action that is deprecated",
    [{ id: "a", type: "action", action: "shop.old@2" }],
    ["action_deprecated $.steps[0].action"],
  ],
  [
    "a rule that is not published",
    [{ id: "d", type: "decision", rule_id: "gone", branches: { default: { next: "a" } } }, noop("a")],
    ["rule_unknown $.steps[0].rule_id"],
  ],
  [
    "a branch that the rule does not know",
    [
      {
        id: "d",
        type: "decision",
        rule_id: "route",
        branches: { high: { next: "a" }, low: { next: "a" }, top: { next: "a" } },
      },
      noop("a"),
    ],
    ["rule_branch_never $.steps[0].branches.top"],
  ],
  [
    "an output of the rule without a branch",
    [{ id: "d", type: "decision", rule_id: "route", branches: { high: { next: "a" } } }, noop("a")],
    ["rule_branch_missing $.steps[0].branches"],
  ],
  [
    "a workflow that is not published",
    [{ id: "s", type: "spawn_saga", workflow_id: "gone" }],
    ["workflow_unknown $.steps[0].workflow_id"],
  ],
  [
    "an entrypoint that the workflow lacks",
    [{ id: "s", type: "spawn_saga", workflow_id: "clean", entrypoint: "back" }],
    ["entrypoint_unknown $.steps[0].entrypoint"],
  ],
  [
    "a mark where it marks nothing",
    [noop("a")],
    ["secret_unused $.input_schema.properties.a.not"],
    { input_schema: { properties: { a: { not: { "x-secret": true } } } } },
  ],
  ["a tenant that is no UUID", [noop("a")], ["tenant_impossible $.tenant_id"], { tenant_id: "acme" }],
];

/** Right, or nothing is known of it. */
const RIGHT: readonly (readonly [name: string, steps: readonly Step[], head?: object])[] = [
  [
    "a saga with undo, signals and a decision",
    [
      reserve({ next: "wait" }),
      wait({ next: "d" }),
      { id: "d", type: "decision", rule_id: "route", branches: { high: { next: "notify" }, low: { next: "notify" } } },
      notify({ to: "${vars.wait.by}" }),
    ],
  ],
  ["null where null is allowed", [notify({ to: "${inputs.note}" })]],
  ["a type that may fit", [notify({ to: "${inputs.note}", count: "${inputs.quantity}" })]],
  ["one of two ways that fits", [notify({ count: "${inputs.quantity > 1 ? 'many' : inputs.quantity}" })]],
  ["a member that the expression tests for", [notify({ to: "${has(inputs.colour) ? inputs.colour : null}" })]],
  ["a computed action, signal and workflow", [{ id: "a", type: "action", action: "${inputs.sku}", inputs: { x: 1 } }]],
  [
    "an output after on_error, which may be an error",
    [reserve({ on_error: "continue", next: "notify" }), notify({ count: "${vars.reserve.reservation}" })],
  ],
  [
    "a variable of two steps",
    [
      reserve({ save_as: "x", next: "t" }),
      { id: "t", type: "transform", save_as: "x", expression: "1 + size(inputs.sku)", next: "notify" },
      notify({ count: "${vars.x}" }),
    ],
  ],
  ["a loop that counts", [{ id: "w", type: "while", condition: "iteration < 3", body: "b" }, noop("b")]],
  [
    "a loop that its body ends",
    [
      { id: "w", type: "while", condition: "true", body: "b" },
      { id: "b", type: "switch", cases: [{ when: "iteration > 2", next: "e" }] },
      { id: "e", type: "end" },
    ],
  ],
  [
    "a cycle with a way out",
    [
      noop("a", { next: "s" }),
      { id: "s", type: "switch", cases: [{ when: "inputs.quantity > 1", next: "a" }], default: "z" },
      noop("z"),
    ],
  ],
  ["a wait in a try with a time limit", tried({ timeout_ms: 5000 }, wait({ timeout_ms: undefined }))],
  ["a wait in a run with a time limit", [wait({ timeout_ms: undefined })], { timeout_ms: 5000 }],
  ["a catch of a worker's code", tried({ errors: ["declined"] }, notify({}))],
  [
    "a saga that runs itself under a condition",
    [
      { id: "s", type: "switch", cases: [{ when: "inputs.quantity > 1", next: "sub" }], default: "z" },
      { id: "sub", type: "sub_saga", workflow_id: "${'or' + 'der'}" },
      noop("z"),
    ],
  ],
  ["a join that settles", forked({ mode: "all_settled" }, noop("left"), fail("right"))],
  [
    "the variables of a try, behind it",
    tried({ next: "after" }, { id: "t", type: "transform", expression: "inputs.sku" }).concat(
      noop("after", { when: "vars.t == 'a'" }),
    ),
  ],
  [
    "the error of a catch",
    tried({}, notify({})).map((step) => (step.id === "caught" ? { ...step, when: "vars.error.code == 'a'" } : step)),
  ],
  [
    "the variables of a round, in the next one",
    [
      { id: "w", type: "while", condition: "iteration == 0 || vars.b > 1", body: "b" },
      { id: "b", type: "transform", expression: "inputs.quantity" },
    ],
  ],
  [
    "attributes that are written inside inputs",
    [{ id: "f", type: "filter", inputs: { items: "[1, 2]", condition: "item > 1" } }],
  ],
];

describe("a planted mistake is found with its code and its path, and nothing else is", () => {
  it.each(MISTAKES.map(([name, steps, found, head]) => ({ name, steps, found, head })))(
    "$name",
    ({ steps, found, head }) => {
      expect(findings(steps, head)).toEqual(found);
    },
  );

  it("of every code there is one", () => {
    const met = new Set(MISTAKES.flatMap(([, , found]) => found.map((line) => line.split(" ")[0])));
    // A row of a rule is found in the rule, not in a workflow.
    const missing = Object.keys(FINDING_CODES).filter((code) => !met.has(code) && code !== "rule_row_never");
    expect(missing).toEqual([]);
    expect(MISTAKES.length).toBeGreaterThanOrEqual(30);
  });
});

describe("no finding is made of", () => {
  it.each(RIGHT.map(([name, steps, head]) => ({ name, steps, head })))("$name", ({ steps, head }) => {
    expect(findings(steps, head)).toEqual([]);
  });

  it("what nothing is known of", () => {
    const steps = [
      reserve({ inputs: {}, compensation: undefined, next: "sub" }),
      { id: "sub", type: "sub_saga", workflow_id: "gone" },
    ];
    expect(checkWorkflow(document(steps))).toEqual([]);
  });
});

describe("a finding", () => {
  it("names the step, and has the severity of its code and a message for people", () => {
    const [found] = checkWorkflow(document([reserve({ inputs: { sku: 1.5, quantity: 1 } })]), knownOf(LISTED));
    expect(found).toEqual({
      path: "$.steps[0].inputs.sku",
      step: "reserve",
      code: "template_misfit",
      severity: "error",
      message: "cannot fit the input schema of the action shop.reserve: is a number, and must be a string",
    });
  });

  it("about an attribute inside inputs has the path that the document has", () => {
    expect(findings([{ id: "f", type: "filter", inputs: { items: "inputs.sku", condition: "item > 1" } }])).toEqual([
      "template_misfit $.steps[0].inputs.items",
    ]);
  });
});
