// What is against moving a run to another version, reason by reason; and what of the record follows a run that moves.
import { describe, expect, it } from "vitest";
import type { Answer, JsonObject, Program, RunCommand } from "../../machines/index.js";
import { explain } from "../../machines/index.js";
import { worldViolations } from "./chain.js";
import { ACTIONS, program, type StepDocument } from "./definitions.js";
import { Simulation, type SimulationOptions } from "./simulation.js";

type Steps = readonly StepDocument[];
type Head = Readonly<Record<string, unknown>>;
type Drive = (run: Simulation) => unknown;

const advance: Drive = (run) => run.advance();
const work: Drive = (run) => run.work();
const all =
  (...moves: Drive[]): Drive =>
  (run) => {
    for (const move of moves) move(run);
  };
const charge = (id: string, more: object = {}): StepDocument => ({
  ...{ id, type: "action", action: "shop.charge", compensation: { action: "shop.refund" } },
  ...more,
});
const go = (id: string, more: object = {}): StepDocument => ({
  id,
  type: "wait_for_signal",
  signal_name: "go",
  ...more,
});
const noop = (id: string, more: object = {}): StepDocument => ({ id, type: "noop", ...more });
const end = noop("end");

const versionOf = (version: number, steps: Steps, head: Head = {}) =>
  program(JSON.parse(JSON.stringify(steps)) as StepDocument[], { version, ...head });

/** A run of version 1 that can move to version 2. */
function runOf(one: Program, two: Program, options: Partial<SimulationOptions> = {}): Simulation {
  return new Simulation({ program: one, versions: { 2: two }, actions: ACTIONS, reload: true, ...options });
}

const migrate = (steps?: Record<string, string>): RunCommand => ({
  ...{ type: "migrate", version: 2, actor: "user:ops" },
  ...(steps && { steps }),
});

const reasonsOf = (answer: Answer) => (answer.type === "refused" ? answer.reasons : answer);

interface Against {
  readonly from: Steps;
  readonly to: Steps;
  readonly head?: Head;
  readonly toHead?: Head;
  readonly drive?: Drive;
  readonly steps?: Record<string, string>;
  readonly inputs?: JsonObject;
  readonly reasons: readonly (readonly [path: string | undefined, message: string])[];
}

const hold = go("hold", { next: "end" });
const V1 = [hold, end];
const in2 = (id: string) => `"${id}" of version 2`;
const inTry = (inner: Steps, more: object = {}, rescue = noop("rescue")): Steps => [
  { id: "t", type: "try_catch", try: inner[0]?.id, catch: rescue.id, next: "end", ...more },
  ...inner,
  rescue,
  end,
];
const inWhile = (inner: Steps, more: object = {}): Steps => [
  { id: "w", type: "while", condition: "iteration < 2", body: inner[0]?.id, next: "end", ...more },
  ...inner,
  end,
];
const branches: Steps = [
  { id: "p", type: "parallel", branches: { a: { next: "hold" } }, next: "j" },
  go("hold"),
  { id: "j", type: "join" },
];
const hour = 3_600_000;
const failing = { worker: () => ({ kind: "failure", code: "no", retryable: false, outcomeUnknown: false }) as const };

