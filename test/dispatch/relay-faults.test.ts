// Dispatches to workers of other nodes, over a bus that loses, doubles and delays, and with nodes and streams that go.

import { describe, expect, it } from "vitest";
import { asDispatchId } from "../../machines/index.js";
import { dispatchProtocol } from "../../src/dispatch/relay/messages.js";
import { answering, first, NEVER_MS, type Sent, useClusters } from "./relay-rig.js";
import { makeDispatch, type RawWorker, until } from "./rig.js";

const cluster = useClusters();

const isKind = (kind: string) => (sent: Sent) => sent.kind === kind;

/** What a worker that lost its connection says when it comes back. */
const naming = (worker: RawWorker) => ({ in_flight: worker.of("execute").map((step) => step.dispatch_id) });

describe("a message", () => {
  it.each(["dispatch.want", "dispatch.vouchers", "dispatch.hand", "dispatch.return", "dispatch.resolved", "answer"])(
    "%s, lost once: everything is executed, once, and its credit is free",
    async (kind) => {
      const c = await cluster(["a", "b"], { claimWaitMs: NEVER_MS });
      c.fate = first(1, "lost", isKind(kind));
      const w = answering(await c.worker("b", { max_in_flight: 2 }));
      const dispatches = Array.from({ length: 5 }, () => c.call("a"));
      await until(() => dispatches.every((dispatch) => c.isDone(dispatch)));
      expect(w.of("execute")).toHaveLength(5);
      const { dispatcher } = c.node("b");
      const [some] = dispatches;
      await until(() => ["x", "y"].every((id) => some && dispatcher.reserve(asDispatchId(id), some.call)));
    },
  );

  // No voucher lapses, however slow the machine: the refusals of three hands may all come too late, and then the owner waits for a claim.
  it.each([
    ["doubled", "doubled" as const],
    ["late", { lateMs: 70 }],
  ])("%s, each of them: everything is executed, once", async (_name, fate) => {
    const c = await cluster(["a", "b", "c"], { claimWaitMs: NEVER_MS, voucherMs: NEVER_MS });
    let sent = 0;
    c.fate = () => (fate === "doubled" || ++sent % 2 === 0 ? fate : undefined);
    for (const id of ["b", "c"]) answering(await c.worker(id, { max_in_flight: 2 }));
    const dispatches = Array.from({ length: 30 }, () => c.call("a"));
    await until(() => dispatches.every((dispatch) => c.isDone(dispatch)));
    for (const dispatch of dispatches) expect(c.executions(dispatch)).toHaveLength(1);
    // Nor was anything handed over with a voucher that had been used.
    if (fate === "doubled") expect(c.kinds("answer").filter(({ body }) => body.whereabouts === "never")).toEqual([]);
  });

  it("a hand that comes again after the answer executes nothing", async () => {
    const c = await cluster(["a", "b"], { handOverMs: NEVER_MS });
    c.fate = first(1, { againMs: 80 }, isKind("dispatch.hand"));
    const w = answering(await c.worker("b"));
    const dispatch = c.call("a");
    // The answers to a roll call say no whereabouts.
    const told = () => c.kinds("answer").flatMap(({ body }) => body.whereabouts ?? []);
    await until(() => c.isDone(dispatch) && told().length === 2);
    expect(told()).toEqual(["held", "gone"]);
    expect(w.of("execute")).toHaveLength(1);
  });

  it("a cancel that is lost is told again", async () => {
    const c = await cluster(["a", "b"]);
    c.fate = first(1, "lost", isKind("dispatch.cancel"));
    const w = await c.worker("b");
    const dispatch = c.call("a");
    await w.wait("execute");
    c.node("a").dispatcher.cancel(dispatch.dispatchId, "rolled back");
    await w.wait("cancel");
  });

  it("a dispatch that reaches its node after its deadline is dropped", async () => {
    const c = await cluster(["a", "b"]);
    c.fate = first(3, "lost", isKind("dispatch.hand"));
    const w = await c.worker("b", { max_in_flight: 1 });
    const dispatch = c.call("a");
    await until(() => c.kinds("dispatch.hand").length > 0);
    for (const { clock } of c.nodes.values()) clock.now = dispatch.deadlineAt + 1;
    const hand = dispatchProtocol.ask(c.kinds("dispatch.hand")[0]?.body ?? {});
    expect(hand && c.node("b").dispatcher.asked(hand)).toEqual({ whereabouts: "never" });
    await until(() => c.node("b").dispatcher.reserve(asDispatchId("x"), dispatch.call) !== undefined);
    expect(w.of("execute")).toHaveLength(0);
  });

  it("a voucher that has lapsed is refused, and the dispatch goes to another at once", async () => {
    const c = await cluster(["a", "b"], { claimWaitMs: NEVER_MS });
    const command = c.command.bind(c);
    let lapse: Promise<void> | undefined;
    c.command = async (runId, told) => {
      // The first offer takes longer than the voucher lives.
      if (told.type === "offer" && !lapse) {
        lapse = until(() => c.node("b").dispatcher.reserve(asDispatchId("x"), dispatch.call) !== undefined);
        await lapse;
        c.node("b").dispatcher.resolved(asDispatchId("x"));
      }
      return command(runId, told);
    };
    answering(await c.worker("b", { max_in_flight: 1 }));
    const dispatch = c.call("a");
    await until(() => c.isDone(dispatch));
    expect(c.kinds("answer").some(({ body }) => body.whereabouts === "never")).toBe(true);
    expect(c.executions(dispatch)).toHaveLength(1);
  });

  it("none at all gets through: calls wait for workers of their own node", async () => {
    const c = await cluster(["a", "b"]);
    c.fate = () => "lost";
    const w = answering(await c.worker("b"));
    const dispatch = c.call("a");
    await until(() => c.kinds("dispatch.want").length > 1);
    answering(await c.worker("a"));
    await until(() => c.isDone(dispatch));
    expect(w.of("execute")).toHaveLength(0);
  });

  it("none gets through any more once the dispatch is committed: it goes to a worker of its own node", async () => {
    const c = await cluster(["a", "b"]);
    c.onCommitted = () => {
      c.fate = () => "lost";
    };
    await c.worker("b");
    const dispatch = c.call("a");
    await until(() => c.kinds("dispatch.hand").length === 3);
    answering(await c.worker("a"));
    await until(() => c.isDone(dispatch));
  });
});

