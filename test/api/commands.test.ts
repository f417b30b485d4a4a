// Commands over HTTP: the commands that the runtime gets, and the translation of its answers.
import { beforeEach, describe, expect, it } from "vitest";
import { defaultAnswer, insertRun, NOW, useRig } from "./rig.js";

const rig = useRig();
const ID = "0190a000-0000-7000-8000-0000000000aa";
const DISPATCH = "0190a000-0000-8000-8000-0000000000aa";

beforeEach(() => {
  rig.answer = defaultAnswer;
  rig.asked.length = 0;
});

describe("cancel", () => {
  const url = `/api/v1/sagas/${ID}/cancel`;
  it.each([
    ["without a body", url, undefined, { compensate: true }],
    ["with an empty body of the JSON content type", url, "", { compensate: true }],
    ["with a reason in the URL", `${url}?reason=late`, undefined, { reason: "late", compensate: true }],
    ["with a body", url, { reason: "no", compensate: false }, { reason: "no", compensate: false }],
  ])("%s", async (_, where, body, expected) => {
    const response = await rig.call("POST", where, body);
    expect(response.status).toBe(202);
    expect(response.body).toEqual({ run_id: ID, state: "cancelled", already_terminal: false });
    expect(rig.asked.at(-1)?.command).toEqual({ type: "cancel", actor: "api", reason: undefined, ...expected });
  });
});

describe("a refusal of the run", () => {
  it.each(["signal/go", "actions/charge/heartbeat"])("is a conflict: %s", async (path) => {
    rig.answer = () => ({ type: "refused", reason: "not now" });
    const response = await rig.call("POST", `/api/v1/sagas/${ID}/${path}`);
    expect(response).toMatchObject({ status: 409, body: { error: "conflict", message: "not now" } });
  });
});

describe("signal", () => {
  const url = `/api/v1/sagas/${ID}/signal/order%3Apaid`;
  it.each([
    ["nothing is an empty payload", undefined, {}],
    ["an empty object is one too", {}, {}],
    ["a payload is a payload", { payload: { a: 1 } }, { a: 1 }],
    ["members beside a payload are ignored", { payload: { a: 1 }, b: 2 }, { a: 1 }],
    ["other members are the payload itself", { a: 1, b: 2 }, { a: 1, b: 2 }],
    [
      "a key beside other members is part of the payload",
      { idempotency_key: "k", b: 2 },
      { idempotency_key: "k", b: 2 },
    ],
  ])("%s", async (_, body, payload) => {
    const response = await rig.call("POST", url, body);
    const asked = rig.asked.at(-1);
    expect(asked?.command).toMatchObject({ type: "signal", name: "order:paid", payload, actor: "api" });
    expect(response.status).toBe(202);
    expect(response.body).toEqual({ signal_id: asked?.options?.id, matched: true });
    expect(asked?.options?.keep).toBe(false);
  });

  it("the same key is the same command, another run's or name's is not", async () => {
    const other = `/api/v1/sagas/${ID}/signal/other`;
    const foreign = "/api/v1/sagas/0190a000-0000-7000-8000-0000000000ab/signal/order%3Apaid";
    for (const where of [url, url, other, foreign]) await rig.call("POST", where, { idempotency_key: "k" });
    const [first, again, ...others] = rig.asked.map(({ options }) => options);
    expect(again).toEqual(first);
    expect(first).toMatchObject({ keep: true });
    expect(new Set([first?.id, ...others.map((options) => options?.id)]).size).toBe(3);
    expect(rig.asked[0]?.command).toMatchObject({ id: first?.id });
  });

  it("a signal that no run awaits is a conflict that says it is recorded", async () => {
    rig.answer = () => ({ type: "signal", id: DISPATCH, matched: false });
    const response = await rig.call("POST", url, {});
    expect(response.status).toBe(409);
    expect(response.body).toMatchObject({ error: "conflict", signal_id: DISPATCH, recorded: true });
  });

  it("a signal to a run that has ended is recorded, and the message says that nothing takes it", async () => {
    rig.answer = () => ({ type: "signal", id: DISPATCH, matched: false, ended: true });
    const { status, body } = await rig.call("POST", url, {});
    expect([status, body.signal_id, body.recorded]).toEqual([409, DISPATCH, true]);
    expect(body.message).toBe("the run has ended: the signal order:paid is recorded, and nothing will take it");
  });
});

