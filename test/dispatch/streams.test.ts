// The worker protocol over a real socket: what a node says and does on a stream, and when it is lost.

import { randomUUID } from "node:crypto";
import { status } from "@grpc/grpc-js";
import { describe, expect, it } from "vitest";
import { type Answer, asDispatchId, asRunId, type Dispatch } from "../../machines/index.js";
import { notFound, overloaded } from "../../src/errors.js";
import { newDispatchId, newRunId } from "../harness/ids.js";
import { dispatchNow, makeCall, makeDispatch, until, useNodes } from "./rig.js";

const { node, worker, silentWorker } = useNodes();

describe("hello", () => {
  it("is acknowledged with the node, and again when the number of nodes changes", async () => {
    const n = await node({ nodeId: "node-7" });
    const w = await worker(n.target);
    expect(w.of("hello_ack")[0]).toEqual({
      node_id: "node-7",
      heartbeat_interval_ms: 1_000,
      node_count: 1,
      batches: true,
      credit: true,
    });
    n.clock.nodes = 3;
    expect(await w.wait("hello_ack", 2)).toMatchObject({ node_id: "node-7", node_count: 3 });
  });

  it.each([
    ["another first message", { drain: {} }],
    ["no worker_id", { hello: { worker_id: "", service: "payments" } }],
    ["an unprintable service", { hello: { worker_id: "w", service: "a b\u0000" } }],
  ])("%s ends the stream with INVALID_ARGUMENT", async (_name, message) => {
    const n = await node();
    const w = silentWorker(n.target);
    w.send(message);
    await until(() => w.ended);
    expect(w.error?.code).toBe(status.INVALID_ARGUMENT);
    expect(n.dispatcher.workers.connected).toBe(0);
  });

  it("that never comes ends the stream", async () => {
    const n = await node({ limits: { helloMs: 20 } });
    const w = silentWorker(n.target);
    await until(() => w.ended);
    expect(w.error?.code).toBe(status.INVALID_ARGUMENT);
  });

  it.each([
    ["of its worker", { streamsPerWorker: 2 }, "the worker has 2 streams to this node, the most it may have"],
    ["of the node", { streams: 2 }, "the node has 2 worker streams, the most it takes"],
    [
      "of its address",
      { streamsPerAddress: 2 },
      "the address 127.0.0.1 has 2 streams to this node, the most it may have",
    ],
  ])("beyond the most streams %s is refused, and the others live", async (_, limits, details) => {
    const n = await node({ limits });
    const first = await worker(n.target);
    await worker(n.target);
    const third = silentWorker(n.target);
    third.send({ hello: { worker_id: "w1", service: "payments", max_in_flight: 1 } });
    await until(() => third.ended);
    expect(third.error).toMatchObject({ code: status.RESOURCE_EXHAUSTED, details });
    expect([first.ended, n.dispatcher.workers.connected]).toEqual([false, 2]);
  });

  it.each([
    ["of its address", { streamsPerAddress: 2 }],
    ["of the node", { streams: 2 }],
  ])("is not needed for a stream to count among those %s, and one that has ended counts no more", async (_, limits) => {
    const n = await node({ limits });
    await worker(n.target);
    const mutes = [silentWorker(n.target), silentWorker(n.target)];
    await until(() => mutes.some(({ ended }) => ended));
    // Whichever came first counts.
    const [counted, refused] = mutes.toSorted((one, other) => Number(one.ended) - Number(other.ended));
    expect([counted?.ended, refused?.error?.code]).toEqual([false, status.RESOURCE_EXHAUSTED]);
    counted?.send({ hello: { worker_id: "", service: "" } });
    await until(() => counted?.ended === true);
    await worker(n.target);
    expect(n.dispatcher.workers.connected).toBe(2);
  });

  it.each([
    [
      "texts of more than a megabyte",
      { actions: Array(9_000).fill("x".repeat(128)) },
      /^the hello has \d+ bytes of text, more than 1048576$/,
    ],
    [
      "a name that no action has",
      { actions: ["charge", "no name"] },
      /^actions\[1\] must be 1 to 128 of A-Z a-z 0-9 _ . : -, or such a name with @ and a version$/,
    ],
    ["a name that is too long", { actions: ["x".repeat(129)] }, /^actions\[0\] must be 1 to 128 of/],
    ["too many actions", { actions: Array(10_001).fill("a") }, /^actions must have at most 10000 items$/],
  ])("with %s is refused, with the reason", async (_, hello, details) => {
    const n = await node();
    const w = silentWorker(n.target);
    w.send({ hello: { worker_id: "w1", service: "payments", ...hello } });
    await until(() => w.ended);
    expect(w.error).toMatchObject({ code: status.INVALID_ARGUMENT, details: expect.stringMatching(details) });
  });

  it("said twice ends the stream", async () => {
    const n = await node();
    const w = await worker(n.target);
    w.send({ hello: { worker_id: "w1", service: "payments" } });
    await until(() => w.error?.code === status.INVALID_ARGUMENT);
  });
});

