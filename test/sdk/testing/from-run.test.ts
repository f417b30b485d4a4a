// Mocks of a run that has ended: a rehearsal with them goes as the run went. The runs are rehearsals themselves; one of a service is in test/cli/authoring.test.ts.
import { describe, expect, expectTypeOf, it } from "vitest";
import type { SagaRun, SagaRunEvent } from "../../../src/sdk/client/index.js";
import {
  type Mocks,
  mocksFromRun,
  type Recorded,
  type RecordedEvent,
  type RecordedRun,
  RehearsalError,
  type Rehearsed,
  rehearse,
} from "../../../src/sdk/define/testing/index.js";

const workflow = (steps: object[]) => ({ id: "w", name: "W", start: (steps[0] as { id: string }).id, steps });
const END = { id: "end", type: "end", output: "${vars}" };

/** The child of the step `s`, which the API has and a rehearsal does not. */
const failedChild = (parent_run_id: string, error: { code: string; message: string }): Recorded => ({
  run: { id: "c", definition_id: "x", state: "failed", parent_run_id, parent_step_id: "s", error },
  events: [],
});

/** As the API would have it: a record for each run of the workflow. */
function recordsOf({ events, state, variables }: Rehearsed): readonly Recorded[] {
  const ids = [...new Set(events.filter(({ workflow_id }) => workflow_id === "w").map(({ run_id }) => run_id))];
  return ids.map((id, nth) => ({
    run: { id, definition_id: "d", state, variables: nth === 0 ? variables : {} },
    events: events.filter(({ run_id }) => run_id === id).map((event, at) => ({ ...event, seq: at + 1 })),
  }));
}

/** What happened, without ids and times. */
const shape = ({ events, ...ended }: Rehearsed) => ({
  ...ended,
  events: events.map(({ event_type, step_id, attempt, metadata }) => [event_type, step_id, attempt, metadata?.output]),
});

const wait = (id: string, type: string, more: object) => ({ id, type, next: "end", ...more });
const approval = (more: object = {}) => wait("ok", "manual_approval", { assignee: "ann", title: "May I?", ...more });
const two = { ok: { output: { approved: false, why: "🙂" } } };

