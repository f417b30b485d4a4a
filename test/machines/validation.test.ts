// Validation: all problems of a definition at once, each with its JSON path and a message; and the warnings.

import { describe, expect, it } from "vitest";
import { Place } from "../../machines/attribute/problem.js";
import { scopeNames } from "../../machines/definition/names.js";
import { type CompileOptions, compileWorkflow } from "../../machines/index.js";
import { STEP_TYPES } from "../../machines/steps/index.js";

const HEAD = { id: "wf", name: "Test", start: "a" };
const noop = (id: string, more: object = {}) => ({ id, type: "noop", ...more });
const step = (type: string, more: object = {}) => ({ id: "a", type, ...more });

/** A valid workflow with these steps. `head` overrides members of its head. */
const wf = (steps: unknown, head: object = {}) => ({ ...HEAD, steps, ...head });
const parsed = (json: string) => JSON.parse(json) as unknown;

const lines = (document: unknown, options?: CompileOptions) => {
  const { problems } = compileWorkflow(document, options);
  return problems.map(({ path, message }) => `${path}: ${message}`);
};
const warningsOf = (document: unknown, options?: CompileOptions) => {
  const { problems, warnings } = compileWorkflow(document, options);
  expect(problems).toEqual([]);
  return warnings.map(({ path, message }) => `${path}: ${message}`);
};

const ID = "must be 1 to 128 of A-Z a-z 0-9 _ . : -";