describe("a stream that ends on another node", () => {
  it.each([
    ["is told to the owner", 0],
    ["and nobody told the owner: the roll call finds it out", 1],
  ])("%s: the step goes to another worker, unchanged", async (_name, lost) => {
    const c = await cluster(["a", "b", "c"]);
    c.fate = first(lost, "lost", isKind("dispatch.lost"));
    const w = await c.worker("b");
    const dispatch = c.call("a");
    const before = await w.wait("execute");
    w.cut();
    const other = answering(await c.worker("c"));
    await until(() => c.isDone(dispatch));
    const { timeout_ms: _before, ...first_ } = before;
    const { timeout_ms: _after, ...second } = other.of("execute")[0];
    expect(second).toEqual(first_);
  });

  it("a worker that comes back there keeps its steps", async () => {
    const c = await cluster(["a", "b"], { claimWaitMs: NEVER_MS });
    const w = await c.worker("b");
    const dispatch = c.call("a");
    await w.wait("execute");
    await until(() => c.kinds("answer").some(({ body }) => body.whereabouts === "held"));
    w.cut();
    await until(() => c.kinds("dispatch.lost").length === 1);
    const back = await c.worker("b", naming(w));
    await until(() => c.node("b").dispatcher.holds(dispatch.dispatchId));
    expect(c.node("b").dispatcher.inFlight).toBe(1);
    back.result(dispatch);
    await back.wait("recorded");
    expect(c.executions(dispatch)).toHaveLength(1);
  });

  it.each([
    ["a third node", "c", 0],
    ["the owner's node", "a", 0],
    ["a third node, before its loss is known", "c", 9],
    ["the owner's node, before its loss is known", "a", 9],
  ])("a worker that comes back to %s keeps its steps: the owner hears its claim", async (_name, where, lost) => {
    const c = await cluster(["a", "b", "c"], { claimWaitMs: NEVER_MS, rollCallMs: NEVER_MS });
    c.fate = first(lost, "lost", isKind("dispatch.lost"));
    const w = await c.worker("b");
    const dispatch = c.call("a");
    await w.wait("execute");
    c.node("a").dispatcher.cancel(dispatch.dispatchId, "rolled back");
    w.cut();
    const back = await c.worker(where, { worker_id: "w-b", ...naming(w) });
    await until(() => c.node(where).dispatcher.inFlight === 1);
    expect(await back.wait("cancel")).toEqual({ dispatch_id: dispatch.dispatchId, reason: "rolled back" });
    back.result(dispatch);
    await back.wait("recorded");
    expect(c.isDone(dispatch)).toBe(true);
    expect(c.executions(dispatch)).toHaveLength(1);
  });

  it("a worker of the owner that comes back to another node keeps its steps", async () => {
    const c = await cluster(["a", "b"], { claimWaitMs: NEVER_MS });
    const w = await c.worker("a");
    const dispatch = c.call("a");
    await w.wait("execute");
    w.cut();
    const back = await c.worker("b", { worker_id: "w-a", ...naming(w) });
    answering(await c.worker("a", { worker_id: "other" }));
    await until(() => c.node("b").dispatcher.inFlight === 1);
    back.result(dispatch);
    await back.wait("recorded");
    expect(c.executions(dispatch)).toHaveLength(1);
  });

  it("a claim that says what is over takes nothing from the stream that its worker is on now", async () => {
    const c = await cluster(["a", "b"]);
    await (await c.worker("a")).wait("hello_ack");
    const dispatch = c.call("a");
    await until(() => c.node("a").dispatcher.inFlight === 1);
    const claim = { dispatch_id: dispatch.dispatchId, worker_id: "w-a", how: "held" } as const;
    c.node("a").dispatcher.told({ kind: "dispatch.claim", items: [claim] }, "b");
    expect(c.node("a").dispatcher.inFlight).toBe(1);
    expect(c.kinds("dispatch.hand")).toEqual([]);
  });

  it("what was lost at the owner goes to a worker of another node, before what is new", async () => {
    const c = await cluster(["a", "b"]);
    const w = await c.worker("a", { max_in_flight: 1 });
    const lost = c.call("a");
    await w.wait("execute");
    w.cut();
    const fresh = Array.from({ length: 3 }, () => c.call("a"));
    await until(() => c.kinds("dispatch.want").some(({ body }) => JSON.stringify(body).includes('"calls":4')));
    const other = answering(await c.worker("b", { max_in_flight: 1 }));
    await until(() => [lost, ...fresh].every((dispatch) => c.isDone(dispatch)));
    expect(other.of("execute")[0].dispatch_id).toBe(lost.dispatchId);
  });

  it("a node that stops in order hands on at once what its workers had", async () => {
    const c = await cluster(["a", "b", "c"], { rollCallMs: NEVER_MS });
    const w = await c.worker("b");
    const dispatch = c.call("a");
    await w.wait("execute");
    answering(await c.worker("c"));
    await c.node("b").stop();
    c.nodes.delete("b");
    await until(() => c.isDone(dispatch));
  });
});

