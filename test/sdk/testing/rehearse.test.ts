// Rehearsals as users write them: mocks for what the outside does, and the end, the events and the undos that come of them.
import { describe, expect, it } from "vitest";
import { type Mocks, RehearsalError, type Rehearsed, rehearse } from "../../../src/sdk/define/testing/index.js";

const workflow = (steps: object[], more: object = {}) => ({ id: "w", name: "W", start: "a", steps, ...more });
const run = (steps: object[], mocks: Mocks = {}, inputs = {}) => rehearse(workflow(steps), { mocks, inputs });

const ORDER = [
  { id: "a", type: "action", action: "stock.reserve", compensation: { action: "stock.release" }, next: "charge" },
  { id: "charge", type: "action", action: "pay.charge", compensation: { action: "pay.refund" }, next: "ship" },
  { id: "ship", type: "action", action: "post.ship", retry: { max_attempts: 2, initial_backoff_ms: 1000 }, next: "e" },
  { id: "e", type: "end", output: "${vars.charge.id}" },
];

const undone = ({ events }: Rehearsed) =>
  events.filter(({ event_type: type, metadata }) => type === "step.succeeded" && metadata?.phase === "compensation");
const dispatched = ({ events }: Rehearsed) => events.filter(({ event_type: type }) => type === "step.dispatched");

describe("actions", () => {
  it("succeed with their mocks' outputs, and with {} without", () => {
    const { state, output, variables, left } = run(ORDER, { charge: [{ output: { id: "c-1" } }] });
    expect({ state, output, left }).toEqual({ state: "succeeded", output: "c-1", left: undefined });
    expect(variables).toEqual({ a: {}, charge: { id: "c-1" }, ship: {} });
  });

  it("take a mock an attempt, and keep the last", () => {
    const failing = { error: { code: "busy" } };
    const once = run(ORDER, { charge: [{ output: { id: "c" } }], ship: [failing, { output: { parcel: 1 } }] });
    expect(once).toMatchObject({ state: "succeeded", variables: { ship: { parcel: 1 } } });
    const always = run(ORDER, { ship: [failing] });
    expect(always).toMatchObject({ state: "failed", error: { code: "busy", message: "busy", step_id: "ship" } });
    expect(dispatched(always).filter(({ step_id: step }) => step === "ship")).toHaveLength(2);
  });

  it("that fail for good let the rest be undone, newest first", () => {
    const ended = run(ORDER, { ship: [{ error: { code: "no_such_street", message: "?", retryable: false } }] });
    expect(ended.state).toBe("failed");
    expect(undone(ended).map(({ step_id: step }) => step)).toEqual(["charge", "a"]);
  });

  it("that may have happened are undone too", () => {
    const unknown = { code: "gone", retryable: false, outcome_unknown: true };
    expect(undone(run(ORDER, { charge: [{ error: unknown }] })).map(({ step_id: step }) => step)).toEqual([
      "charge",
      "a",
    ]);
  });

  it("that nobody answers time out on the virtual clock", () => {
    const steps = [
      {
        id: "a",
        type: "action",
        action: "s.a",
        timeout_ms: 3_600_000,
        retry: { max_attempts: 1, initial_backoff_ms: 0 },
      },
    ];
    const { error, events } = run(steps, { a: [{ error: { code: "timeout" } }] });
    expect(error?.code).toBe("timeout");
    expect(events.at(-1)?.recorded_at).toBe("2026-01-01T01:00:00.500Z");
  });

  it("whose undo fails for good ask for a review", () => {
    const failing = { ship: [{ error: { code: "x", retryable: false } }] };
    const ended = run(ORDER, { ...failing, "charge~undo": [{ error: { code: "closed", retryable: false } }] });
    expect(ended).toMatchObject({ state: "failed", requires_manual_review: true });
    expect(undone(ended).map(({ step_id: step }) => step)).toEqual(["a"]);
  });

  it("are checked against their registrations", () => {
    const actions = { "s.a": { output_schema: { type: "object", required: ["id"] } } };
    const ended = rehearse(workflow([{ id: "a", type: "action", action: "s.a" }]), { actions });
    expect(ended).toMatchObject({ state: "failed", error: { code: "schema_mismatch" } });
  });
});