/** The kind of problem, the document, and all its problems. */
const MALFORMED: readonly (readonly [what: string, document: unknown, problems: readonly string[]])[] = [
  // The document
  ["no object", null, ["$: must be an object"]],
  ["a list", [wf([noop("a")])], ["$: must be an object"]],
  ["nothing in it", {}, ["$.id: is required", "$.name: is required", "$.start: is required", "$.steps: is required"]],
  ["an unknown field", wf([noop("a")], { colour: 1 }), ["$.colour: is unknown"]],
  ["an unknown field with blanks", wf([noop("a")], { "my field": 1 }), ['$["my field"]: is unknown']],
  ["an id with a blank", wf([noop("a")], { id: "a b" }), [`$.id: ${ID}`]],
  ["an id that is too long", wf([noop("a")], { id: "x".repeat(129) }), [`$.id: ${ID}`]],
  ["the id __proto__", wf([noop("a")], { id: "__proto__" }), ["$.id: must not be __proto__"]],
  ["a number for a name", wf([noop("a")], { name: 7 }), ["$.name: must be a string"]],
  ["version 0", wf([noop("a")], { version: 0 }), ["$.version: must be at least 1"]],
  ["a version with a fraction", wf([noop("a")], { version: 1.5 }), ["$.version: must be a whole number"]],
  ["a version as text", wf([noop("a")], { version: "1" }), ["$.version: must be a number"]],
  ["a version that is a template", wf([noop("a")], { version: "${1}" }), ["$.version: must be a number"]],
  ["a timeout that is a template", wf([noop("a")], { timeout_ms: "${1}" }), ["$.timeout_ms: must be a number"]],
  ["published as text", wf([noop("a")], { published: "yes" }), ["$.published: must be true or false"]],
  ["a timeout of 0", wf([noop("a")], { timeout_ms: 0 }), ["$.timeout_ms: must be at least 1"]],
  ["a timeout of a century", wf([noop("a")], { timeout_ms: 4e12 }), ["$.timeout_ms: must be at most 316224000000"]],
  [
    "an input schema that is a list",
    wf([noop("a")], { input_schema: [] }),
    ["$.input_schema: must be an object (a JSON Schema)"],
  ],
  ["U+0000 in it", wf([noop("a")], { name: "a\u0000" }), ["$.name: contains U+0000"]],
  [
    "a lone surrogate in it",
    wf([noop("a"), step("log", { id: "b", message: "\ud83d" })]),
    ["$.steps[1].message: contains a lone surrogate"],
  ],
  // Steps
  ["steps as an object", wf({ a: noop("a") }), ["$.steps: must be a list"]],
  ["no steps", wf([]), ["$.steps: must have at least 1 item"]],
  ["a step that is text", wf([noop("a"), "b"]), ["$.steps[1]: must be an object"]],
  ["a step without id and type", wf([noop("a"), {}]), ["$.steps[1].id: is required", "$.steps[1].type: is required"]],
  ["a step's id of another alphabet", wf([noop("a"), noop("é")]), [`$.steps[1].id: ${ID}`]],
  ["the step id constructor", wf([noop("a"), noop("constructor")]), ["$.steps[1].id: must not be constructor"]],
  [
    "__proto__ as a member",
    wf([parsed('{"id": "a", "type": "noop", "__proto__": {"when": "1"}}')]),
    ["$.steps[0].__proto__: is not an attribute of the step type noop"],
  ],
  [
    "a type that nobody knows",
    wf([step("nonsense")]),
    ['$.steps[0].type: there is no step type "nonsense" in this release'],
  ],
  [
    "a type of the prototype",
    wf([step("constructor")]),
    ['$.steps[0].type: there is no step type "constructor" in this release'],
  ],
  ["a type that is no text", wf([step(7 as unknown as string)]), ["$.steps[0].type: must be a string"]],
  ["two steps of one id", wf([noop("a"), noop("b"), noop("a")]), ['$.steps[2].id: there is another step "a"']],
  [
    "an unknown attribute",
    wf([noop("a", { timeout: 3 })]),
    ["$.steps[0].timeout: is not an attribute of the step type noop"],
  ],
  [
    "an attribute of another type",
    wf([noop("a", { action: "a.b" })]),
    ["$.steps[0].action: is not an attribute of the step type noop"],
  ],
  [
    "a retry where nothing is retried",
    wf([step("transform", { expression: "1", retry: {} })]),
    ["$.steps[0].retry: is not an attribute of the step type transform"],
  ],
  [
    "nested attributes that nobody knows",
    wf([step("log", { inputs: { message: "m", colour: 1 } })]),
    ["$.steps[0].inputs.colour: is not an attribute of the step type log"],
  ],
  [
    "nested attributes in a list",
    wf([step("log", { message: "m", inputs: [] })]),
    ["$.steps[0].inputs: must be an object"],
  ],
  [
    "a nested attribute at fault",
    wf([step("log", { inputs: { message: 1 } })]),
    ["$.steps[0].inputs.message: must be a string"],
  ],
  [
    "a common attribute nested",
    wf([step("log", { inputs: { message: "m", when: "true" } })]),
    ["$.steps[0].inputs.when: is not an attribute of the step type log"],
  ],
  ["next on an end", wf([step("end", { next: "b" }), noop("b")]), ["$.steps[0].next: a step of type end has no next"]],
  [
    "next on an error",
    wf([step("error", { next: "b" }), noop("b")]),
    ["$.steps[0].next: a step of type error has no next"],
  ],
  // Targets
  ["a start that is nowhere", wf([noop("b")]), ['$.start: there is no step "a"']],
  [
    "an entrypoint that is nowhere",
    wf([noop("a")], { entrypoints: { again: "b" } }),
    ['$.entrypoints.again: there is no step "b"'],
  ],
  [
    "an entrypoint named __proto__",
    { ...wf([noop("a")]), entrypoints: parsed('{"__proto__": "a"}') },
    ["$.entrypoints.__proto__: must not be __proto__"],
  ],
  [
    "a default that is not start",
    wf([noop("a"), noop("b")], { entrypoints: { default: "b" } }),
    ["$.entrypoints.default: default is always start"],
  ],
  ["entrypoints as a list", wf([noop("a")], { entrypoints: ["a"] }), ["$.entrypoints: must be an object"]],
  ["a next that is nowhere", wf([noop("a", { next: "b" })]), ['$.steps[0].next: there is no step "b"']],
  [
    "an on_error that is nowhere",
    wf([noop("a", { on_error: "retry" })]),
    ['$.steps[0].on_error: there is no step "retry"'],
  ],
  [
    "a branch that is nowhere",
    wf([step("decision", { expression: "1", branches: { "x y": { next: "b" } } })]),
    ['$.steps[0].branches["x y"].next: there is no step "b"'],
  ],
  [
    "a case and a default that are nowhere",
    wf([step("switch", { cases: [{ when: "true", next: "b" }], default: "c" })]),
    ['$.steps[0].cases[0].next: there is no step "b"', '$.steps[0].default: there is no step "c"'],
  ],
  [
    "a timeout's target that is nowhere",
    wf([step("wait_for_signal", { signal_name: "go", on_timeout: "b" })]),
    ['$.steps[0].on_timeout: there is no step "b"'],
  ],
  // Expressions
  [
    "CEL that does not parse",
    wf([step("transform", { expression: "1 + " })]),
    [expect.stringMatching(/^\$\.steps\[0\]\.expression: .+ \(at character \d+\)$/) as unknown as string],
  ],
  [
    "CEL that is empty",
    wf([noop("a", { when: " " })]),
    ["$.steps[0].when: an expression is expected (at character 1)"],
  ],
  ["CEL that is a boolean", wf([noop("a", { when: true })]), ["$.steps[0].when: must be a CEL expression (a string)"]],
  [
    "a function that nobody knows",
    wf([step("assert", { condition: "today() > 1" })]),
    [expect.stringMatching(/^\$\.steps\[0\]\.condition: .*today/) as unknown as string],
  ],
  [
    "a template that is not closed",
    wf([step("log", { message: "n is ${inputs.n" })]),
    ["$.steps[0].message: a template is not closed (at character 6)"],
  ],
  [
    "a template deep in a value",
    wf([step("end", { output: { list: [1, { x: "${)}" }] } })]),
    [expect.stringMatching(/^\$\.steps\[0\]\.output: list\[1\]\.x: .+ \(at character 3\)$/) as unknown as string],
  ],
  [
    "__proto__ in a template",
    wf([step("end", { output: parsed('{"__proto__": "${1}"}') })]),
    ['$.steps[0].output: "__proto__" is not allowed as a member name in a template'],
  ],
  [
    "a number that is half a template",
    wf([step("wait_duration", { duration_ms: "1${2}" })]),
    ["$.steps[0].duration_ms: must be a number"],
  ],
  [
    "an action's name without a dot",
    wf([step("action", { action: "charge" })]),
    ['$.steps[0].action: must be "service.name" or "service.name@version"'],
  ],
  [
    "a compensation whose action has no dot",
    wf([noop("a", { compensation: { action: "refund" } })]),
    ['$.steps[0].compensation.action: must be "service.name" or "service.name@version"'],
  ],
  [
    "a compensation's inputs that do not parse",
    wf([noop("a", { compensation: { action: "shop.refund", inputs: { id: "${output." } } })]),
    ["$.steps[0].compensation.inputs: id: a template is not closed (at character 1)"],
  ],
  [
    "a signal's name with a blank",
    wf([step("wait_for_signal", { signal_name: "pay now" })]),
    [`$.steps[0].signal_name: ${ID}`],
  ],
  [
    "a retry without its members, and with others",
    wf([step("action", { action: "a.b", retry: { times: 3 } })]),
    [
      "$.steps[0].retry.times: is unknown",
      "$.steps[0].retry.max_attempts: is required",
      "$.steps[0].retry.initial_backoff_ms: is required",
    ],
  ],
  [
    "a retry of no attempts, and backwards",
    wf([
      step("action", { action: "a.b", retry: { max_attempts: 0, initial_backoff_ms: -1, multiplier: 0.5, jitter: 1 } }),
    ]),
    [
      "$.steps[0].retry.max_attempts: must not be 0",
      "$.steps[0].retry.initial_backoff_ms: must be at least 0",
      "$.steps[0].retry.multiplier: must be at least 1",
      "$.steps[0].retry.jitter: must be true or false",
    ],
  ],
  [
    "codes that are no texts",
    wf([
      step("action", {
        action: "a.b",
        retry: { max_attempts: 2, initial_backoff_ms: 1, non_retryable_codes: ["a", 1] },
      }),
    ]),
    ["$.steps[0].retry.non_retryable_codes[1]: must be a string"],
  ],
  [
    "a decision with both, and one with inputs for no rule",
    wf([
      step("decision", { expression: "1", rule_id: "r", branches: { b: { next: "b" } } }),
      { id: "b", type: "decision", expression: "1", rule_inputs: {}, branches: { a: { next: "a" } } },
    ]),
    ["$.steps[0]: needs either expression or rule_id", "$.steps[1].rule_inputs: goes with rule_id"],
  ],
  [
    "sources that are no list of CEL",
    wf([step("merge", { sources: ["inputs", "1 +", {}], strategy: "wide" })]),
    [
      expect.stringMatching(/^\$\.steps\[0\]\.sources\[1\]: .+ \(at character \d+\)$/) as unknown as string,
      "$.steps[0].sources[2]: must be a CEL expression (a string)",
      "$.steps[0].strategy: must be one of shallow, deep",
    ],
  ],
  [
    "a list without a condition, and one without a value",
    wf([step("filter", { items: "[]" }), { id: "b", type: "map", items: "[]" }]),
    ["$.steps[0].condition: is required", "$.steps[1]: needs either expression or template"],
  ],
  [
    "a counter that falls, without a name",
    wf([step("metric_emit", { name: "", value: -1 })]),
    ["$.steps[0].name: must have 1 to 128 characters", "$.steps[0].value: must not be negative: a counter only grows"],
  ],
  [
    "a variable that would reach a prototype",
    wf([step("set_var", { variables: parsed('{"__proto__": 1, "x": "${"}') })]),
    [
      "$.steps[0].variables.__proto__: must not be __proto__",
      "$.steps[0].variables.x: a template is not closed (at character 1)",
    ],
  ],
  [
    "a compensation that is a name",
    wf([noop("a", { compensation: "shop.refund" })]),
    ["$.steps[0].compensation: must be an object"],
  ],
];