const AGAINST: Readonly<Record<string, Against & { readonly options?: Partial<SimulationOptions> }>> = {
  "its step is gone": { from: V1, to: [end], reasons: [["$.steps", 'version 2 has no step "hold"']] },
  "its step has another name, which is suggested": {
    ...{ from: V1, to: [go("holds")] },
    reasons: [["$.steps", 'version 2 has no step "hold" (did you mean "holds"?)']],
  },
  "its step is of another type": {
    ...{ from: V1, to: [noop("x", { next: "hold" }), noop("hold")] },
    reasons: [["$.steps[1].type", `the step "hold" is a wait_for_signal, and ${in2("hold")} is a noop`]],
  },
  "it is mapped to what is not there, from what was not there": {
    ...{ from: V1, to: V1, steps: { hole: "end", end: "und" } },
    reasons: [
      ["$.steps.hole", 'version 1 has no step "hole" (did you mean "hold"?)'],
      ["$.steps.end", 'version 2 has no step "und" (did you mean "end"?)'],
    ],
  },
  "no run comes to its step": {
    ...{ from: V1, to: [end, go("hold")] },
    reasons: [["$.steps[1]", `no run can come to the step ${in2("hold")}`]],
  },
  "only an edge that is never taken leads to its step": {
    from: [go("first", { timeout_ms: 5, on_timeout: "hold" }), hold, end],
    to: [go("first", { on_timeout: "hold" }), hold, end],
    drive: all(advance, (run) => run.elapse()),
    reasons: [["$.steps[1]", `no run can come to the step ${in2("hold")}`]],
  },
  "it waits for another signal": {
    ...{ from: V1, to: [go("hold", { signal_name: "stop" })] },
    reasons: [["$.steps[0].signal_name", `${in2("hold")} has the signal_name stop, and the run waits with go`]],
  },
  "the name of its signal cannot be evaluated": {
    ...{ from: V1, to: [go("hold", { signal_name: "${vars.nowhere}" })] },
    reasons: [["$.steps[0].signal_name", expect.stringContaining("cannot be evaluated: ")]],
  },
  "it waits for another event, with other headers": {
    from: [{ id: "e", type: "wait_for_event", topic: "made", headers: { b: "1", a: "${inputs.n}" } }],
    to: [{ id: "e", type: "wait_for_event", topic: "sent", headers: { a: "3", b: "1" } }],
    inputs: { n: 2 },
    reasons: [
      ["$.steps[0].topic", `${in2("e")} has the topic sent, and the run waits with made`],
      ["$.steps[0].headers", `${in2("e")} does not have the headers that the run waits with`],
    ],
  },
  "the time of its wait has nothing that follows it": {
    ...{ from: [go("hold", { timeout_ms: 5, on_timeout: "continue" })], to: [go("hold")] },
    reasons: [["$.steps[0]", `the wait at "hold" has a time limit, and ${in2("hold")} has none`]],
  },
  "its open task has another form": {
    from: [{ id: "ask", type: "collect_input", assignee: "ann", form_schema: { required: ["n"] } }],
    to: [{ id: "ask", type: "collect_input", assignee: "ann", form_schema: {} }],
    reasons: [["$.steps[0].form_schema", `the open task of "ask" has another form than ${in2("ask")}`]],
  },
  "its call is to another action, and its step has another id": {
    ...{ from: [charge("pay")], to: [charge("charge", { action: "shop.notify" })], steps: { pay: "charge" } },
    reasons: [
      ["$.steps[0].id", 'the step "pay" has called its action under that id, which it keeps until it is done'],
      ["$.steps[0].action", `${in2("charge")} has the action shop.notify, and the run waits with shop.charge@1`],
    ],
  },
  "its call is to another version of the action": {
    ...{ from: [charge("pay")], to: [charge("pay", { action: "shop.charge@2" })] },
    reasons: [
      ["$.steps[0].action", `${in2("pay")} has the action shop.charge@2, and the run waits with shop.charge@1`],
    ],
  },
  "its call could not be undone any more": {
    ...{ from: [charge("pay")], to: [charge("pay", { compensation: undefined })] },
    reasons: [
      ["$.steps[0].compensation", `the call of "pay" may have to be undone, and ${in2("pay")} has no compensation`],
    ],
  },
  "its request goes elsewhere": {
    from: [{ id: "r", type: "http_request", url: "https://a.example/${inputs.n}" }],
    to: [{ id: "r", type: "http_request", url: "https://b.example/2", method: "POST" }],
    inputs: { n: 2 },
    reasons: [
      ["$.steps[0].url", `${in2("r")} does not have the url that the run waits with`],
      ["$.steps[0].method", `${in2("r")} has the method POST, and the run waits with GET`],
    ],
  },
  "its sub-saga is another workflow's, and hands over what its step would undo itself": {
    from: [{ id: "s", type: "sub_saga", workflow_id: "sub.a" }],
    to: [{ id: "s", type: "sub_saga", workflow_id: "sub.b", compensation: { action: "shop.refund" } }],
    options: { workflows: { "sub.a": program(V1, { id: "sub.a" }) } },
    reasons: [
      ["$.steps[0].workflow_id", `${in2("s")} has the workflow_id sub.b, and the run waits with sub.a`],
      [
        "$.steps[0].compensation",
        `the sub-saga of "s" has begun without a compensation of the step, and ${in2("s")} has one`,
      ],
    ],
  },
  "its branches are alive": {
    ...{ from: branches, to: branches },
    reasons: [
      [
        undefined,
        'the branches of the step "p" are runs of this version: it can go on under another one when they have ended',
      ],
    ],
  },
  "its step has come into a block": {
    ...{ from: V1, to: inTry([go("hold")]) },
    reasons: [["$.steps[1]", `the step "hold" is in no block of the run, and ${in2("hold")} is in the try of "t"`]],
  },
  "its step has left its block": {
    ...{ from: inTry([go("hold")]), to: [noop("t", { next: "hold" }), hold, end] },
    reasons: [
      ["$.steps[0].type", `the step "t" is a try_catch, and ${in2("t")} is a noop`],
      ["$.steps[1]", `the step "hold" is in the try of "t", and ${in2("hold")} is in no block`],
    ],
  },
  "its step has gone from a body to a branch": {
    ...{ from: inWhile([go("hold")]), to: [...branches, noop("w")], steps: {} },
    reasons: [
      ["$.steps[3].type", `the step "w" is a while, and ${in2("w")} is a noop`],
      ["$.steps[3]", `no run can come to the step ${in2("w")}`],
      ["$.steps[1]", `the step "hold" is in the body of "w", and ${in2("hold")} is in a branch of "p"`],
    ],
  },
  "its step has gone from the catch to the try": {
    from: inTry([{ id: "no", type: "error" }], {}, go("hold")),
    to: inTry([go("hold")], {}, noop("no")),
    reasons: [["$.steps[1]", `the step "hold" is in the catch of "t", and ${in2("hold")} is in the try of "t"`]],
  },
  "the blocks around it are nested in another way": {
    from: inWhile([{ id: "t", type: "try_catch", try: "hold", catch: "rescue" }, go("hold"), noop("rescue")]),
    to: inTry([{ id: "w", type: "while", condition: "true", body: "hold" }, go("hold")]),
    reasons: [
      ["$.steps[2]", `the step "hold" is in the try of "t", and ${in2("hold")} is in the body of "w"`],
      ["$.steps[0]", `the step "t" is in the body of "w", and ${in2("t")} is in no block`],
      ["$.steps[1]", `the step "w" is in no block of the run, and ${in2("w")} is in the try of "t"`],
    ],
  },
  "the time of a try around it has nothing that follows it": {
    ...{ from: inTry([go("hold")], { timeout_ms: hour }), to: inTry([go("hold")]) },
    reasons: [["$.steps[0]", `the try of "t" has a time limit, and ${in2("t")} has none`]],
  },
  "it stands at an incident that there is not": {
    ...{ from: [charge("pay")], to: [charge("pay")], head: { on_failure: "incident" }, options: failing },
    drive: all(advance, work),
    reasons: [["$.steps[0].on_failure", `the run stands at an incident, and an error of ${in2("pay")} makes none`]],
  },
  "the undo that it owes would fail in another way": {
    from: [charge("pay", { next: "hold", on_undo_failure: "incident" }), go("hold")],
    to: [charge("first", { next: "pay" }), charge("pay", { next: "hold", on_undo_failure: "incident" }), go("hold")],
    ...{ drive: all(advance, work), steps: { pay: "first" } },
    reasons: [
      [
        "$.steps[1].on_undo_failure",
        'an undo of the step "pay" may be owed, and its on_undo_failure is continue: version 2 has incident for that id',
      ],
    ],
  },
  "it is rolling back": {
    ...{ from: [charge("pay", { next: "hold" }), go("hold")], to: [charge("pay", { next: "hold" }), go("hold")] },
    drive: all(advance, work, (run) => run.cancel()),
    reasons: [[undefined, "the run is rolling back, or ending"]],
  },
  "it is leaving a try": {
    ...{ from: inTry([charge("pay", { next: "no" }), { id: "no", type: "error" }], { rollback: true }), to: V1 },
    drive: all(advance, work),
    reasons: [[undefined, "the run is leaving a try"]],
  },
  "it has not begun, and cannot": {
    ...{ from: V1, to: V1, toHead: { input_schema: { required: ["n"] } }, drive: () => {} },
    ...{ head: { entrypoints: { late: "end" } }, options: { identity: { entrypoint: "late" } } },
    reasons: [
      ["$.entrypoints", 'version 2 has no entrypoint "late"'],
      ["$.input_schema", "the inputs: lacks n"],
    ],
  },
  "it has not begun, and its inputs do not conform": {
    ...{ from: V1, to: V1, toHead: { input_schema: { required: ["n"] } }, drive: () => {} },
    reasons: [["$.input_schema", "the inputs: lacks n"]],
  },
};