describe("a step", () => {
  it("travels whole, with the time that remains", async () => {
    const n = await node();
    const w = await worker(n.target);
    n.clock.now += 500;
    const call = makeCall({
      phase: "compensation",
      heartbeatTimeoutMs: 900,
      forwardIdempotencyKey: "key-0",
      inputs: { text: "é", big: 1.5 },
    });
    const deadlineAt = n.clock.now + 7_000;
    const dispatch = dispatchNow(n, { call, deadlineAt, tenantId: "acme", dryRun: true, attempt: 4 });
    const { inputs_json, message: _message, ...step } = await w.wait("execute");
    expect(step).toEqual({
      dispatch_id: dispatch.dispatchId,
      run_id: dispatch.runId,
      step_id: "charge",
      attempt: 4,
      service: "payments",
      action: "charge",
      version: 1,
      idempotency_key: "key-1",
      deadline_at: new Date(deadlineAt).toISOString(),
      dry_run: true,
      phase: "COMPENSATION",
      tenant_id: "acme",
      traceparent: "",
      timeout_ms: 7_000,
      heartbeat_timeout_ms: 900,
      forward_idempotency_key: "key-0",
      callback_token: "",
    });
    expect(JSON.parse(inputs_json.toString())).toEqual({ text: "é", big: 1.5 });
  });

  it("sent twice by the run goes out once", async () => {
    const n = await node();
    const w = await worker(n.target);
    const dispatch = dispatchNow(n);
    n.dispatcher.send(dispatch);
    dispatchNow(n);
    await w.wait("execute", 2);
    expect(new Set(w.of("execute").map((step) => step.dispatch_id)).size).toBe(2);
  });
});