describe("malformed definitions", () => {
  it.each(MALFORMED)("%s", (_, document, problems) => {
    expect(lines(document)).toEqual(problems);
    expect(compileWorkflow(document).program).toBeUndefined();
  });

  it("there are at least forty of them, and each is of a kind of its own", () => {
    expect(MALFORMED.length).toBeGreaterThanOrEqual(40);
    expect(new Set(MALFORMED.map(([what]) => what)).size).toBe(MALFORMED.length);
  });
});

describe("faults", () => {
  it("the language has its thirty-two step types, and any other is refused with a sentence that says so", () => {
    expect(STEP_TYPES.size).toBe(32);
    for (const type of ["wait_for_rain", "constructor"])
      expect(lines(wf([step(type)])), type).toEqual([
        `$.steps[0].type: there is no step type "${type}" in this release`,
      ]);
  });

  it("all problems are listed at once: of the head, of several steps, of the graph, of a step's own rules", () => {
    const document = wf(
      [
        noop("a", { next: "nowhere", colour: 1 }),
        step("transform", { id: "b", expression: "1 +", template: 1 }),
        step("set_var", { id: "c d", name: "x" }),
        noop("e", { on_error: "gone" }),
        noop("e", { next: "b" }),
      ],
      { name: undefined, version: 0, start: "z", entrypoints: { other: "y" } },
    );
    expect(lines(JSON.parse(JSON.stringify(document))).sort()).toEqual(
      [
        "$.name: is required",
        "$.version: must be at least 1",
        '$.start: there is no step "z"',
        '$.entrypoints.other: there is no step "y"',
        "$.steps[0].colour: is not an attribute of the step type noop",
        '$.steps[0].next: there is no step "nowhere"',
        "$.steps[1].expression: unexpected end, a value is expected (at character 4)",
        `$.steps[2].id: ${ID}`,
        "$.steps[2]: needs both name and value",
        '$.steps[3].on_error: there is no step "gone"',
        '$.steps[4].id: there is another step "e"',
      ].sort(),
    );
  });

  it("an edge to a faulty step is no second problem", () => {
    expect(lines(wf([noop("a", { next: "b" }), step("log", { id: "b" })]))).toEqual([
      "$.steps[1].message: is required",
    ]);
  });

  it("every attribute of every type reports a bad value at its own place, flat and nested", () => {
    for (const { name: type, attributes } of STEP_TYPES.values())
      for (const [name, { kind }] of Object.entries(attributes)) {
        if (kind.parse([[]], Place.of("$")) !== undefined) continue; // Takes any value.
        const nests = !Object.hasOwn(attributes, "inputs");
        const at = (place: string, document: object) =>
          expect(
            lines(wf([step(type, document)])).filter((line) => line.startsWith(`$.steps[0]${place}`)),
            `${type}.${name}`,
          ).not.toEqual([]);
        at(`.${name}`, { [name]: [[]] });
        if (nests) at(`.inputs.${name}`, { inputs: { [name]: [[]] } });
      }
  });
});

