// Dispatches to workers of other nodes, over a bus that is whole: credit, turns, answers, cancels, bounds.

import { describe, expect, it } from "vitest";
import { asDispatchId } from "../../machines/index.js";
import { answering, NEVER_MS, useClusters } from "./relay-rig.js";
import { type RawWorker, until } from "./rig.js";

// Nothing gets lost, so nothing is given up.
const cluster = useClusters({ handOverMs: NEVER_MS, claimWaitMs: NEVER_MS });

describe("a call at a node without a worker", () => {
  it("is executed by a worker of another node, and its answer is recorded there", async () => {
    const c = await cluster(["a", "b"]);
    const w = await c.worker("b", { max_in_flight: 1 });
    const dispatch = c.call("a", { inputs: { amount: 9 } });
    const step = await w.wait("execute");
    expect(step).toMatchObject({ dispatch_id: dispatch.dispatchId, run_id: dispatch.runId, attempt: 1 });
    expect(JSON.parse(step.inputs_json)).toEqual({ amount: 9 });
    w.result(dispatch);
    expect(await w.wait("recorded")).toEqual({ dispatch_id: dispatch.dispatchId, stale: false });
    expect(c.order(dispatch.dispatchId).answers).toMatchObject([{ type: "result", actor: "worker:w-b" }]);
    await until(() => !c.node("a").dispatcher.holds(dispatch.dispatchId));
    expect(c.node("b").dispatcher.holds(dispatch.dispatchId)).toBe(false);
    expect(c.node("b").dispatcher.reserve(asDispatchId("x"), dispatch.call)).toEqual({ workerId: "w-b" });
  });

  it("waits for a worker to come, wherever it comes", async () => {
    const c = await cluster(["a", "b", "c"]);
    const dispatch = c.call("a");
    await until(() => c.kinds("dispatch.want").length >= 4);
    answering(await c.worker("c"));
    await until(() => c.isDone(dispatch));
    expect(c.kinds("dispatch.hand").map(({ to }) => to)).toEqual(["c"]);
  });

  it("so do many, one after the other where there is credit for one: each is executed once", async () => {
    const c = await cluster(["a", "b", "c"]);
    const w = answering(await c.worker("b", { max_in_flight: 1 }));
    const dispatches = ["a", "b", "c"].flatMap((id) => Array.from({ length: 40 }, () => c.call(id)));
    await until(() => dispatches.every((dispatch) => c.isDone(dispatch)));
    expect(w.of("execute")).toHaveLength(dispatches.length);
    expect(new Set(w.of("execute").map((step) => step.dispatch_id)).size).toBe(dispatches.length);
    await until(() => w.of("recorded").length === dispatches.length);
  });

  it("takes turns with the calls of the node that has the worker", async () => {
    const c = await cluster(["a", "b"]);
    const own = Array.from({ length: 200 }, () => c.call("b"));
    const guest = c.call("a");
    await until(() => c.kinds("dispatch.want").some(({ from }) => from === "a"));
    answering(await c.worker("b", { max_in_flight: 1 }));
    await until(() => c.isDone(guest));
    expect(own.filter((dispatch) => c.isDone(dispatch)).length).toBeLessThan(20);
  });

  it("a cancel reaches the worker, and the answer to it the run", async () => {
    const c = await cluster(["a", "b"]);
    const w = await c.worker("b");
    const dispatch = c.call("a");
    await w.wait("execute");
    c.node("a").dispatcher.cancel(dispatch.dispatchId, "rolled back");
    expect(await w.wait("cancel")).toEqual({ dispatch_id: dispatch.dispatchId, reason: "rolled back" });
    w.failure(dispatch, { code: "gave_up", message: "it stopped" });
    await until(() => c.isDone(dispatch));
  });

  it("a cancel that overtakes the dispatch follows it", async () => {
    const c = await cluster(["a", "b"]);
    const w = await c.worker("b");
    c.onCommitted = ({ dispatchId }) =>
      void queueMicrotask(() => c.node("a").dispatcher.cancel(dispatchId, "rolled back"));
    const dispatch = c.call("a");
    await w.wait("cancel");
    expect(w.messages.map(({ message }) => message)).toEqual(["hello_ack", "execute", "cancel"]);
    expect(c.executions(dispatch)).toHaveLength(1);
  });

  it("what its run resolved is forgotten by the node that has the worker; its credit comes back at the deadline", async () => {
    const c = await cluster(["a", "b"]);
    const w = await c.worker("b", { max_in_flight: 1 });
    const dispatch = c.call("a");
    await w.wait("execute");
    c.withdraw(dispatch);
    const { dispatcher, clock } = c.node("b");
    await until(() => !dispatcher.holds(dispatch.dispatchId));
    expect(dispatcher.reserve(asDispatchId("x"), dispatch.call)).toBeUndefined();
    clock.now = dispatch.deadlineAt + 1;
    await until(() => dispatcher.reserve(asDispatchId("x"), dispatch.call) !== undefined);
  });

  it("heartbeats of its worker reach its run", async () => {
    const c = await cluster(["a", "b"]);
    const beats: string[] = [];
    const command = c.command.bind(c);
    c.command = async (runId, told) => {
      if (told.type === "heartbeat") beats.push(told.dispatchId ?? "");
      return command(runId, told);
    };
    const w = await c.worker("b");
    const dispatch = c.call("a", { heartbeatTimeoutMs: 5_000 });
    await w.wait("execute");
    w.send({ heartbeat: { dispatch_id: dispatch.dispatchId } });
    await until(() => beats.length === 1);
    expect(beats).toEqual([dispatch.dispatchId]);
  });
});

