// Who gets credit, and when: the queue, the offers, reservations and their end.

import { describe, expect, it } from "vitest";
import { asDispatchId } from "../../machines/index.js";
import { FairQueue } from "../../src/dispatch/fair-queue.js";
import { createDispatcher } from "../../src/dispatch/node-dispatcher.js";
import { notFound, overloaded } from "../../src/errors.js";
import { FairScheduler } from "../../src/work/fair-scheduler.js";
import { newDispatchId, newRunId } from "../harness/ids.js";
import { dispatchNow, makeCall, makeDispatch, until, useNodes } from "./rig.js";

const { node, worker } = useNodes();

describe("credit", () => {
  it("is never exceeded: a stream has at most max_in_flight steps unanswered", async () => {
    const n = await node();
    const w = await worker(n.target, { max_in_flight: 2 });
    const first = dispatchNow(n);
    dispatchNow(n);
    expect(n.dispatcher.reserve(newDispatchId(), makeCall())).toBeUndefined();
    await w.wait("execute", 2);
    w.result(first);
    await w.wait("recorded");
    expect(n.dispatcher.reserve(newDispatchId(), makeCall())).toEqual({ workerId: "w1" });
    expect(n.dispatcher.reserve(newDispatchId(), makeCall())).toBeUndefined();
  });

  it("max_in_flight 0 means 1", async () => {
    const n = await node();
    await worker(n.target, { max_in_flight: 0 });
    dispatchNow(n);
    expect(n.dispatcher.reserve(newDispatchId(), makeCall())).toBeUndefined();
  });

  it("a repeated reserve is the same reservation", async () => {
    const n = await node();
    await worker(n.target, { max_in_flight: 1 });
    const id = newDispatchId();
    expect(n.dispatcher.reserve(id, makeCall())).toEqual({ workerId: "w1" });
    expect(n.dispatcher.reserve(id, makeCall())).toEqual({ workerId: "w1" });
    n.dispatcher.resolved(id);
    expect(n.dispatcher.holds(id)).toBe(false);
    expect(n.dispatcher.reserve(newDispatchId(), makeCall())).toBeDefined();
  });

  it("goes only to workers of the service that name the action, its version, or none at all", async () => {
    const n = await node();
    await worker(n.target, { worker_id: "named", actions: ["refund"] });
    await worker(n.target, { worker_id: "versioned", actions: ["charge@2"] });
    await worker(n.target, { worker_id: "other", service: "stock" });
    const reserve = (action: string, version: number) =>
      n.dispatcher.reserve(newDispatchId(), makeCall({ action, version }));
    expect(reserve("charge", 1)).toBeUndefined();
    expect(reserve("charge", 2)).toEqual({ workerId: "versioned" });
    expect(reserve("refund", 9)).toEqual({ workerId: "named" });
    expect(n.dispatcher.reserve(newDispatchId(), makeCall({ service: "stock" }))).toEqual({ workerId: "other" });
  });

  it("is taken where most is free, in turn where it is equal", async () => {
    const n = await node();
    await worker(n.target, { worker_id: "big", max_in_flight: 3 });
    await worker(n.target, { worker_id: "small", max_in_flight: 1 });
    await worker(n.target, { worker_id: "small2", max_in_flight: 1 });
    const ids = [1, 2, 3, 4, 5].map(() => n.dispatcher.reserve(newDispatchId(), makeCall())?.workerId);
    expect(ids.slice(0, 2)).toEqual(["big", "big"]);
    expect(ids.slice(2).sort()).toEqual(["big", "small", "small2"]);
  });

  it("of a reservation that nothing follows is given back", async () => {
    const n = await node({ limits: { reservationMs: 20 } });
    await worker(n.target, { max_in_flight: 1 });
    const id = newDispatchId();
    n.dispatcher.reserve(id, makeCall());
    await until(() => !n.dispatcher.holds(id));
    expect(n.dispatcher.reserve(newDispatchId(), makeCall())).toBeDefined();
  });

  it("of a reservation that was followed by its step is not", async () => {
    const n = await node({ limits: { reservationMs: 20 } });
    await worker(n.target, { max_in_flight: 2 });
    const dispatch = dispatchNow(n);
    const later = newDispatchId();
    n.dispatcher.reserve(later, makeCall());
    await until(() => !n.dispatcher.holds(later));
    expect(n.dispatcher.holds(dispatch.dispatchId)).toBe(true);
    expect(n.dispatcher.inFlight).toBe(1);
  });

  it("stays taken by a step that was resolved unanswered, until its deadline", async () => {
    const n = await node();
    const w = await worker(n.target, { max_in_flight: 1 });
    const dispatch = dispatchNow(n);
    await w.wait("execute");
    n.dispatcher.resolved(dispatch.dispatchId);
    expect(n.dispatcher.holds(dispatch.dispatchId)).toBe(false);
    expect(n.dispatcher.reserve(newDispatchId(), makeCall())).toBeUndefined();
    n.clock.now = dispatch.deadlineAt + 1;
    await until(() => n.dispatcher.reserve(newDispatchId(), makeCall()) !== undefined);
  });
});