describe("an answer", () => {
  it("is acknowledged only after its transition is committed", async () => {
    const n = await node();
    const w = await worker(n.target);
    const [slow, quick] = [dispatchNow(n), dispatchNow(n)];
    let commit: (answer: Answer) => void = () => {};
    n.runs.reply = ({ runId }) =>
      runId === slow.runId
        ? new Promise((resolve) => {
            commit = resolve;
          })
        : { type: "report", stale: true };
    w.result(slow, { paid: 1 });
    w.result(slow, { paid: 1 });
    w.result(quick);
    expect(await w.wait("recorded")).toEqual({ dispatch_id: quick.dispatchId, stale: true });
    expect(n.dispatcher.holds(slow.dispatchId)).toBe(true);
    commit({ type: "report", stale: false });
    expect(await w.wait("recorded", 2)).toEqual({ dispatch_id: slow.dispatchId, stale: false });
    expect(n.dispatcher.holds(slow.dispatchId)).toBe(false);
    const { dispatchId } = slow;
    expect(n.runs.of("result")[0]).toEqual({
      type: "result",
      dispatchId,
      stepId: "charge",
      attempt: 1,
      actor: "worker:w1",
      arrivedAt: n.clock.now,
      service: "payments",
      result: { paid: 1 },
    });
    expect(n.runs.told.filter(({ runId }) => runId === slow.runId)).toHaveLength(1);
  });

  it("that met a 503 is not acknowledged; sent again, it is the same command", async () => {
    const n = await node();
    const w = await worker(n.target);
    const dispatch = dispatchNow(n);
    let tries = 0;
    n.runs.reply = () => {
      if (++tries <= 2) throw overloaded("not learnt in time");
      return { type: "report", stale: false };
    };
    for (const nth of [1, 2]) {
      w.result(dispatch);
      await until(() => n.runs.told.length === nth);
    }
    expect(w.of("recorded")).toEqual([]);
    w.result(dispatch);
    await w.wait("recorded");
    expect(new Set(n.runs.told.map(({ options }) => options?.id)).size).toBe(1);
    expect(n.logged.filter((line) => line.includes("could not be recorded"))).toHaveLength(1);
  });

  it("is stamped with database time when it arrives, and keeps that time when it is sent again", async () => {
    const n = await node();
    const w = await worker(n.target);
    n.runs.reply = () => {
      if (n.runs.told.length === 1) throw overloaded("busy");
      return { type: "report", stale: false };
    };
    const dispatch = dispatchNow(n);
    const arrivedAt = n.clock.now;
    w.result(dispatch);
    await until(() => n.logged.some((line) => line.includes("could not be recorded")));
    n.clock.now += 60_000;
    w.result(dispatch);
    await w.wait("recorded");
    expect(n.runs.of("result").map((command) => command.arrivedAt)).toEqual([arrivedAt, arrivedAt]);
  });

  it("for a purged run is acknowledged as stale", async () => {
    const n = await node();
    const w = await worker(n.target);
    n.runs.reply = () => {
      throw notFound("no such run");
    };
    const dispatch = makeDispatch(n);
    w.result(dispatch);
    expect(await w.wait("recorded")).toEqual({ dispatch_id: dispatch.dispatchId, stale: true });
  });

  it("that fails is a failure, retryable where nothing is said of it, its text made storable", async () => {
    const n = await node();
    const w = await worker(n.target);
    const [first, second] = [dispatchNow(n), dispatchNow(n)];
    w.failure(first, { code: "card_declined", message: "no\u0000pe" });
    w.failure(second, { code: "", message: "", retryable: false, outcome_unknown: true });
    await w.wait("recorded", 2);
    expect(n.runs.of("failure")).toMatchObject([
      { code: "card_declined", message: "no\uFFFDpe", retryable: true, outcomeUnknown: false },
      { code: "error", message: "", retryable: false, outcomeUnknown: true },
    ]);
  });

  it.each([
    ["that is not JSON", Buffer.from("{nope"), "schema_mismatch"],
    ["that is no object", Buffer.from("[1]"), "schema_mismatch"],
    ["of broken UTF-8", Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), "schema_mismatch"],
    ["with U+0000", Buffer.from('{"a":"\\u0000"}'), "schema_mismatch"],
    ["with a lone surrogate", Buffer.from('{"a":"\\ud800"}'), "schema_mismatch"],
    ["with a number beyond a double", Buffer.from('{"a":1e999}'), "schema_mismatch"],
    ["nested without end", Buffer.from(`{"a":${"[".repeat(200_000)}${"]".repeat(200_000)}}`), "schema_mismatch"],
    ["over the limit", Buffer.from(JSON.stringify({ a: "x".repeat(1_048_576) })), "limit_exceeded"],
    ["of 5 MiB", Buffer.from(JSON.stringify({ a: "x".repeat(5 * 1_048_576) })), "limit_exceeded"],
    ["of almost 16 MiB", Buffer.from(JSON.stringify({ a: "x".repeat(16 * 1_048_576 - 1_000) })), "limit_exceeded"],
  ])("%s fails its step for good, with its effect to be undone", async (_name, bytes, code) => {
    const n = await node();
    const w = await worker(n.target);
    const { dispatchId, runId } = dispatchNow(n);
    w.send({ result: { dispatch_id: dispatchId, run_id: runId, step_id: "charge", attempt: 1, result_json: bytes } });
    await w.wait("recorded");
    expect(n.runs.of("failure")).toMatchObject([{ dispatchId, code, retryable: false, outcomeUnknown: true }]);
  });

  it("with no bytes is {}", async () => {
    const n = await node();
    const w = await worker(n.target);
    const { dispatchId, runId } = dispatchNow(n);
    w.send({ result: { dispatch_id: dispatchId, run_id: runId } });
    await w.wait("recorded");
    expect(n.runs.of("result")).toMatchObject([{ type: "result", dispatchId, actor: "worker:w1", result: {} }]);
  });

  it("in a message over 16 MiB closes its stream, with the reason", async () => {
    const n = await node();
    const w = await worker(n.target);
    const { dispatchId, runId } = dispatchNow(n);
    const result_json = Buffer.alloc(16 * 1_048_576 + 1, "x");
    w.send({ result: { dispatch_id: dispatchId, run_id: runId, result_json } });
    await until(() => w.ended);
    expect(w.error?.code).toBe(status.RESOURCE_EXHAUSTED);
    expect(w.error?.details).toMatch(/larger than max \(\d+ vs\.? 16777216\)/);
    expect(n.runs.told).toEqual([]);
  });

  it.each([
    ["result", { result: { dispatch_id: "nonsense", run_id: randomUUID() } }],
    ["result without its run", { result: { dispatch_id: randomUUID() } }],
    ["failure", { failure: { run_id: randomUUID(), code: "x" } }],
    ["heartbeat", { heartbeat: {} }],
  ])("a %s that names no dispatch ends the stream with INVALID_ARGUMENT", async (_name, message) => {
    const n = await node();
    const w = await worker(n.target);
    w.send(message);
    await until(() => w.ended);
    expect(w.error?.code).toBe(status.INVALID_ARGUMENT);
    expect(n.runs.told).toHaveLength(0);
  });

  it("that names its dispatch and its run in upper case is theirs, and so are a heartbeat and a claim", async () => {
    const n = await node({ limits: { claimWaitMs: 60_000 } });
    const first = await worker(n.target, { worker_id: "w1", max_in_flight: 1 });
    const dispatch = dispatchNow(n, { call: makeCall({ heartbeatTimeoutMs: 1_000 }) });
    const elsewhere = makeDispatch(n);
    await first.wait("execute");
    first.cut();
    await until(() => n.dispatcher.workers.connected === 0);
    const upper = ({ dispatchId, runId, ...rest }: Dispatch): Dispatch => ({
      ...rest,
      dispatchId: asDispatchId(dispatchId.toUpperCase()),
      runId: asRunId(runId.toUpperCase()),
    });
    const in_flight = [upper(dispatch).dispatchId];
    const again = await worker(n.target, { worker_id: "w1", max_in_flight: 1, in_flight });
    expect(n.dispatcher.inFlight).toBe(1);
    again.send({ heartbeat: { dispatch_id: upper(dispatch).dispatchId } });
    again.result(upper(dispatch));
    again.failure(upper(elsewhere), { code: "x" });
    await again.wait("recorded", 2);
    for (const [told, { runId, dispatchId }] of [
      ["heartbeat", dispatch],
      ["result", dispatch],
      ["failure", elsewhere],
    ] as const)
      expect(n.runs.told).toContainEqual(
        expect.objectContaining({ runId, command: expect.objectContaining({ type: told, dispatchId }) }),
      );
    const ids = [dispatch, elsewhere].map(({ dispatchId }) => dispatchId);
    expect(new Set(again.of("recorded").map(({ dispatch_id }) => dispatch_id))).toEqual(new Set(ids));
  });

  it("is still acknowledged to a worker that has closed its side", async () => {
    const n = await node();
    const w = await worker(n.target);
    const dispatch = dispatchNow(n);
    w.result(dispatch);
    w.halfClose();
    await w.wait("recorded");
    await until(() => w.ended);
    expect(w.error).toBeUndefined();
  });
});