describe("what is against it", () => {
  it.each(Object.entries(AGAINST))("%s", (_, against) => {
    const { from, to, head = {}, toHead = {}, drive = advance, steps, inputs = {}, reasons, options } = against;
    const run = runOf(versionOf(1, from, head), versionOf(2, to, toHead), { inputs, ...options });
    drive(run);
    const before = structuredClone([run.context, run.rows]);
    const found = reasons.map(([path, message]) => ({ ...(path !== undefined && { path }), message }));
    expect(reasonsOf(run.once(migrate(steps)))).toEqual(found);
    expect([run.context, run.rows]).toEqual(before);
  });

  it("a branch is not moved by itself, nor offered to be", () => {
    const run = runOf(versionOf(1, branches), versionOf(2, branches));
    run.advance();
    run.world.settle();
    const [, branch] = [...run.world.runs.values()];
    const moves = (one: Simulation | undefined) =>
      one && explain(one.context, { lastEventAt: 0 }).can.includes("migrate");
    expect([moves(run), moves(branch)]).toEqual([false, false]);
    const message = "it is a branch or an item, which is of the version of the run that it belongs to";
    expect(reasonsOf(branch?.once(migrate()) as Answer)).toEqual([{ message }]);
  });
});

describe("a run that moves", () => {
  it("its step, its blocks, their catch and the variables of its steps follow, and it goes on under the new version", () => {
    const one = versionOf(1, [
      { id: "a", type: "transform", expression: "1", next: "w" },
      { id: "w", type: "while", condition: "iteration < 1", body: "t" },
      { id: "t", type: "try_catch", try: "hold", catch: "rescue", timeout_ms: hour, errors: ["timeout"] },
      go("hold"),
      noop("rescue"),
    ]);
    const two = versionOf(
      2,
      [
        { id: "b", type: "transform", expression: "2", next: "w" },
        { id: "w", type: "while", condition: "iteration < 1", body: "t2", next: "last" },
        { id: "t2", type: "try_catch", try: "wait", catch: "save", timeout_ms: 5, errors: ["*"] },
        go("wait", { next: "no" }),
        { id: "no", type: "error", code: "mine" },
        { id: "save", type: "transform", expression: "vars.b + run.version" },
        { id: "last", type: "end", output: "${vars}" },
      ],
      { migrations: { 1: { a: "b", t: "t2" } } },
    );
    const run = runOf(one, two);
    run.advance();
    expect(run.once(migrate({ hold: "wait" }))).toEqual({ type: "acted", state: "paused", changed: true });
    expect(run.context).toMatchObject({
      ...{ run: { version: 2, definitionId: "version-2" }, step: "wait", variables: { b: 1 } },
      frames: [{ step: "w" }, { step: "t2", catchStep: "save", dueAt: run.now + hour }],
    });
    const { type, actor, metadata } = run.rows.at(-1) ?? {};
    expect({ type, actor, metadata }).toEqual({
      ...{ type: "log", actor: "user:ops" },
      metadata: { kind: "migrate", by: "user:ops", from_version: 1, version: 2, renamed: { hold: "wait", t: "t2" } },
    });
    expect(run.once(migrate())).toEqual({ type: "acted", state: "paused", changed: false });
    run.signal("go", "now");
    expect(run.context).toMatchObject({ state: "succeeded", output: { b: 1, save: 3, wait: "now" } });
    expect(worldViolations(run.world)).toEqual([]);
  });

  it("an event that its new match takes is found, even if the old one had passed it over", () => {
    const wait = (match: string) => [{ id: "e", type: "wait_for_event", topic: "made", match }];
    const run = runOf(versionOf(1, wait("event.payload.n == 1")), versionOf(2, wait("event.payload.n == 2")));
    run.advance();
    run.publish("made", { n: 2 });
    expect(run.state).toBe("paused");
    run.command(migrate());
    expect(run.context).toMatchObject({ state: "succeeded", variables: { e: { payload: { n: 2 } } } });
  });

  it("a call in flight is answered, an incident is retried with the action of the new version, under the same key", () => {
    const one = versionOf(1, [charge("pay")], { on_failure: "incident" });
    const two = versionOf(2, [charge("pay", { action: "shop.notify" })], { on_failure: "incident" });
    let fails = true;
    const worker = () =>
      fails
        ? ({ kind: "failure", code: "no", retryable: false, outcomeUnknown: false } as const)
        : ({ kind: "result", result: { ok: 1 } } as const);
    const run = runOf(one, two, { worker });
    run.advance();
    run.work();
    expect(run.once(migrate())).toMatchObject({ type: "acted", changed: true });
    fails = false;
    run.command({ type: "retry_step", actor: "user:ops" });
    run.work();
    expect(run.context).toMatchObject({ state: "succeeded", variables: { pay: { ok: 1 } } });
    const [first, second] = run.sent.map(({ call }) => call);
    expect([first?.action, second?.action]).toEqual(["charge", "notify"]);
    expect(second?.idempotencyKey).toBe(first?.idempotencyKey);
    expect(worldViolations(run.world)).toEqual([]);
  });

  it("what the old version did is undone as it was recorded, whatever the new one says of the step", () => {
    const undone = { action: "shop.refund", inputs: { of: "${output.n}" } };
    const one = versionOf(1, [charge("pay", { compensation: undone, next: "hold" }), go("hold")]);
    const other = charge("again", { compensation: { action: "shop.notify" } });
    const twos = [[other], [noop("again")]].map(([again]) =>
      versionOf(2, [noop("pay", { next: "hold" }), go("hold", { next: "again" }), again as StepDocument]),
    );
    // Also where nothing of the new version can be undone.
    for (const two of twos) undoesAsRecorded(one, two);
  });

  function undoesAsRecorded(one: Program, two: Program): void {
    const run = runOf(one, two, { worker: () => ({ kind: "result", result: { n: 7 } }) });
    run.advance();
    run.work();
    expect(run.once(migrate())).toMatchObject({ type: "acted" });
    run.cancel();
    run.drain();
    const undos = run.sent.filter(({ call }) => call.phase === "compensation").map(({ call }) => call);
    expect(undos).toMatchObject([{ stepId: "pay", action: "refund", inputs: { of: 7 } }]);
    expect(run.state).toBe("cancelled");
    expect(worldViolations(run.world)).toEqual([]);
  }

  it("a sub-saga keeps its version, and its end is taken by the step under its new id", () => {
    const sub = program([go("inner"), noop("inner-end")], { id: "sub" });
    const call = (of: string, id: string) => [
      { id: of, type: "transform", expression: "'sub'", next: id },
      { id, type: "sub_saga", workflow_id: `\${vars.${of}}` },
    ];
    const two = versionOf(2, call("name", "part"), { migrations: { 1: { n: "name", s: "part" } } });
    const run = runOf(versionOf(1, call("n", "s")), two, { workflows: { sub } });
    run.advance();
    run.world.settle();
    expect(run.once(migrate())).toMatchObject({ type: "acted" });
    const [, child] = [...run.world.runs.values()];
    child?.signal("go", 5);
    run.drain();
    expect(run.context).toMatchObject({ state: "succeeded", run: { version: 2 } });
    expect(child?.context.run.version).toBe(1);
    expect(worldViolations(run.world)).toEqual([]);
  });

  it("may be a sub-saga, whose parent keeps its version and gets its output", () => {
    const sub = (version: number, id: string) => program([go(id)], { id: "sub", version });
    const parent = program([{ id: "s", type: "sub_saga", workflow_id: "sub" }]);
    const options = { workflows: { sub: sub(1, "hold") }, versions: { 2: sub(2, "wait") } };
    const run = new Simulation({ program: parent, actions: ACTIONS, reload: true, ...options });
    run.advance();
    run.world.settle();
    const [, child] = [...run.world.runs.values()];
    expect(child?.once(migrate({ hold: "wait" }))).toMatchObject({ type: "acted", changed: true });
    child?.signal("go", 5);
    run.drain();
    expect([run.context.variables, run.context.run.version, child?.context.run.version]).toEqual([{ s: 5 }, 1, 2]);
    expect(worldViolations(run.world)).toEqual([]);
  });
});