describe("action result", () => {
  const url = `/api/v1/sagas/${ID}/actions/charge/result`;
  const dispatch = { stepId: "charge", actor: "api", attempt: undefined, dispatchId: undefined };
  it.each([
    ["a result", url, { result: { ok: true } }, { type: "result", result: { ok: true } }],
    [
      "a result pinned by the URL",
      `${url}?attempt=3&dispatch_id=${DISPATCH}`,
      { result: {} },
      { type: "result", result: {}, attempt: 3, dispatchId: DISPATCH },
    ],
    [
      "a result pinned by the body",
      url,
      { result: {}, attempt: 3, dispatch_id: DISPATCH.toUpperCase(), run_id: ID, step_id: "charge" },
      { type: "result", result: {}, attempt: 3, dispatchId: DISPATCH },
    ],
    [
      "an error is retryable unless it says otherwise",
      url,
      { error: { code: "x", message: "y" } },
      { type: "failure", code: "x", message: "y", retryable: true, outcomeUnknown: false },
    ],
    [
      "an error in full",
      url,
      { error: { code: "x", message: "", retryable: false, outcome_unknown: true } },
      { type: "failure", code: "x", message: "", retryable: false, outcomeUnknown: true },
    ],
    [
      "an error is cut as over any transport",
      url,
      { error: { code: "c".repeat(300), message: "🎉".repeat(9_000) } },
      { type: "failure", code: "c".repeat(128), message: "🎉".repeat(8_192), retryable: true },
    ],
    ["a heartbeat", `/api/v1/sagas/${ID}/actions/charge/heartbeat`, undefined, { type: "heartbeat" }],
  ])("%s", async (_, where, body, command) => {
    const response = await rig.call("POST", where, body);
    expect(response.status).toBe(202);
    expect(response.body).toEqual({ accepted: true, stale: false });
    expect(rig.asked.at(-1)).toMatchObject({ runId: ID, command: { ...dispatch, ...command } });
  });

  it.each([["result", { result: {} }] as const, ["heartbeat", {}] as const])(
    "a %s is stamped with database time, whatever its body says",
    async (what, body) => {
      await rig.call("POST", url.replace(/result$/, what), { ...body, arrivedAt: 1, arrived_at: 1 });
      expect(rig.asked.at(-1)?.command).toMatchObject({ arrivedAt: NOW });
    },
  );

  it("a stale report is accepted, and answered as stale", async () => {
    rig.answer = () => ({ type: "report", stale: true });
    expect(await rig.call("POST", url, { result: {} })).toMatchObject({
      status: 202,
      body: { accepted: true, stale: true },
    });
  });

  it.each([
    ["over the limit of an output", 1_100_000],
    ["over the limit of a body, which is not read", 5 * 1_048_576],
  ])("a result %s fails its step", async (_, length) => {
    const where = `${url}?attempt=3&dispatch_id=${DISPATCH}`;
    expect(await rig.call("POST", where, { result: { a: "x".repeat(length) } })).toMatchObject({
      status: 202,
      body: { accepted: true, stale: false },
    });
    expect(rig.asked.at(-1)).toMatchObject({
      runId: ID,
      command: {
        ...{ type: "failure", code: "limit_exceeded", retryable: false, outcomeUnknown: true },
        ...{ stepId: "charge", attempt: 3, dispatchId: DISPATCH, actor: "api" },
      },
    });
  });

  it("a result over the limit of a body is refused where its URL is wrong", async () => {
    const result = { result: { a: "x".repeat(5 * 1_048_576) } };
    expect((await rig.call("POST", `${url}?attempt=none`, result)).status).toBe(413);
    expect(rig.asked).toEqual([]);
  });

  it("unknown members of an error are named", async () => {
    const response = await rig.call("POST", url, { error: { code: "x", message: "y", stack: "z" }, extra: 1 });
    expect(response.headers["saga-ignored-fields"]).toBe("error.stack, extra");
  });
});

const ACTED = { type: "acted", state: "paused", changed: true } as const;

describe("release", () => {
  it("sends the run the command", async () => {
    rig.answer = () => ACTED;
    const { status, body } = await rig.call("POST", `/api/v1/sagas/${ID}/release`);
    expect([status, body]).toEqual([202, { run_id: ID, state: "paused", changed: true }]);
    expect(rig.asked.at(-1)?.command).toEqual({ type: "release", actor: "api" });
  });

  it("ignores unknown members, and names them", async () => {
    rig.answer = () => ACTED;
    const { status, headers } = await rig.call("POST", `/api/v1/sagas/${ID}/release`, { reason: "tried", force: true });
    expect([status, headers["saga-ignored-fields"]]).toEqual([202, "reason, force"]);
  });
});