const CASES: readonly (readonly [string, object[], Mocks])[] = [
  [
    "actions that fail, are tried again and undone",
    [
      { id: "a", type: "action", action: "s.a", compensation: { action: "s.u" }, next: "b" },
      { id: "b", type: "action", action: "s.b", retry: { max_attempts: 3, initial_backoff_ms: 5 }, next: "end" },
      END,
    ],
    {
      a: [{ output: { money: 19.99 } }],
      b: [{ error: { code: "busy" } }, { error: { code: "timeout" } }, { error: { code: "no", retryable: false } }],
      "a~undo": [{ error: { code: "later" } }, { output: { back: true } }],
    },
  ],
  [
    "an action that failed and may have happened, and one that did not",
    [
      { id: "a", type: "action", action: "s.a", compensation: { action: "s.u" }, on_error: "continue", next: "b" },
      { id: "b", type: "action", action: "s.b", compensation: { action: "s.u" }, on_error: "continue", next: "c" },
      {
        id: "c",
        type: "action",
        action: "s.c",
        compensation: { action: "s.u" },
        retry: { max_attempts: 2, initial_backoff_ms: 5 },
        next: "end",
      },
      END,
    ],
    {
      a: [{ error: { code: "lost", retryable: false, outcome_unknown: true } }],
      b: [{ error: { code: "no", retryable: false } }],
      c: [{ error: { code: "lost", outcome_unknown: true } }, { error: { code: "no" } }],
    },
  ],
  [
    "items that failed, of which all or none may have happened, and a round of a try after the other",
    [
      { id: "p", type: "foreach", items: "[1, 2]", body: "a", next: "w" },
      { id: "a", type: "action", action: "s.a", compensation: { action: "s.u" }, on_error: "continue", next: "b" },
      { id: "b", type: "action", action: "s.b", compensation: { action: "s.u" }, on_error: "continue" },
      { id: "w", type: "while", condition: "iteration < 2", body: "t", max_iterations: 3, next: "e" },
      { id: "t", type: "try_catch", try: "c", catch: "n", rollback: true },
      { id: "c", type: "action", action: "s.c", compensation: { action: "s.u" } },
      { id: "n", type: "noop" },
      { id: "e", type: "error", code: "mine" },
    ],
    {
      a: [{ error: { code: "lost", retryable: false, outcome_unknown: true } }, { output: { n: 2 } }],
      b: [{ error: { code: "no", retryable: false } }],
      c: [{ error: { code: "lost", retryable: false, outcome_unknown: true } }, { output: { n: 1 } }],
    },
  ],
  [
    "a request and an event",
    [
      { id: "h", type: "http_request", url: "https://x.example", method: "GET", next: "e" },
      wait("e", "wait_for_event", { topic: "t" }),
      END,
    ],
    { h: [{ output: { status: 200, body: [1] } }], e: [{ output: { n: 7 } }] },
  ],
  ["a signal", [wait("g", "wait_for_signal", { signal_name: "go" }), END], { g: [{ output: { by: "ann" } }] }],
  [
    "a timeout that leads elsewhere",
    [
      wait("g", "wait_for_signal", { signal_name: "go", timeout_ms: 9, on_timeout: "late" }),
      { id: "late", type: "end", output: "late" },
      END,
    ],
    { g: [{ error: { code: "timeout" } }] },
  ],
  [
    "a timeout that fails",
    [wait("e", "wait_for_event", { topic: "t", timeout_ms: 9 }), END],
    { e: [{ error: { code: "timeout" } }] },
  ],
  ["an approval", [approval(), END], { ok: [{ output: { approved: true, note: "fine" } }] }],
  ["a rejection", [approval(), END], { ok: [{ output: { approved: false } }] }],
  ["a rejection with a branch", [approval({ branches: { rejected: { next: "end" } } }), END], { ok: [two.ok] }],
  [
    "a form",
    [wait("f", "collect_input", { assignee: "ann", title: "?", form_schema: { type: "object" } }), END],
    { f: [{ output: { size: null } }] },
  ],
  [
    "sub-sagas, one that fails and one that succeeds",
    [
      { id: "s", type: "sub_saga", workflow_id: "x", inputs: {}, on_error: "again", next: "end" },
      { id: "again", type: "sub_saga", workflow_id: "x", inputs: {}, next: "end", save_as: "second" },
      END,
    ],
    { s: [{ error: { code: "no", retryable: false } }], again: [{ output: { a: 1 } }] },
  ],
  [
    "branches and items",
    [
      { id: "p", type: "parallel", branches: { l: { next: "l" }, r: { next: "r" } }, next: "j" },
      { id: "l", type: "action", action: "s.l" },
      { id: "r", type: "foreach", items: "[1, 2, 3]", body: "one" },
      { id: "one", type: "action", action: "s.one" },
      { id: "j", type: "join", next: "end" },
      END,
    ],
    { l: [{ output: { l: 1 } }], one: [{ output: { n: 1 } }, { output: { n: 2 } }, { output: { n: 3 } }] },
  ],
  [
    "a step that fails by itself, and asks nobody",
    [
      { id: "t", type: "try_catch", try: "a", catch: "b", next: "end" },
      { id: "a", type: "action", action: "s.a", inputs: { x: "${1 / 0}" } },
      { id: "b", type: "action", action: "s.b" },
      END,
    ],
    { b: [{ output: { caught: true } }] },
  ],
];

describe("the mocks of a run repeat", () => {
  it.each(CASES)("%s", (_, steps, mocks) => {
    const document = workflow(steps);
    const first = rehearse(document, { mocks });
    // Else the case would show nothing.
    expect([first.left, first.events.some(({ event_type }) => /^step\.(succeeded|failed)$/.test(event_type))]).toEqual([
      undefined,
      true,
    ]);
    const [root, ...others] = recordsOf(first);
    if (!root) throw new Error("there is no run");
    const child = failedChild(root.run.id, { code: "no", message: "no" });
    const { mocks: made, missing } = mocksFromRun(document, [root, child, ...others]);
    expect(missing).toEqual(first.error?.code === "approval_rejected" ? ["the rest of the answer to ok"] : []);
    expect(shape(rehearse(document, { mocks: made }))).toEqual(shape(first));
  });
});