describe("a dispatch belongs to the service that it was given to", () => {
  it("an answer and a heartbeat of another service's stream are refused with the reason, and change nothing", async () => {
    const n = await node();
    const [own, other] = [await worker(n.target), await worker(n.target, { worker_id: "w2", service: "shipping" })];
    const dispatch = dispatchNow(n, { call: makeCall({ heartbeatTimeoutMs: 1_000 }) });
    other.send({ heartbeat: { dispatch_id: dispatch.dispatchId } });
    other.result(dispatch);
    expect(await other.wait("recorded")).toEqual({ dispatch_id: dispatch.dispatchId, stale: true });
    const reason = "the dispatch belongs to the service payments";
    expect(await other.wait("cancel", 2)).toEqual({ dispatch_id: dispatch.dispatchId, reason });
    expect([n.runs.told, n.dispatcher.holds(dispatch.dispatchId)]).toEqual([[], true]);
    own.result(dispatch);
    await own.wait("recorded");
    expect(n.runs.of("result")).toMatchObject([{ actor: "worker:w1", service: "payments" }]);
  });

  it("a claim of another service's stream is refused: the dispatch goes to its own", async () => {
    const n = await node();
    const dispatch = makeDispatch(n);
    const early = await worker(n.target, { worker_id: "w2", service: "shipping", in_flight: [dispatch.dispatchId] });
    n.dispatcher.send(dispatch);
    const late = await worker(n.target, { worker_id: "w3", service: "shipping", in_flight: [dispatch.dispatchId] });
    expect(await late.wait("cancel")).toMatchObject({ reason: "the dispatch belongs to the service payments" });
    const own = await worker(n.target);
    expect((await own.wait("execute")).dispatch_id).toBe(dispatch.dispatchId);
    expect([early.of("execute"), late.of("execute")]).toEqual([[], []]);
  });

  it("where only the run knows the dispatch, its refusal reaches the worker", async () => {
    const n = await node();
    const w = await worker(n.target, { service: "shipping" });
    n.runs.reply = () => ({ type: "report", stale: true, reason: "the dispatch belongs to the service payments" });
    w.result(makeDispatch(n));
    await w.wait("recorded");
    expect(w.of("cancel")).toMatchObject([{ reason: "the dispatch belongs to the service payments" }]);
  });
});