describe("an act of an operator", () => {
  const act = (name: string, body?: object) => rig.call("POST", `/api/v1/sagas/${ID}/${name}`, body);

  it.each<[name: string, body: object | undefined, command: object]>([
    ["pause", undefined, { type: "pause" }],
    ["pause", { reason: "a bad deploy" }, { type: "pause", reason: "a bad deploy" }],
    ["resume", {}, { type: "resume" }],
    ["retry_step", { variables: { n: 2 } }, { type: "retry_step", variables: { n: 2 } }],
    ["skip_step", { output: [1] }, { type: "skip_step", output: [1] }],
    ["skip_step", { output: null }, { type: "skip_step" }],
    ["fail", { reason: "hopeless" }, { type: "fail", reason: "hopeless" }],
    ["compensations/retry", undefined, { type: "retry_undo" }],
    ["compensations/skip", {}, { type: "skip_undo" }],
    ["terminate", { reason: "stuck" }, { type: "terminate", reason: "stuck" }],
    ["migrate", { version: 2 }, { type: "migrate", version: 2 }],
    ["migrate", { version: 2, steps: { a: "b" } }, { type: "migrate", version: 2, steps: { a: "b" } }],
  ])("%s with %j is a command, and the answer is that of the run", async (name, body, command) => {
    rig.answer = () => ACTED;
    expect(await act(name, body)).toMatchObject({ status: 202, body: { run_id: ID, state: "paused", changed: true } });
    expect(rig.asked.at(-1)?.command).toEqual({ ...command, actor: "api" });
  });

  it("that could never make sense is 400, with the reason", async () => {
    const reason = 'nothing in the workflow reads the variable "m": those that a retry may correct are "n"';
    rig.answer = () => ({ type: "refused", reason, invalid: true });
    expect(await act("retry_step", { variables: { m: 2 } })).toMatchObject({
      status: 400,
      body: { message: reason },
    });
  });

  it("that makes no sense is 409, with the reason", async () => {
    rig.answer = () => ({ type: "refused", reason: "no step of the run stands at an incident" });
    expect(await act("skip_step")).toMatchObject({
      status: 409,
      body: { message: expect.stringContaining("incident") },
    });
    rig.answer = () => ({ type: "acted", state: "failed", changed: false, reason: "the run has ended" });
    expect(await act("pause")).toMatchObject({ status: 409, body: { message: "the run has ended" } });
    rig.answer = () => ({ type: "acted", state: "paused", changed: false });
    expect(await act("pause")).toMatchObject({ status: 202, body: { changed: false } });
  });

  it("that several reasons are against lists them, and one that names what is not there is 404", async () => {
    const reasons = [{ message: "the run is leaving a try" }, { path: "$.steps", message: "is gone" }];
    rig.answer = () => ({ type: "refused", reason: "it cannot go on there", reasons });
    expect(await act("migrate", { version: 2 })).toMatchObject({
      status: 409,
      body: { message: "it cannot go on there", details: [{ path: "$", message: reasons[0]?.message }, reasons[1]] },
    });
    rig.answer = () => ({ type: "refused", reason: "there is no version 2", missing: true });
    expect(await act("migrate", { version: 2 })).toMatchObject({ status: 404, body: { error: "not_found" } });
  });

  it("with a bad body is 400, and names the place", async () => {
    expect(await act("migrate", { version: 0 })).toMatchObject({
      status: 400,
      body: { details: [{ path: "$.version" }] },
    });
    expect(await act("migrate", { version: 2, steps: { a: "b c" } })).toMatchObject({
      status: 400,
      body: { details: [{ path: "$.steps.a" }] },
    });
    const hostile = JSON.parse('{"version":2,"steps":{"__proto__":"b"}}') as object;
    expect(await act("migrate", hostile)).toMatchObject({ status: 400 });
    expect(await act("terminate", {})).toMatchObject({ status: 400, body: { details: [{ path: "$.reason" }] } });
    expect(await act("terminate")).toMatchObject({ status: 400 });
    expect(await act("retry_step", { variables: [] })).toMatchObject({ status: 400 });
    const forbidden = JSON.parse('{"variables":{"__proto__":1}}') as object;
    expect(await act("retry_step", forbidden)).toMatchObject({ status: 400 });
    expect(await act("compensations/skip", { ordinal: 0 })).toMatchObject({ status: 400 });
  });

  it("that names an undo is 400 where the run has none of that number, and 404 where there is no such run", async () => {
    for (const name of ["compensations/retry", "compensations/skip"])
      expect(await act(name, { ordinal: 9 })).toMatchObject({
        status: 404,
        body: { error: "not_found", message: `there is no run ${ID}` },
      });
    const runId = await insertRun(rig);
    for (const name of ["retry", "skip"])
      expect(await rig.call("POST", `/api/v1/sagas/${runId}/compensations/${name}`, { ordinal: 9 })).toMatchObject({
        status: 400,
        body: { message: "the undo list of the run has no entry 9" },
      });
    expect(rig.asked).toEqual([]);
  });
});