describe("the queue", () => {
  it("offers what waits as soon as a worker says hello, and sends it on the stream whose credit it reserved", async () => {
    const n = await node();
    const dispatch = makeDispatch(n);
    n.runs.reply = ({ command }) => {
      if (command.type === "offer") n.dispatcher.send(dispatch);
      return command.type === "offer" ? { type: "advanced" } : { type: "report", stale: false };
    };
    n.dispatcher.enqueue(dispatch.runId, dispatch.dispatchId, dispatch.call);
    n.dispatcher.enqueue(dispatch.runId, dispatch.dispatchId, dispatch.call);
    expect(n.dispatcher.queued).toBe(1);
    const w = await worker(n.target);
    expect((await w.wait("execute")).dispatch_id).toBe(dispatch.dispatchId);
    expect(n.runs.of("offer")).toEqual([{ type: "offer", dispatchId: dispatch.dispatchId, workerId: "w1" }]);
    expect(n.dispatcher.queued).toBe(0);
    expect(n.dispatcher.inFlight).toBe(1);
  });

  it("never has more offers under way than there is credit, and goes on when they are refused", async () => {
    const n = await node();
    const releases: (() => void)[] = [];
    n.runs.reply = () =>
      new Promise((resolve) => releases.push(() => resolve({ type: "refused", reason: "cancelled" })));
    for (let index = 0; index < 5; index++) n.dispatcher.enqueue(newRunId(), newDispatchId(), makeCall());
    await worker(n.target, { max_in_flight: 2 });
    expect(n.runs.of("offer")).toHaveLength(2);
    releases[0]?.();
    await until(() => n.runs.of("offer").length === 3);
    expect(releases).toHaveLength(3);
    releases[1]?.();
    releases[2]?.();
    await until(() => releases.length === 5);
    for (const release of releases) release();
    await until(() => n.dispatcher.queued === 0);
    expect(n.dispatcher.reserve(newDispatchId(), makeCall())).toBeDefined();
    expect(n.dispatcher.reserve(newDispatchId(), makeCall())).toBeDefined();
  });

  it("keeps what could not be offered (503) and offers it again with the same command id; forgets a run that is gone", async () => {
    const n = await node();
    const [busy, gone] = [newRunId(), newRunId()];
    let tries = 0;
    n.runs.reply = ({ runId }) => {
      if (runId === gone) throw notFound("no such run");
      if (++tries < 4) throw overloaded("not learnt in time");
      return { type: "advanced" };
    };
    n.dispatcher.enqueue(busy, newDispatchId(), makeCall());
    n.dispatcher.enqueue(gone, newDispatchId(), makeCall());
    await worker(n.target, { max_in_flight: 1 });
    await until(() => tries === 4 && n.dispatcher.queued === 0);
    const offers = n.runs.told.filter(({ runId }) => runId === busy);
    expect(new Set(offers.map(({ options }) => options?.id)).size).toBe(1);
    expect(n.runs.told.filter(({ runId }) => runId === gone)).toHaveLength(1);
  });

  it("makes no further offers while too many wait to be made again", async () => {
    const n = await node({ limits: { backingOff: 2, offerBackoffMs: 60_000 } });
    n.runs.reply = () => {
      throw overloaded("the store is down");
    };
    for (let index = 0; index < 10; index++) n.dispatcher.enqueue(newRunId(), newDispatchId(), makeCall());
    await worker(n.target, { max_in_flight: 1 });
    await until(() => n.runs.told.length === 2);
    expect(n.dispatcher.queued).toBe(10);
    expect(n.runs.told).toHaveLength(2);
  });

  it("a call that was resolved while it waited is not offered; nor is a run offered what was reserved for it since", async () => {
    const n = await node();
    const [dropped, kept] = [newDispatchId(), newDispatchId()];
    n.dispatcher.enqueue(newRunId(), dropped, makeCall());
    n.dispatcher.enqueue(newRunId(), kept, makeCall());
    n.dispatcher.resolved(dropped);
    await worker(n.target);
    await until(() => n.runs.of("offer").length === 1);
    expect(n.runs.of("offer")[0]?.dispatchId).toBe(kept);
  });

  it("a refused offer does not take away the credit that its run has reserved meanwhile", async () => {
    const n = await node();
    let refuse: () => void = () => {};
    n.runs.reply = () =>
      new Promise((resolve) => {
        refuse = () => resolve({ type: "refused", reason: "dispatched already" });
      });
    const dispatch = makeDispatch(n);
    n.dispatcher.enqueue(dispatch.runId, dispatch.dispatchId, dispatch.call);
    const w = await worker(n.target, { max_in_flight: 1 });
    expect(n.dispatcher.reserve(dispatch.dispatchId, dispatch.call)).toEqual({ workerId: "w1" });
    refuse();
    // By the next turn of the event loop the refusal has been dealt with.
    await new Promise((resolve) => setImmediate(resolve));
    expect(n.dispatcher.holds(dispatch.dispatchId)).toBe(true);
    expect(n.dispatcher.reserve(newDispatchId(), makeCall())).toBeUndefined();
    n.dispatcher.send(dispatch);
    expect((await w.wait("execute")).dispatch_id).toBe(dispatch.dispatchId);
  });

  it("a call whose transport is not there waits", async () => {
    const n = await node();
    await worker(n.target);
    const call = makeCall({ transport: "http", address: "http://127.0.0.1:1/" });
    const id = newDispatchId();
    expect(n.dispatcher.reserve(id, call)).toBeUndefined();
    n.dispatcher.enqueue(newRunId(), id, call);
    expect(n.dispatcher.holds(id)).toBe(true);
    expect(n.runs.told).toHaveLength(0);
  });

  it("is bounded: what comes on top is not held, so that the outbox poll brings it back", async () => {
    const n = await node({ limits: { queued: 1 } });
    const [first, second] = [newDispatchId(), newDispatchId()];
    n.dispatcher.enqueue(newRunId(), first, makeCall());
    n.dispatcher.enqueue(newRunId(), second, makeCall());
    expect([n.dispatcher.holds(first), n.dispatcher.holds(second)]).toEqual([true, false]);
  });

  it("keeps what it offered before the runs were bound, and offers it after", async () => {
    const n = await node({ unbound: true });
    n.dispatcher.enqueue(newRunId(), newDispatchId(), makeCall());
    await worker(n.target);
    expect(n.dispatcher.queued).toBe(1);
    n.dispatcher.bind(n.runs);
    await until(() => n.runs.of("offer").length === 1 && n.dispatcher.queued === 0);
  });

  it("is empty after stop, which may be called twice and before anything else", async () => {
    const dispatcher = createDispatcher({
      scheduler: new FairScheduler(),
      nodeId: "n",
      log: { debug() {}, info() {}, warn() {}, error() {} },
      now: () => 0,
      nodeCount: () => 1,
    });
    dispatcher.enqueue(newRunId(), asDispatchId("d"), makeCall());
    expect(dispatcher.holds(asDispatchId("d"))).toBe(true);
    await dispatcher.stop(0);
    await dispatcher.stop(0);
    expect(dispatcher.holds(asDispatchId("d"))).toBe(false);
  });
});