describe("limits", () => {
  const chain = (count: number) =>
    Array.from({ length: count }, (_, index) =>
      noop(index === 0 ? "a" : `s${index}`, index === count - 1 ? {} : { next: `s${index + 1}` }),
    );

  it("a thousand steps pass, one more is refused", () => {
    expect(lines(wf(chain(1_000)))).toEqual([]);
    expect(lines(wf(chain(1_001)))).toEqual(["$.steps: must have at most 1000 items"]);
  });

  it("a hundred ways out of a step pass, one more is refused", () => {
    const decision = (count: number) =>
      step("decision", {
        expression: "1",
        branches: Object.fromEntries(Array.from({ length: count }, (_, index) => [`b${index}`, { next: "b" }])),
      });
    expect(lines(wf([decision(100), noop("b")]))).toEqual([]);
    expect(lines(wf([decision(101), noop("b")]))).toEqual(["$.steps[0]: must have at most 100 branches"]);
  });

  it("the limits are parameters; a stored definition is not held to them", () => {
    expect(lines(wf(chain(3)), { limits: { steps: 2, branches: 1 } })).toEqual(["$.steps: must have at most 2 items"]);
    expect(lines(wf(chain(1_001)), { limits: null })).toEqual([]);
  });

  it("faults that quote the document quote a bounded part of it", () => {
    const long = "x".repeat(100_000);
    for (const document of [wf([step(long)]), wf([noop("a", { next: long })]), wf([noop(long), noop(long)])])
      for (const line of lines(document)) expect(line.length).toBeLessThan(300);
  });
});