describe("requests, people and signals", () => {
  it("a request is answered 200, or as its mock says", () => {
    const steps = [{ id: "a", type: "http_request", url: "https://x.example" }];
    expect(run(steps).output).toEqual({ status: 200, headers: {}, body: null });
    expect(run(steps, { a: [{ output: { body: [1] } }] }).output).toEqual({ status: 200, headers: {}, body: [1] });
  });

  const approval = [
    {
      id: "a",
      type: "manual_approval",
      assignee: "ann",
      due_in_ms: 1000,
      on_timeout: "late",
      branches: { rejected: { next: "no" } },
      next: "yes",
    },
    { id: "yes", type: "end", output: "yes" },
    { id: "no", type: "end", output: "no" },
    { id: "late", type: "end", output: "late" },
  ];
  it.each<[string, Mocks]>([
    ["yes", {}],
    ["no", { a: [{ output: { approved: false } }] }],
    ["late", { a: [{ error: { code: "timeout" } }] }],
  ])("an approval ends as %s", (output, mocks) => {
    expect(run(approval, mocks)).toMatchObject({ state: "succeeded", output });
  });

  it("a result that does not fit its form ends the rehearsal, and is named", () => {
    const form = { type: "object", required: ["size"] };
    const { state, left } = run([{ id: "a", type: "collect_input", assignee: "ann", form_schema: form }]);
    expect(state).toBe("paused");
    expect(left).toMatch(/the step "a" does not fit its task: .*size/);
  });

  it("a wait that is never answered is named", () => {
    const { state, left } = run([{ id: "a", type: "wait_for_signal", signal_name: "go" }], {
      a: [{ error: { code: "timeout" } }],
    });
    expect({ state, left }).toEqual({
      state: "paused",
      left: 'no answer comes for the step "a" (signal), which has no timeout',
    });
  });

  it("a signal from a branch comes before one that nobody mocked, also if it comes late", () => {
    const steps = [
      { id: "a", type: "parallel", branches: { wait: { next: "w" }, send: { next: "later" } }, next: "j" },
      { id: "w", type: "wait_for_signal", signal_name: "go" },
      { id: "later", type: "wait_duration", duration: "P3D", next: "s" },
      { id: "s", type: "emit_signal", run_id: "${run.root_id}", signal_name: "go", payload: { from: "send" } },
      { id: "j", type: "join", mode: "all", on: ["wait"], next: "e" },
      { id: "e", type: "end", output: "${vars.j.wait}" },
    ];
    expect(run(steps)).toMatchObject({ state: "succeeded", output: { from: "send" } });
  });
});

describe("children", () => {
  const child = workflow([{ id: "a", type: "action", action: "s.a", compensation: { action: "s.b" } }], {
    id: "child",
  });
  const parent = [
    { id: "a", type: "sub_saga", workflow_id: "child", next: "z" },
    { id: "z", type: "action", action: "s.z" },
  ];

  it("run as the workflows that are given, and undo what they handed over", () => {
    const mocks: Mocks = { "child/a": [{ output: { n: 7 } }], z: [{ error: { code: "x", retryable: false } }] };
    const ended = rehearse(workflow(parent), { mocks, workflows: [child] });
    expect(ended).toMatchObject({ state: "failed", variables: { a: { n: 7 } } });
    expect(undone(ended)).toMatchObject([
      { workflow_id: "w", step_id: "a", metadata: { child_run_id: expect.any(String) } },
    ]);
  });

  it("that are mocked run nothing", () => {
    const done = rehearse(workflow(parent), { mocks: { a: [{ output: [1] }] } });
    expect(done).toMatchObject({ state: "succeeded", variables: { a: [1] } });
    const failed = rehearse(workflow(parent), { mocks: { a: [{ error: { code: "x", message: "y" } }] } });
    expect(failed).toMatchObject({
      state: "failed",
      error: { code: "child_failed", cause: { code: "x", message: "y" } },
    });
    const slow = workflow([{ id: "a", type: "sub_saga", workflow_id: "child", timeout_ms: 1000 }]);
    expect(rehearse(slow, { mocks: { a: [{ error: { code: "timeout" } }] } })).toMatchObject({
      error: { code: "timeout" },
    });
  });

  it("that nobody has published fail their step", () => {
    expect(rehearse(workflow(parent))).toMatchObject({ state: "failed", error: { code: "not_found" } });
  });

  it("of a foreach keep their order", () => {
    const steps = [
      { id: "a", type: "foreach", items: "inputs.list", body: "b", max_concurrency: 3 },
      { id: "b", type: "transform", expression: "item * 2" },
    ];
    expect(run(steps, {}, { list: [3, 1, 2, 5, 4, 6, 7, 8, 9, 10, 11] }).output).toEqual([
      6, 2, 4, 10, 8, 12, 14, 16, 18, 20, 22,
    ]);
  });
});