describe("a lost stream", () => {
  /** A step that a second worker has by now, when the first one comes back and names it. */
  async function sentAgain() {
    const n = await node();
    const first = await worker(n.target, { worker_id: "first" });
    const dispatch = dispatchNow(n);
    await first.wait("execute");
    first.cut();
    const second = await worker(n.target, { worker_id: "second", max_in_flight: 1 });
    await second.wait("execute");
    const back = await worker(n.target, { worker_id: "first", max_in_flight: 1, in_flight: [dispatch.dispatchId] });
    return { n, dispatch, second, back };
  }

  it("its steps go to another worker, unchanged", async () => {
    const n = await node();
    const lost = await worker(n.target, { worker_id: "lost" });
    dispatchNow(n);
    const before = await lost.wait("execute");
    const other = await worker(n.target, { worker_id: "other" });
    n.clock.now += 1_000;
    lost.cut();
    const after = await other.wait("execute");
    expect(after).toEqual({ ...before, timeout_ms: before.timeout_ms - 1_000 });
  });

  it("its steps go ahead of those that queue", async () => {
    const n = await node();
    const lost = await worker(n.target, { worker_id: "lost" });
    const dispatch = makeDispatch(n);
    n.dispatcher.reserve(dispatch.dispatchId, dispatch.call);
    lost.cut();
    await until(() => n.dispatcher.workers.connected === 0);
    const other = await worker(n.target, { worker_id: "other", max_in_flight: 1 });
    const first = dispatchNow(n);
    n.dispatcher.enqueue(newRunId(), newDispatchId(), makeCall());
    n.dispatcher.send(dispatch);
    other.result(first);
    expect((await other.wait("execute", 2)).dispatch_id).toBe(dispatch.dispatchId);
    expect(n.runs.of("offer")).toEqual([]);
    other.result(dispatch);
    await until(() => n.runs.of("offer").length === 1);
  });

  it("a hello anew, with other actions, touches nothing in flight: the answer is recorded, wherever it comes", async () => {
    const n = await node();
    const first = await worker(n.target, { worker_id: "w1", actions: ["charge@1"] });
    const [one, other] = [dispatchNow(n), dispatchNow(n)];
    await first.wait("execute", 2);
    const anew = await worker(n.target, { worker_id: "w1", actions: ["refund"] });
    first.result(one, { by: "the old stream" });
    anew.result(other, { by: "the new stream" });
    expect(await first.wait("recorded")).toEqual({ dispatch_id: one.dispatchId, stale: false });
    expect(await anew.wait("recorded")).toEqual({ dispatch_id: other.dispatchId, stale: false });
    expect(anew.of("execute")).toEqual([]);
    expect(n.runs.of("result").map(({ result }) => result)).toEqual([
      { by: "the old stream" },
      { by: "the new stream" },
    ]);
  });

  it("a worker that claims its steps keeps them: nothing is sent again", async () => {
    const n = await node({ limits: { claimWaitMs: 60_000 } });
    const first = await worker(n.target, { worker_id: "w1", max_in_flight: 1 });
    const dispatch = dispatchNow(n);
    await first.wait("execute");
    first.cut();
    await until(() => n.dispatcher.workers.connected === 0);
    const again = await worker(n.target, { worker_id: "w1", max_in_flight: 1, in_flight: [dispatch.dispatchId] });
    const other = await worker(n.target, { worker_id: "w2", max_in_flight: 1 });
    expect(n.dispatcher.inFlight).toBe(1);
    expect(n.dispatcher.reserve(newDispatchId(), makeCall())).toEqual({ workerId: "w2" });
    expect(n.dispatcher.reserve(newDispatchId(), makeCall())).toBeUndefined();
    n.dispatcher.cancel(dispatch.dispatchId, "over");
    await again.wait("cancel");
    again.result(dispatch);
    await again.wait("recorded");
    expect([...again.of("execute"), ...other.of("execute")]).toEqual([]);
  });

  it("a worker that names what no run waits for has that much less credit, until it answers or the deadline is over", async () => {
    const n = await node({ limits: { claimWaitMs: 60_000 } });
    const free = () => n.dispatcher.reserve(newDispatchId(), makeCall());
    const first = await worker(n.target, { worker_id: "w1", max_in_flight: 2 });
    const [answered, silent] = [dispatchNow(n), dispatchNow(n)];
    await first.wait("execute", 2);
    for (const { dispatchId } of [answered, silent]) n.dispatcher.resolved(dispatchId);
    first.cut();
    await until(() => n.dispatcher.workers.connected === 0);
    const in_flight = [answered.dispatchId, silent.dispatchId];
    const again = await worker(n.target, { worker_id: "w1", max_in_flight: 2, in_flight });
    expect(free()).toBeUndefined();
    again.result(answered);
    await until(() => free() !== undefined);
    expect(free()).toBeUndefined();
    n.clock.now = silent.deadlineAt + 1;
    await until(() => free() !== undefined);
    expect(free()).toBeUndefined();
  });

  it("what a node does not know takes credit for as long as a claim is remembered", async () => {
    const n = await node({ limits: { claimMemoryMs: 5_000 } });
    const free = () => n.dispatcher.reserve(newDispatchId(), makeCall());
    await worker(n.target, { worker_id: "w1", max_in_flight: 1, in_flight: [newDispatchId()] });
    expect(free()).toBeUndefined();
    n.clock.now += 5_000;
    await until(() => free() !== undefined);
    expect(free()).toBeUndefined();
  });

  it("a worker that names what another one has by now has that much less credit, until it answers", async () => {
    const { n, dispatch, second, back } = await sentAgain();
    expect(n.dispatcher.reserve(newDispatchId(), makeCall())).toBeUndefined();
    second.result(dispatch);
    await second.wait("recorded");
    n.dispatcher.resolved(dispatch.dispatchId);
    expect(n.dispatcher.reserve(newDispatchId(), makeCall())).toEqual({ workerId: "second" });
    expect(n.dispatcher.reserve(newDispatchId(), makeCall())).toBeUndefined();
    back.result(dispatch);
    await until(() => n.dispatcher.reserve(newDispatchId(), makeCall()) !== undefined);
  });

  it("a claim may come before the node knows the dispatch (recovery)", async () => {
    const n = await node();
    const dispatch = makeDispatch(n);
    const w = await worker(n.target, { max_in_flight: 1, in_flight: [dispatch.dispatchId, "no uuid"] });
    n.dispatcher.send(dispatch);
    expect(n.dispatcher.inFlight).toBe(1);
    w.result(dispatch);
    await w.wait("recorded");
    expect(w.of("execute")).toEqual([]);
  });

  it("a dispatch committed elsewhere is handed over when nobody claims it", async () => {
    const n = await node();
    const w = await worker(n.target);
    const dispatch = makeDispatch(n);
    n.dispatcher.send(dispatch);
    expect(n.dispatcher.holds(dispatch.dispatchId)).toBe(true);
    expect((await w.wait("execute")).dispatch_id).toBe(dispatch.dispatchId);
  });

  it("what was only reserved there is sent elsewhere at once", async () => {
    const n = await node({ limits: { claimWaitMs: 60_000 } });
    const w = await worker(n.target, { worker_id: "w1", max_in_flight: 9 });
    const other = await worker(n.target, { worker_id: "w2" });
    const dispatch = makeDispatch(n);
    expect(n.dispatcher.reserve(dispatch.dispatchId, dispatch.call)).toEqual({ workerId: "w1" });
    w.cut();
    await until(() => n.dispatcher.workers.connected === 1);
    n.dispatcher.send(dispatch);
    expect((await other.wait("execute")).dispatch_id).toBe(dispatch.dispatchId);
  });

  it("nothing is handed over after its deadline", async () => {
    const n = await node();
    const late = makeDispatch(n, { deadlineAt: n.clock.now });
    n.dispatcher.send(late);
    expect(n.dispatcher.holds(late.dispatchId)).toBe(false);
    const waiting = makeDispatch(n);
    n.dispatcher.send(waiting);
    n.clock.now = waiting.deadlineAt + 1;
    const w = await worker(n.target);
    await until(() => !n.dispatcher.holds(waiting.dispatchId));
    const next = dispatchNow(n);
    expect((await w.wait("execute")).dispatch_id).toBe(next.dispatchId);
  });

  it("an answer from the first worker counts although the step was sent again to a second", async () => {
    const { n, dispatch, second, back } = await sentAgain();
    back.result(dispatch);
    await back.wait("recorded");
    // The second is at it still: its credit stays taken.
    expect(n.dispatcher.reserve(newDispatchId(), makeCall())).toEqual({ workerId: "first" });
    expect(n.dispatcher.reserve(newDispatchId(), makeCall())).toBeUndefined();
    second.result(dispatch);
    await second.wait("recorded");
    expect(n.dispatcher.reserve(newDispatchId(), makeCall())).toEqual({ workerId: "second" });
  });
});