describe("credit for other nodes", () => {
  it("is what would be idle, where the other has workers of its own", async () => {
    const c = await cluster(["a", "b"]);
    await c.worker("a", { max_in_flight: 1 });
    const w = await c.worker("b", { max_in_flight: 1 });
    const [busyA, busyB] = [c.call("a"), c.call("b")];
    await until(() => c.executions(busyA).length + c.executions(busyB).length === 2);
    const own = [c.call("b"), c.call("b")];
    const guest = c.call("a");
    await until(() => c.kinds("dispatch.want").some(({ from }) => from === "a"));
    w.result(busyB);
    await w.wait("execute", 2);
    w.result(own[0] ?? busyB);
    await w.wait("execute", 3);
    expect(c.executions(guest)).toHaveLength(0);
    w.result(own[1] ?? busyB);
    await w.wait("execute", 4);
    expect(c.executions(guest)).toHaveLength(1);
  });

  it.each<[string, (worker: RawWorker) => void]>([
    ["moves its credit elsewhere", (worker) => worker.send({ credit: { max_in_flight: 0 } })],
    ["drains", (worker) => worker.send({ drain: {} })],
    ["hangs up", (worker) => worker.cut()],
  ])(
    "is given in turns as soon as the worker of the other %s, and not when the demand is repeated",
    async (_, leave) => {
      const c = await cluster(["a", "b"], { demandMs: NEVER_MS });
      const [theirs, ours] = [await c.worker("a", { credit: true }), await c.worker("b", { max_in_flight: 1 })];
      theirs.send({ credit: { max_in_flight: 1 } });
      await theirs.wait("credited");
      const [, busyB] = [c.call("a"), c.call("b")];
      await Promise.all([theirs.wait("execute"), ours.wait("execute")]);
      const own = Array.from({ length: 200 }, () => c.call("b"));
      const guest = c.call("a");
      const isWanted = (alone: boolean) =>
        c.kinds("dispatch.want").some(({ from, body }) => {
          const [demand] = body.items as { alone: boolean }[];
          return from === "a" && demand?.alone === alone;
        });
      await until(() => isWanted(false));
      leave(theirs);
      await until(() => isWanted(true));
      answering(ours).result(busyB);
      await until(() => c.isDone(guest));
      expect(own.filter((dispatch) => c.isDone(dispatch)).length).toBeLessThan(20);
    },
  );

  it("is given back when nobody waits any more", async () => {
    const c = await cluster(["a", "b", "c"]);
    const dispatch = c.call("a");
    await until(() => ["b", "c"].every((id) => c.kinds("dispatch.want").some(({ to }) => to === id)));
    const workers = [await c.worker("b", { max_in_flight: 1 }), await c.worker("c", { max_in_flight: 1 })];
    for (const worker of workers) answering(worker);
    await until(() => c.isDone(dispatch));
    for (const id of ["b", "c"])
      await until(() => c.node(id).dispatcher.reserve(asDispatchId(`x-${id}`), dispatch.call) !== undefined);
    expect(c.executions(dispatch)).toHaveLength(1);
  });

  it("is given back when the offer is refused", async () => {
    const c = await cluster(["a", "b"], { voucherMs: 60_000 });
    const [ended, waiting] = [c.call("a"), c.call("a")];
    c.order(ended.dispatchId).state = "done";
    const w = answering(await c.worker("b", { max_in_flight: 1 }));
    await until(() => c.isDone(waiting));
    expect(w.of("execute").map((step) => step.dispatch_id)).toEqual([waiting.dispatchId]);
    expect(c.node("a").dispatcher.queued).toBe(0);
  });

  it("is not given to a node that has said that nobody waits there any more", async () => {
    const c = await cluster(["a", "b"], { demandMs: 200 });
    const dispatch = c.call("a");
    await until(() => c.kinds("dispatch.want").length === 1);
    c.withdraw(dispatch);
    await until(() => c.kinds("dispatch.want").some(({ body }) => JSON.stringify(body.items) === "[]"));
    const w = answering(await c.worker("b"));
    c.call("b");
    await w.wait("recorded");
    expect(c.kinds("dispatch.vouchers")).toEqual([]);
  });

  it("is not asked for more than there is room for dispatches elsewhere", async () => {
    const c = await cluster(["a", "b"], { relayed: 2 });
    const w = await c.worker("b", { max_in_flight: 10 });
    const dispatches = Array.from({ length: 4 }, () => c.call("a"));
    await w.wait("execute", 2);
    await until(() => c.kinds("dispatch.return").length > 0);
    expect(w.of("execute")).toHaveLength(2);
    expect(c.node("a").dispatcher.queued).toBe(2);
    answering(w);
    await until(() => dispatches.every((dispatch) => c.isDone(dispatch)));
  });

  it("a call that is too large for the bus waits for a worker of its own node, and holds up nobody", async () => {
    const c = await cluster(["a", "b"], { relayedBytes: 1_000 });
    const large = c.call("a", { inputs: { text: "x".repeat(2_000) } });
    const small = c.call("a");
    answering(await c.worker("b"));
    await until(() => c.isDone(small));
    expect(c.isDone(large)).toBe(false);
    answering(await c.worker("a"));
    await until(() => c.isDone(large));
    expect(c.executions(large)).toHaveLength(1);
  });
});