describe("the waiting line", () => {
  const serve = (line: FairQueue<string>, credit: number) => {
    const taken: string[] = [];
    line.serve("payments", (item) => {
      if (taken.length >= credit) return false;
      taken.push(item);
      return true;
    });
    return taken;
  };

  it("is first come first served for an action, and takes the actions in turn", () => {
    const line = new FairQueue<string>();
    for (const id of ["a1", "a2", "a3"]) line.add(makeCall({ action: "a" }), id, id);
    for (const id of ["b1", "b2"]) line.add(makeCall({ action: "b" }), id, id);
    expect(serve(line, 3)).toEqual(["a1", "b1", "a2"]);
    expect(serve(line, 9)).toEqual(["b2", "a3"]);
    expect(line.size).toBe(0);
  });

  it("serves an action although another finds no credit, and those sent back first", () => {
    const line = new FairQueue<string>();
    line.add(makeCall({ action: "a" }), "a1", "a1");
    line.add(makeCall({ action: "b" }), "b1", "b1");
    line.add(makeCall({ action: "b" }), "b0", "b0", { requeued: true });
    const taken: string[] = [];
    line.serve("payments", (item) => item.startsWith("b") && taken.push(item) > 0);
    expect(taken).toEqual(["b0", "b1"]);
    line.remove(makeCall({ action: "a" }), "a1");
    expect(line.size).toBe(0);
  });
});
