// Times that are longer than a timer of the host: with a fake clock, over days. Times of a dispatch on their way to a worker.
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { HeldDispatch } from "../../src/dispatch/push/held-dispatch.js";
import { executeStep, noToken, stepJson } from "../../src/dispatch/step-message.js";
import type { ExecuteStep } from "../../src/sdk/protocol/index.js";
import { Alarm } from "../../src/sdk/timer.js";
import { CalledWorkerCore } from "../../src/sdk/worker/callback/core.js";
import { readMessage, readStep } from "../../src/sdk/worker/callback/message.js";
import { Executor, type Origin } from "../../src/sdk/worker/executor.js";
import { Handlers } from "../../src/sdk/worker/handlers.js";
import { type ActionContext, defineAction } from "../../src/sdk/worker/index.js";
import { completeTiming } from "../../src/sdk/worker/timing.js";
import { Site } from "../dispatch/requests-rig.js";
import { makeCall } from "../dispatch/rig.js";
import { newDispatchId, newRunId } from "../harness/ids.js";

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const MAX_UINT32 = 4_294_967_295;
const silent = { debug() {}, info() {}, warn() {}, error() {} };

const dispatchOf = (days: number) => ({
  ...{
    dispatchId: newDispatchId(),
    runId: newRunId(),
    attempt: 1,
    dryRun: false,
    deadlineAt: Date.now() + days * DAY_MS,
  },
  call: makeCall({ timeoutMs: days * DAY_MS, heartbeatTimeoutMs: days * DAY_MS }),
});
const CALLBACK = { publicUrl: () => "http://saga.example", tokenOf: noToken };
const overGrpc = (days: number) => executeStep(dispatchOf(days), days * DAY_MS, noToken);
const overHttp = (days: number) => readStep(readMessage(stepJson(dispatchOf(days), days * DAY_MS, CALLBACK))).step;

/** What the action of a step sees, and the heartbeats of its worker. */
function executed(step: ExecuteStep): { readonly ctx: ActionContext; readonly beats: number[] } {
  const beats: number[] = [];
  let seen: ActionContext | undefined;
  const handlers = new Handlers("shop");
  const hang = defineAction({
    ...{ service: "shop", name: step.action, version: step.version, input: {}, output: {} },
  });
  const execute = (_: unknown, ctx: ActionContext) => {
    seen = ctx;
    return new Promise((resolve) => ctx.signal.addEventListener("abort", () => resolve({})));
  };
  handlers.add(hang, execute, {});
  const executor = new Executor<Origin>({
    ...{ handlers, outputBytes: 1_000, log: silent, answer: () => {} },
    heartbeat: () => beats.push(Date.now()),
  });
  expect(executor.execute(step, { live: true, heartbeatIntervalMs: 0 })).toBe(true);
  if (!seen) throw new Error("the action was not executed");
  return { ctx: seen, beats };
}

beforeEach(() => {
  vi.useFakeTimers({ now: Date.UTC(2026, 0, 1) });
});
afterEach(() => {
  vi.useRealTimers();
});

describe("an alarm", () => {
  it.each([1, 24, 25, 30, 60, 3_660])("of %i days rings once, then, and not before", (days) => {
    const ring = vi.fn();
    new Alarm(days * DAY_MS, ring);
    vi.advanceTimersByTime(days * DAY_MS - 1);
    expect(ring).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    vi.advanceTimersByTime(60 * DAY_MS);
    expect(ring).toHaveBeenCalledOnce();
  });

  it("without end never rings, and one that is stopped does not", () => {
    const ring = vi.fn();
    const [endless, stopped] = [new Alarm(Number.POSITIVE_INFINITY, ring), new Alarm(60 * DAY_MS, ring)];
    vi.advanceTimersByTime(30 * DAY_MS);
    stopped.stop();
    vi.advanceTimersByTime(1_000 * DAY_MS);
    expect(ring).not.toHaveBeenCalled();
    expect(vi.getTimerCount()).toBe(1);
    endless.stop();
    expect(vi.getTimerCount()).toBe(0);
  });

  it("of a time that has passed rings at once", () => {
    const ring = vi.fn();
    new Alarm(-1, ring).unref();
    vi.advanceTimersByTime(0);
    expect(ring).toHaveBeenCalledOnce();
  });
});