describe("warnings", () => {
  it("steps that cannot be reached; every way in and out counts", () => {
    const steps = [
      noop("a", { on_error: "b" }),
      noop("b"),
      step("switch", { id: "c", cases: [{ when: "true", next: "d" }] }),
      noop("d"),
      noop("e"),
      noop("f", { next: "e" }),
    ];
    expect(warningsOf(wf(steps, { entrypoints: { other: "c" } }))).toEqual([
      '$.steps[4]: the step "e" cannot be reached',
      '$.steps[5]: the step "f" cannot be reached',
    ]);
  });

  it("vars.step-1 is a subtraction", () => {
    const comparing = (when: string) =>
      wf([noop("a", { when, next: "b" }), step("set_var", { id: "b", variables: { step: 1, "step-1": 2 } })]);
    const [warning, ...others] = warningsOf(comparing("vars.step-1 == 2"));
    expect(warning).toMatch(/^\$\.steps\[0\]\.when: .*vars\["step-1"\]/);
    expect(others).toEqual([]);
    expect(warningsOf(comparing('vars["step-1"] == 2'))).toEqual([]);
  });

  it("a name that no scope has; those that a step gives to its block are names", () => {
    const document = wf([
      noop("a", { when: "input.amount > 1 && vars.x", next: "b" }),
      step("log", { id: "b", message: "${output} ${item} ${now}", fields: { list: ["${varz.y}"] } }),
    ]);
    expect(warningsOf(document)).toEqual([
      '$.steps[0].when: there is no name "input" in any scope (did you mean "inputs"?)',
      "$.steps[0].when: nothing in this definition sets vars.x",
      '$.steps[1].fields: there is no name "varz" in any scope (did you mean "vars"?)',
    ]);
    expect(warningsOf(wf([noop("a", { when: "[1].all(x, x > 0) && type(1) == int" })]))).toEqual([]);
    expect([
      ...(scopeNames(wf([step("foreach", { item_var: "line", inputs: { index_var: "n" } })]), STEP_TYPES) ?? []),
    ]).toEqual(expect.arrayContaining(["line", "n", "inputs", "vars"]));
  });

  it("a tenant that no run can have; a UUID is one however its digits are written", () => {
    const of = (tenant_id: string) => wf([noop("a")], { tenant_id });
    expect(warningsOf(of("acme"))).toEqual(["$.tenant_id: no run can have this tenant: it is not a UUID"]);
    const tenant = "0190A000-0000-7000-8000-0000000000AA";
    expect(warningsOf(of(tenant))).toEqual([]);
    expect(compileWorkflow(of(tenant)).program?.tenantId).toBe(tenant.toLowerCase());
  });

  it("a rule that is not published, if its name is known", () => {
    const rule = (ruleId: string) => (ruleId === "there" ? {} : undefined);
    const decide = (rule_id: string) => wf([step("decision", { rule_id, branches: { a: { next: "a" } } })]);
    expect(warningsOf(decide("gone"), { rule })).toEqual(["$.steps[0].rule_id: the rule gone is not published"]);
    for (const known of ["there", "${inputs.rule}"]) expect(warningsOf(decide(known), { rule })).toEqual([]);
    expect(warningsOf(decide("gone"))).toEqual([]);
  });

  type Registered = NonNullable<ReturnType<NonNullable<CompileOptions["action"]>>>;
  const registered: Record<string, Partial<Registered>> = {
    "shop.charge": { compensable: true },
    "shop.refund": { compensable: false },
    "shop.old": { compensable: false, deprecated: true },
  };
  const action: CompileOptions["action"] = (service, name) => {
    const found = registered[`${service}.${name}`];
    return found && ({ service, name, version: 1, ...found } as Registered);
  };
  const actionStep = (name: string, compensation?: string) =>
    wf([step("action", { action: name, ...(compensation && { compensation: { action: compensation } }) })]);

  it.each([
    ["a sound action", actionStep("shop.charge", "shop.refund"), []],
    [
      "one that is not registered",
      actionStep("shop.gone"),
      ["$.steps[0].action: the action shop.gone is not registered, or deprecated in every version"],
    ],
    [
      "a compensation that is not registered",
      actionStep("shop.charge", "shop.gone"),
      ["$.steps[0].compensation.action: the action shop.gone is not registered, or deprecated in every version"],
    ],
    ["one that is deprecated", actionStep("shop.old"), ["$.steps[0].action: the action shop.old is deprecated"]],
    [
      "a compensation that is deprecated",
      actionStep("shop.charge", "shop.old"),
      ["$.steps[0].compensation.action: the action shop.old is deprecated"],
    ],
    [
      "a compensable action without a compensation",
      actionStep("shop.charge"),
      ["$.steps[0]: the action shop.charge is compensable, but the step has no compensation"],
    ],
    [
      "a compensation of what is not compensable",
      actionStep("shop.refund", "shop.refund"),
      ["$.steps[0]: the action shop.refund is registered as not compensable"],
    ],
    ["a name that is known at run time only", actionStep("${inputs.name}", "${inputs.undo}"), []],
  ])("%s", (_, document, expected) => {
    expect(warningsOf(document, { action })).toEqual(expected);
    expect(warningsOf(document), "without registrations there is nothing to warn about").toEqual([]);
  });
});