describe("an output that the audit log has cut", () => {
  const steps = (save?: object) => [
    { id: "a", type: "action", action: "s.a", next: "e", ...save },
    wait("e", "wait_for_event", { topic: "t" }),
    END,
  ];
  const cut = (records: readonly Recorded[]) =>
    records.map(({ run, events }) => ({
      run,
      events: events.map((event) => ({
        ...event,
        metadata: {
          ...event.metadata,
          ...("output" in (event.metadata ?? {}) && { output: '{"a', truncated: ["output"] }),
        },
      })),
    }));
  const mocks = { a: [{ output: { long: "x" } }], e: [{ output: { n: 1 } }] };

  it.each([[{}], [{ save_as: "other" }]])("is that of its variable, wherever it stands: %j", (save) => {
    const document = workflow(steps(save));
    const made = mocksFromRun(document, cut(recordsOf(rehearse(document, { mocks }))));
    expect(made.mocks).toMatchObject(mocks);
    expect(made.missing).toEqual([
      expect.stringMatching(/^the output of a was taken from its variable/),
      expect.stringMatching(/^the output of e was taken from its variable/),
    ]);
  });

  it("is missing where no variable has it, and that is said", () => {
    const document = workflow(steps({ save_as: null }));
    const { mocks: made, missing } = mocksFromRun(document, cut(recordsOf(rehearse(document, { mocks }))));
    expect([made.a, missing[0]]).toEqual([
      [{ output: {} }],
      expect.stringMatching(/^the output of a: .*no variable has it/),
    ]);
  });
});

describe("records", () => {
  const run = { id: "r", definition_id: "d", state: "succeeded" };

  it("are as the client gives them", () => {
    expectTypeOf<SagaRun>().toExtend<RecordedRun>();
    expectTypeOf<SagaRunEvent>().toExtend<RecordedEvent>();
  });

  it("of a run that goes on, of a branch, and none at all, are refused", () => {
    const of = (more: object) => () => mocksFromRun(workflow([END]), [{ run: { ...run, ...more }, events: [] }]);
    expect(of({ state: "paused" })).toThrow(RehearsalError);
    expect(of({ state: "paused" })).toThrow("run r is paused");
    expect(of({ parent_run_id: "p" })).toThrow("begin with its root");
    expect(() => mocksFromRun(workflow([END]), [])).toThrow(RehearsalError);
  });

  it("of a sub-saga that failed are needed for its error", () => {
    const document = workflow([{ id: "s", type: "sub_saga", workflow_id: "x", next: "end" }, END]);
    const metadata = { code: "child_failed", message: "no" };
    const events = [{ seq: 1, event_type: "step.failed", attempt: 0, step_id: "s", metadata }];
    const child = failedChild("r", { code: "busy", message: "no" });
    expect(mocksFromRun(document, [{ run, events }, child])).toMatchObject({
      mocks: { s: [{ error: { code: "busy" } }] },
      missing: [],
    });
    expect(mocksFromRun(document, [{ run, events }]).missing).toEqual([
      "the error of the child of s: add the child to the records",
    ]);
  });

  it("do not tell which failures of a step may have happened where some of its entries were undone, and that is said", () => {
    const document = workflow([
      { id: "w", type: "while", condition: "iteration < 2", body: "a", max_iterations: 3, next: "e" },
      { id: "a", type: "action", action: "s.a", compensation: { action: "s.u" }, on_error: "continue" },
      { id: "e", type: "error", code: "mine" },
    ]);
    const plain = { error: { code: "no", retryable: false } };
    const mocks = { a: [plain, { error: { ...plain.error, outcome_unknown: true } }] };
    const { mocks: made, missing } = mocksFromRun(document, recordsOf(rehearse(document, { mocks })));
    expect([made.a?.length, missing]).toEqual([
      2,
      ["which failures of a may have happened: only some of its entries were undone"],
    ]);
  });

  it("of sub-sagas have no mocks of their own, and events that were deleted are said", () => {
    const event = { seq: 2, event_type: "step.succeeded", attempt: 1, step_id: "a", metadata: { output: { n: 1 } } };
    const document = workflow([{ id: "a", type: "action", action: "s.a", next: "end" }, END]);
    const other = { run: { ...run, id: "x", definition_id: "other" }, events: [event] };
    expect(mocksFromRun(document, [{ run, events: [event] }, other])).toMatchObject({
      mocks: { a: [{ output: { n: 1 } }] },
      missing: ["the first audit events of run r"],
    });
  });
});