describe("drain, cancel, heartbeat", () => {
  it("a draining worker gets nothing new and is still heard", async () => {
    const n = await node();
    const w = await worker(n.target, { max_in_flight: 5 });
    const dispatch = dispatchNow(n);
    w.send({ drain: {} });
    await until(() => n.dispatcher.reserve(newDispatchId(), makeCall()) === undefined);
    w.result(dispatch);
    expect((await w.wait("recorded")).dispatch_id).toBe(dispatch.dispatchId);
    expect(n.dispatcher.reserve(newDispatchId(), makeCall())).toBeUndefined();
  });

  it("a cancel reaches the stream that holds the step, and no other; a lost one is begun nowhere", async () => {
    const n = await node();
    const holder = await worker(n.target, { worker_id: "w1", max_in_flight: 3 });
    const other = await worker(n.target, { worker_id: "w2", max_in_flight: 2 });
    const dispatch = dispatchNow(n);
    n.dispatcher.cancel(dispatch.dispatchId, "rolled back");
    n.dispatcher.cancel(newDispatchId(), "unknown");
    expect(await holder.wait("cancel")).toEqual({ dispatch_id: dispatch.dispatchId, reason: "rolled back" });
    expect(other.of("cancel")).toEqual([]);
    holder.cut();
    await until(() => n.dispatcher.workers.connected === 1);
    const lost = makeDispatch(n);
    n.dispatcher.send(lost);
    await other.wait("execute");
    expect(other.of("execute").map((step) => step.dispatch_id)).toEqual([lost.dispatchId]);
  });

  it("heartbeats are coalesced, and forwarded only where the step asked for them", async () => {
    const n = await node();
    const w = await worker(n.target);
    const asked = dispatchNow(n, { call: makeCall({ heartbeatTimeoutMs: 60_000 }) });
    const unasked = dispatchNow(n);
    for (let nth = 0; nth < 20; nth++) {
      w.send({ heartbeat: { dispatch_id: asked.dispatchId } });
      w.send({ heartbeat: { dispatch_id: unasked.dispatchId } });
      w.send({ heartbeat: { dispatch_id: randomUUID() } });
    }
    w.result(unasked);
    await w.wait("recorded");
    expect(n.runs.of("heartbeat")).toEqual([
      { type: "heartbeat", dispatchId: asked.dispatchId, actor: "worker:w1", service: "payments" },
    ]);
  });

  it("a heartbeat is forwarded again after a third of its timeout", async () => {
    const n = await node();
    const w = await worker(n.target);
    const { dispatchId } = dispatchNow(n, { call: makeCall({ heartbeatTimeoutMs: 60 }) });
    await until(() => {
      w.send({ heartbeat: { dispatch_id: dispatchId } });
      return n.runs.of("heartbeat").length >= 3;
    });
  });
});