describe("the signal of a step", () => {
  it.each([
    ["over gRPC", 30, overGrpc],
    ["over gRPC", 60, overGrpc],
    ["over HTTP", 30, overHttp],
    ["over HTTP", 60, overHttp],
    ["over HTTP", 3_660, overHttp],
  ])("that came %s is aborted at its deadline in %i days, and not before", async (_, days, sent) => {
    const { ctx } = executed(sent(days));
    expect(ctx.deadline).toEqual(new Date(Date.now() + days * DAY_MS));
    await vi.advanceTimersByTimeAsync(days * DAY_MS - 1);
    expect(ctx.signal.aborted).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(ctx.signal.aborted).toBe(true);
  });

  it("is aborted by the time that is left, where the message can say it: the clock of the worker may differ", () => {
    const step = { ...overGrpc(1), deadline_at: new Date(Date.now() - HOUR_MS).toISOString() };
    expect(executed(step).ctx.deadline).toEqual(new Date(Date.now() + DAY_MS));
  });
});

describe("an answer", () => {
  it("is reported again by the time that is left: the clock of the worker may be ahead", async () => {
    vi.useRealTimers();
    const site = await Site.open((_, response) => response.writeHead(site.asked.length === 1 ? 503 : 202).end());
    const handlers = new Handlers("payments");
    const timing = { backoffMs: 1, backoffMaxMs: 2 };
    const core = new CalledWorkerCore({ service: "payments", api: site.url, log: silent, timing }, handlers);
    const dispatch = { ...dispatchOf(1), deadlineAt: Date.now() - HOUR_MS };
    const call = readStep(readMessage(stepJson(dispatch, DAY_MS, { ...CALLBACK, publicUrl: () => site.url })));
    const answer = await core.execute(call);
    if (!answer) throw new Error("the step was not executed");
    await core.report(call, answer);
    expect(site.asked).toHaveLength(2);
    await core.stop();
    await site.close();
  });
});

describe("heartbeats", () => {
  it("of a step that may go without one for ten years are not sent without a pause", async () => {
    const { beats } = executed(overHttp(3_660));
    await vi.advanceTimersByTimeAsync(25 * DAY_MS);
    expect(beats).toHaveLength(1);
  });
});

describe("the time of an attempt", () => {
  it("is what it is in JSON, and the most that the protocol can say over gRPC", () => {
    const sixty = { timeout_ms: 60 * DAY_MS, heartbeat_timeout_ms: 60 * DAY_MS };
    expect(JSON.parse(stepJson(dispatchOf(60), 60 * DAY_MS, CALLBACK))).toMatchObject(sixty);
    expect(overGrpc(60)).toMatchObject({ timeout_ms: MAX_UINT32, heartbeat_timeout_ms: MAX_UINT32 });
    expect(overGrpc(30)).toMatchObject({ timeout_ms: 30 * DAY_MS, heartbeat_timeout_ms: 30 * DAY_MS });
  });
});

describe("a dispatch that the node holds", () => {
  it("is given up at its deadline in 60 days, and not before", () => {
    const ring = vi.fn();
    const { dispatchId, call } = dispatchOf(60);
    const destination = { key: "q", pool: { group: "rmq", key: "q" }, holder: { host: "q", sharer: "q" } } as const;
    const held = new HeldDispatch(dispatchId, call, destination, { url: "q" } as never, false);
    held.alarm(60 * DAY_MS, ring);
    vi.advanceTimersByTime(60 * DAY_MS - 1);
    expect(ring).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(ring).toHaveBeenCalledOnce();
  });
});

describe("the times that a worker is given", () => {
  it("are at most what a timer can wait", () => {
    expect(completeTiming({ lookAgainMs: Number.POSITIVE_INFINITY, resendMs: 5 })).toMatchObject({
      ...{ lookAgainMs: 2 ** 31 - 1, resendMs: 5, backoffMs: 100 },
    });
  });
});
