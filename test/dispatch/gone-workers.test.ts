// A dispatch whose worker is gone and that no worker claims: it waits for a worker, and every node says so.
import { describe, expect, it } from "vitest";
import type { Dispatch } from "../../machines/index.js";
import { until } from "../harness/until.js";
import { answering, type Cluster, NEVER_MS, useClusters } from "./relay-rig.js";

const cluster = useClusters({ directoryMs: NEVER_MS, directoryMemoryMs: 0 });
const CHARGE = { service: "payments", action: "charge", version: 1, transport: "grpc" } as const;

/** What each node says of the calls that wait, and of who holds the dispatch. */
const seen = (c: Cluster, { dispatchId }: Dispatch) =>
  Promise.all(
    [...c.nodes.values()].map(async ({ dispatcher: { directory } }) => ({
      waiting: (await directory.report()).waiting,
      holder: await directory.holder(dispatchId),
    })),
  );

/** A dispatch of a run of node `a`, with a worker of this node. */
async function heldAt(c: Cluster, id: string): Promise<Dispatch> {
  const worker = await c.worker(id);
  const dispatch = c.call("a");
  await worker.wait("execute");
  return dispatch;
}

const queued = (c: Cluster) => c.node("a").dispatcher.queued;

describe("a dispatch whose worker is gone", () => {
  it.each(["a", "b"])("waits for a worker, as every node says; its worker was at node %s", async (at) => {
    const c = await cluster(["a", "b"]);
    const dispatch = await heldAt(c, at);
    const held = { waiting: [], holder: { workerId: `w-${at}` } };
    expect([await seen(c, dispatch), queued(c)]).toEqual([[held, held], 0]);
    c.workers[0]?.cut();
    await until(() => queued(c) === 1, { what: "a dispatch that waits" });
    const gone = { waiting: [{ ...CHARGE, calls: 1 }], holder: { goneSince: c.node("a").clock.now } };
    expect(await seen(c, dispatch)).toMatchObject([gone, gone]);
    for (const { dispatcher } of c.nodes.values())
      expect(await dispatcher.directory.obstacles([CHARGE])).toEqual([{ reason: "no_worker" }]);
  });

  it("and names that worker, while it may still come back to claim it", async () => {
    const c = await cluster(["a"], { claimWaitMs: NEVER_MS });
    const dispatch = await heldAt(c, "a");
    c.workers[0]?.cut();
    await until(async () => (await c.node("a").dispatcher.directory.report()).workers.length === 0);
    expect([await seen(c, dispatch), queued(c)]).toEqual([[{ waiting: [], holder: { workerId: "w-a" } }], 0]);
  });

  it("is held again when its worker comes back, to any node, and claims it", async () => {
    const c = await cluster(["a", "b"]);
    const dispatch = await heldAt(c, "a");
    c.workers[0]?.cut();
    await until(() => queued(c) === 1);
    await c.worker("b", { worker_id: "w-a", in_flight: [dispatch.dispatchId] });
    await until(() => queued(c) === 0, { what: "the claim" });
    const held = { waiting: [], holder: { workerId: "w-a" } };
    expect([await seen(c, dispatch), c.executions(dispatch).length]).toEqual([[held, held], 1]);
  });

  it("is held by the next worker that comes", async () => {
    const c = await cluster(["a", "b"]);
    const dispatch = await heldAt(c, "a");
    c.workers[0]?.cut();
    await until(() => queued(c) === 1);
    answering(await c.worker("b", { worker_id: "w-2" }));
    await until(() => c.isDone(dispatch));
    expect([(await seen(c, dispatch)).map(({ waiting }) => waiting), queued(c)]).toEqual([[[], []], 0]);
  });

  it("counts while it is cancelled, although no other worker begins it", async () => {
    const c = await cluster(["a"]);
    const dispatch = await heldAt(c, "a");
    c.workers[0]?.cut();
    c.node("a").dispatcher.cancel(dispatch.dispatchId, "cancelled");
    await until(() => queued(c) === 1);
    expect(await seen(c, dispatch)).toMatchObject([{ waiting: [{ calls: 1 }], holder: { workerId: "w-a" } }]);
  });

  it("waits for a worker at the next owner of its run as well", async () => {
    const c = await cluster(["a", "b"]);
    const dispatch = await heldAt(c, "a");
    await c.kill("a", "b");
    c.workers[0]?.cut();
    await c.command(dispatch.runId, { type: "carry", dispatchId: dispatch.dispatchId });
    await until(() => c.node("b").dispatcher.queued === 1);
    const goneSince = c.node("b").clock.now;
    expect(await seen(c, dispatch)).toEqual([{ waiting: [{ ...CHARGE, calls: 1 }], holder: { goneSince } }]);
  });
});