describe("ends", () => {
  it("stop records the answers under way, then closes the streams with UNAVAILABLE", async () => {
    const n = await node();
    const w = await worker(n.target);
    const [answered, held] = [dispatchNow(n), dispatchNow(n)];
    let commit: () => void = () => {};
    n.runs.reply = () =>
      new Promise((resolve) => {
        commit = () => resolve({ type: "report", stale: false });
      });
    w.result(answered);
    await until(() => n.runs.told.length === 1);
    const stopping = n.dispatcher.stop(5_000);
    expect(n.dispatcher.reserve(newDispatchId(), makeCall())).toBeUndefined();
    expect(w.ended).toBe(false);
    commit();
    await stopping;
    await until(() => w.ended);
    expect(w.of("recorded")).toEqual([{ dispatch_id: answered.dispatchId, stale: false }]);
    expect(w.error?.code).toBe(status.UNAVAILABLE);
    expect(n.dispatcher.holds(held.dispatchId)).toBe(false);
  });

  it("stop does not wait longer than its grace", async () => {
    const n = await node();
    const w = await worker(n.target);
    n.runs.reply = () => new Promise(() => {});
    w.result(dispatchNow(n));
    await until(() => n.runs.told.length === 1);
    await n.dispatcher.stop(10);
    await until(() => w.ended);
    expect(w.of("recorded")).toEqual([]);
  });
});