describe("bounds and faults", () => {
  it("a loop without an end is left, and said", () => {
    const ended = run([
      { id: "a", type: "wait_duration", duration: "P1D", next: "b" },
      { id: "b", type: "noop", next: "a" },
    ]);
    expect(ended.state).not.toBe("succeeded");
    expect(ended.left).toMatch(/did not end within/);
  });

  it("the same rehearsal has the same events", () => {
    const mocks: Mocks = { ship: [{ error: { code: "busy" } }] };
    expect(run(ORDER, mocks)).toEqual(run(ORDER, mocks));
  });

  it.each<[string, () => unknown, RegExp]>([
    ["a workflow that is not valid", () => run([{ id: "a", type: "noop", next: "b" }]), /\$\.steps\[0\]\.next/],
    [
      "a mock of a step that there is not",
      () => run(ORDER, { b: [{ output: {} }] }),
      /\$\.mocks\.b there is no step "b"/,
    ],
    [
      "a mock of a step that waits for no answer",
      () => run(ORDER, { e: [{ output: {} }] }),
      /a end waits for no answer/,
    ],
    ["an undo that there is not", () => run(ORDER, { "ship~undo": [{ output: {} }] }), /has no compensation/],
    ["no mocks", () => run(ORDER, { a: [] }), /a list of 1 to/],
    [
      "an output that is no object",
      () => run(ORDER, { a: [{ output: 1 }] }),
      /\$\.mocks\.a\[0\]\.output must be an object/,
    ],
    ["an error without a code", () => run(ORDER, { a: [{ error: {} as never }] }), /code is required/],
    ["an unknown member", () => run(ORDER, { a: [{ error: { code: "x", retry: 1 } as never }] }), /retry is unknown/],
    [
      "a failure of a wait",
      () => run([{ id: "a", type: "wait_for_signal", signal_name: "x" }], { a: [{ error: { code: "x" } }] }),
      /must be "timeout"/,
    ],
    [
      "inputs that do not fit",
      () => rehearse(workflow(ORDER, { input_schema: { required: ["id"] } })),
      /the inputs cannot be used/,
    ],
    [
      "what does not fit in several inputs",
      () =>
        rehearse(
          workflow(ORDER, {
            input_schema: {
              required: ["id"],
              properties: { lines: { items: { properties: { price: { type: "number", multipleOf: 0.01 } } } } },
            },
          }),
          { inputs: { lines: [{ price: 19.99 }, { price: 0.005 }, { price: "x" }] } },
        ),
      /\$\.inputs\.id is required\n {2}\$\.inputs\.lines\[1\]\.price must be a multiple of 0\.01\n {2}\$\.inputs\.lines\[2\]\.price must be a number$/,
    ],
    ["an entrypoint that there is not", () => rehearse(workflow(ORDER), { entrypoint: "x" }), /no entrypoint x/],
  ])("%s is refused", (_name, act, message) => {
    expect(act).toThrow(RehearsalError);
    expect(act).toThrow(message);
  });
});