describe("documents and schemas", () => {
  it("a valid definition keeps its document as it was posted, and gets the version under which it is stored", () => {
    const document = wf([step("log", { inputs: { message: "m" }, title: "T" })], { version: 3, description: "d" });
    expect(compileWorkflow(document).program).toMatchObject({ document, version: 3, workflowId: "wf" });
    expect(compileWorkflow(document, { version: 9 }).program?.version).toBe(9);
    expect(compileWorkflow(wf([noop("a")])).program?.version).toBe(1);
  });

  it("migrations name steps of the definition, by an earlier version", () => {
    const of = (migrations: object) =>
      lines(wf([noop("first", { next: "second" }), noop("second")], { start: "first", migrations }));
    expect(of({ 1: { begin: "first" }, 12: {} })).toEqual([]);
    expect(of({ 1: { begin: "frist", end: "second" } })).toEqual([
      '$.migrations["1"].begin: there is no step "frist" (did you mean "first"?)',
    ]);
    const version = "must be a version: an integer from 1";
    expect(of({ 0: {}, "1.5": {}, one: {} })).toEqual([
      `$.migrations["0"]: ${version}`,
      `$.migrations["1.5"]: ${version}`,
      `$.migrations.one: ${version}`,
    ]);
    expect(of({ 1: { begin: 7 } })).toEqual(['$.migrations["1"].begin: must be a string']);
  });

  it("the problems of the input schema itself are reported at its place, with all others", () => {
    const schemaProblems = () => ["type must be a string"];
    expect(lines(wf([noop("a", { next: "b" })], { input_schema: { type: 1 } }), { schemaProblems })).toEqual([
      '$.steps[0].next: there is no step "b"',
      "$.input_schema: type must be a string",
    ]);
  });

  it("the problems of a step's schema itself are reported at its place, flat or nested", () => {
    const schemaProblems = ({ type }: { type?: unknown }) => (type === 1 ? ["type must be a string"] : []);
    const form_schema = { type: 1 };
    const document = wf([
      step("collect_input", { assignee: "ann", form_schema, next: "b" }),
      noop("b", { type: "manual_approval", inputs: { assignee: "ann", form_schema }, next: "c" }),
      noop("c", { type: "collect_input", assignee: "ann", form_schema: { type: "object" } }),
    ]);
    expect(lines(document, { schemaProblems })).toEqual([
      "$.steps[0].form_schema: type must be a string",
      "$.steps[1].inputs.form_schema: type must be a string",
    ]);
  });

  it("cycles by next are allowed", () => {
    expect(lines(wf([noop("a", { next: "b" }), noop("b", { next: "a" })]))).toEqual([]);
  });
});
