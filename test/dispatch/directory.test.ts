// The directory of workers: every node knows the workers of all, why calls wait, and which nodes are silent.
import { describe, expect, it } from "vitest";
import type { CalledAction } from "../../src/dispatch/workers.js";
import { until } from "../harness/until.js";
import { NEVER_MS, useClusters } from "./relay-rig.js";
import { makeCall, useNodes } from "./rig.js";

const cluster = useClusters({ directoryMs: NEVER_MS });
const { node } = useNodes();

const CHARGE: CalledAction = { service: "payments", action: "charge", version: 1, transport: "grpc" };
const REFUND: CalledAction = { ...CHARGE, action: "refund" };
/** Answers are not remembered. */
const FRESH = { directoryMemoryMs: 0 };

describe("a node knows of the workers of all nodes", () => {
  it("who they are, what they serve, since when, what they hold and may take", async () => {
    const c = await cluster(["a", "b"]);
    await c.worker("a", { actions: ["charge", "refund@2"], max_in_flight: 3 });
    const far = await c.worker("b", { service: "stock" });
    c.call("a");
    const [, busy] = [await far.wait("hello_ack"), c.workers[0]];
    await busy?.wait("execute");
    const { workers, silent, leftOff } = await c.node("a").dispatcher.directory.report();
    expect([silent, leftOff]).toEqual([[], 0]);
    const since = c.node("a").clock.now;
    expect(workers).toEqual([
      {
        ...{ workerId: "w-a", service: "payments", actions: ["charge", "refund@2"], transport: "grpc", nodeId: "a" },
        ...{ since, inFlight: 1, maxInFlight: 3, draining: false },
      },
      {
        ...{ workerId: "w-b", service: "stock", actions: [], transport: "grpc", nodeId: "b" },
        ...{ since, inFlight: 0, maxInFlight: 2, draining: false },
      },
    ]);
    expect((await c.node("b").dispatcher.directory.report()).workers.map(({ nodeId }) => nodeId)).toEqual(["b", "a"]);
  });

  it("and of the calls that wait, over all nodes and workflows", async () => {
    const c = await cluster(["a", "b"]);
    for (const id of ["a", "a", "b"]) c.call(id);
    c.call("b", { action: "refund" });
    const request = { service: "http_request", action: "x.test", version: 0, transport: "request" } as const;
    c.call("a", { ...request, workflowId: "one" });
    c.call("a", { ...request, workflowId: "other" });
    for (const id of ["a", "b"]) {
      const { waiting } = await c.node(id).dispatcher.directory.report();
      expect(waiting).toEqual([
        { ...CHARGE, calls: 3 },
        { ...request, calls: 2 },
        { ...REFUND, calls: 1 },
      ]);
    }
  });

  it("and says which nodes did not answer in time", async () => {
    const c = await cluster(["a", "b", "c"], { directoryMs: 2_000 });
    await c.worker("c");
    c.fate = ({ to }) => (to === "b" ? "lost" : undefined);
    const { workers, silent } = await c.node("a").dispatcher.directory.report();
    expect(workers.map(({ nodeId }) => nodeId)).toEqual(["c"]);
    expect(silent).toEqual(["b"]);
  });

  it("and names no more of them than a message can carry", async () => {
    const c = await cluster(["a", "b"], { directoryBytes: 10_000 });
    const actions = Array.from({ length: 1_200 }, (_, index) => `a${index}`);
    for (const worker_id of ["w1", "w2", "w3"]) await c.worker("b", { worker_id, actions });
    const { workers, leftOff } = await c.node("a").dispatcher.directory.report();
    expect([workers.length, leftOff]).toEqual([1, 2]);
    expect(workers[0]?.actions).toHaveLength(1_000);
  });
});

describe("why calls wait", () => {
  it("nobody serves the action, or all who do are busy, on whichever node they are", async () => {
    const c = await cluster(["a", "b"], FRESH);
    const { directory } = c.node("a").dispatcher;
    expect(await directory.obstacles([CHARGE, REFUND])).toEqual([{ reason: "no_worker" }, { reason: "no_worker" }]);
    await c.worker("b", { actions: ["charge"] });
    expect(await directory.obstacles([REFUND, CHARGE])).toEqual([{ reason: "no_worker" }, { reason: "no_credit" }]);
    await c.worker("a", { actions: ["refund"] });
    expect(await directory.obstacles([REFUND])).toEqual([{ reason: "no_credit" }]);
  });

  it("a worker that is full serves the action, also while its credit is on its way to another node", async () => {
    const c = await cluster(["a", "b"], FRESH);
    const credited = (id: string) => c.worker(id, { worker_id: "w", credit: true });
    const [one, other] = [await credited("a"), await credited("b")];
    one.send({ credit: { max_in_flight: 1 } });
    other.send({ credit: { max_in_flight: 0 } });
    c.call("a");
    await one.wait("execute");
    // Its share is to be at the other node, once the step is answered.
    one.send({ credit: { max_in_flight: 0 } });
    c.call("a");
    const credits = async () => (await c.node("a").dispatcher.directory.report()).workers.map((w) => w.maxInFlight);
    await until(async () => (await credits()).join() === "0,0", { what: "no credit at either node" });
    for (const { dispatcher } of c.nodes.values())
      expect(await dispatcher.directory.obstacles([CHARGE])).toEqual([{ reason: "no_credit" }]);
  });

  it("a transport without a connection says so; a request waits for a slot", async () => {
    const n = await node();
    const { directory } = n.dispatcher;
    expect(await directory.obstacles([{ ...CHARGE, transport: "rmq" }])).toEqual([
      { reason: "no_worker", detail: "this service has no connection for the transport rmq" },
    ]);
  });

  it("the answers are shared and remembered for a moment", async () => {
    const c = await cluster(["a", "b"], { directoryMemoryMs: NEVER_MS });
    const { directory } = c.node("a").dispatcher;
    await Promise.all([
      directory.obstacles([CHARGE]),
      directory.obstacles([CHARGE, REFUND]),
      directory.obstacles([CHARGE]),
    ]);
    expect(c.kinds("dispatch.obstacles").map(({ body }) => body.actions)).toEqual([[CHARGE], [REFUND]]);
    await c.worker("b");
    expect(await directory.obstacles([CHARGE])).toEqual([{ reason: "no_worker" }]);
  });

  it("a silent node holds up the answer for a moment only", async () => {
    const c = await cluster(["a", "b"], { ...FRESH, directoryMs: 20 });
    c.fate = ({ kind }) => (kind === "dispatch.obstacles" ? "lost" : undefined);
    expect(await c.node("a").dispatcher.directory.obstacles([CHARGE])).toEqual([{ reason: "no_worker" }]);
  });

  it("a node that has said that its workers are busy, and is silent then, is believed for a while", async () => {
    const c = await cluster(["a", "b"], { ...FRESH, directoryMs: 2_000 });
    const { directory } = c.node("a").dispatcher;
    await c.worker("b");
    expect(await directory.obstacles([CHARGE])).toEqual([{ reason: "no_credit" }]);
    c.fate = ({ to }) => (to === "b" ? "lost" : undefined);
    expect(await directory.obstacles([CHARGE, REFUND])).toEqual([{ reason: "no_credit" }, { reason: "no_worker" }]);
  });

  it("of a call only the name of its action goes to other nodes", async () => {
    const c = await cluster(["a", "b"]);
    expect(await c.node("a").dispatcher.directory.obstacles([makeCall()])).toEqual([{ reason: "no_worker" }]);
    expect(c.kinds("dispatch.obstacles").map(({ body }) => body.actions)).toEqual([[CHARGE]]);
  });
});