describe("a node that dies", () => {
  it("what it had from another goes to any worker after the claim wait, unchanged", async () => {
    const c = await cluster(["a", "b", "c"]);
    const w = await c.worker("b");
    const dispatch = c.call("a");
    await w.wait("execute");
    const other = answering(await c.worker("c"));
    const killed = performance.now();
    await c.kill("b", "a");
    await until(() => c.isDone(dispatch));
    expect(performance.now() - killed).toBeGreaterThanOrEqual(150);
    expect(other.of("execute")[0]).toMatchObject({ dispatch_id: dispatch.dispatchId, attempt: 1 });
  });

  it("unless its worker claims it at another node in time", async () => {
    const c = await cluster(["a", "b", "c"], { claimWaitMs: NEVER_MS });
    const w = await c.worker("b");
    const dispatch = c.call("a");
    await w.wait("execute");
    answering(await c.worker("a", { worker_id: "other" }));
    await c.kill("b", "a");
    const back = await c.worker("c", { worker_id: "w-b", ...naming(w) });
    await until(() => c.node("c").dispatcher.inFlight === 1);
    back.result(dispatch);
    await back.wait("recorded");
    expect(c.executions(dispatch)).toHaveLength(1);
  });

  it("it owned the run: its heir learns who holds the step, before or after it asks the run, and sends nothing again", async () => {
    const c = await cluster(["a", "b", "c"], { claimWaitMs: NEVER_MS });
    const w = await c.worker("b");
    const [before, after] = [c.call("a"), c.call("a")];
    await w.wait("execute", 2);
    const other = answering(await c.worker("c"));
    await c.kill("a", "c");
    // The heir's poll finds what is owed: one as soon as it looks, the other when the claims have come.
    await c.command(before.runId, { type: "carry", dispatchId: before.dispatchId });
    await until(() => c.kinds("dispatch.claim").length > 0);
    await c.command(after.runId, { type: "carry", dispatchId: after.dispatchId });
    await until(
      () => c.kinds("answer").filter(({ from, body }) => from === "b" && body.whereabouts === "held").length >= 4,
    );
    for (const dispatch of [before, after]) w.result(dispatch);
    await w.wait("recorded", 2);
    expect(other.of("execute")).toHaveLength(0);
    expect([before, after].map((dispatch) => c.executions(dispatch).length)).toEqual([1, 1]);
  });
});

describe("a shard that moves", () => {
  it("its calls wait at their new owner, its dispatches stay with their workers", async () => {
    const c = await cluster(["a", "b"], { claimWaitMs: NEVER_MS });
    const w = await c.worker("a", { max_in_flight: 1 });
    const [held, waiting] = [c.call("a"), c.call("a")];
    await w.wait("execute");
    c.placed.set(0, "b");
    c.placeAll();
    expect(c.node("a").dispatcher.queued).toBe(0);
    for (const { runId, dispatchId } of [held, waiting]) await c.command(runId, { type: "carry", dispatchId });
    await until(() => c.kinds("answer").some(({ from, body }) => from === "a" && body.whereabouts === "held"));
    w.result(held);
    await w.wait("execute", 2);
    w.result(waiting);
    await w.wait("recorded", 2);
    expect([held, waiting].map((dispatch) => c.executions(dispatch).length)).toEqual([1, 1]);
  });

  it("what waits there for a claim is its new owner's to send again", async () => {
    const c = await cluster(["a", "b"]);
    const w = await c.worker("a");
    const dispatch = c.call("a");
    await w.wait("execute");
    w.cut();
    await until(() => c.node("a").dispatcher.inFlight === 0);
    expect(c.node("a").dispatcher.holds(dispatch.dispatchId)).toBe(true);
    c.placed.set(0, "b");
    c.placeAll();
    expect(c.node("a").dispatcher.holds(dispatch.dispatchId)).toBe(false);
  });

  it("to the node that its worker came back to: should the worker be lost again, its step is sent with its inputs", async () => {
    const c = await cluster(["a", "b"]);
    const w = await c.worker("a");
    const dispatch = c.call("a", { inputs: { amount: 12 } });
    await w.wait("execute");
    w.cut();
    const back = await c.worker("b", { worker_id: "w-a", ...naming(w) });
    await until(() => c.node("b").dispatcher.inFlight === 1);
    c.placed.set(0, "b");
    c.placeAll();
    const other = answering(await c.worker("b", { worker_id: "other" }));
    back.cut();
    await until(() => c.isDone(dispatch));
    expect(JSON.parse(other.of("execute")[0].inputs_json)).toEqual({ amount: 12 });
  });

  it("an offer that was committed at its new owner still uses the credit that was kept for it", async () => {
    const c = await cluster(["a", "b"], { claimWaitMs: NEVER_MS });
    const w = answering(await c.worker("a", { max_in_flight: 1 }));
    c.placed.set(0, "a");
    const command = c.command.bind(c);
    c.command = async (runId, told) => {
      if (told.type === "offer" && c.placed.get(0) === "a") {
        c.placed.set(0, "b");
        c.placeAll();
      }
      return command(runId, told);
    };
    const dispatch = c.call("a");
    await until(() => c.isDone(dispatch));
    expect(w.of("execute")).toHaveLength(1);
  });

  it("credit that nobody comes for is given back soon, not after a whole reservation", async () => {
    const c = await cluster(["a", "b"], { reservationMs: NEVER_MS });
    await c.worker("a", { max_in_flight: 1 });
    const dispatch = makeDispatch(c.node("a"), { dispatchId: c.call("b", { service: "other" }).dispatchId });
    expect(c.node("a").dispatcher.reserve(dispatch.dispatchId, dispatch.call)).toBeDefined();
    c.placeAll();
    expect(c.node("a").dispatcher.reserve(asDispatchId("x"), dispatch.call)).toBeUndefined();
    await until(() => c.node("a").dispatcher.reserve(asDispatchId("x"), dispatch.call) !== undefined);
  });
});
