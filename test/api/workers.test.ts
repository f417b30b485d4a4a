// The list of workers over HTTP: one item a connection, pages, filters, and the actions that runs wait for and nobody serves.
import { describe, expect, it } from "vitest";
import type { NodeWorker, WaitingAction } from "../../src/dispatch/workers.js";
import { NOW, useRig } from "./rig.js";

const rig = useRig();

const worker = (workerId: string, more: Partial<NodeWorker> = {}): NodeWorker => ({
  ...{ workerId, service: "shop", actions: ["charge"], transport: "grpc", nodeId: "node-1" },
  ...{ since: NOW, inFlight: 2, maxInFlight: 10, draining: false },
  ...more,
});
const waiting = (action: string, calls: number, more: Partial<WaitingAction> = {}): WaitingAction => ({
  ...{ service: "shop", action, version: 1, transport: "grpc", calls },
  ...more,
});

function knows(known: { workers?: NodeWorker[]; waiting?: WaitingAction[]; silent?: string[]; leftOff?: number }) {
  Object.assign(rig.workers, {
    report: async () => ({ workers: [], waiting: [], silent: [], leftOff: 0, ...known }),
    obstacles: async (actions: readonly WaitingAction[]) =>
      actions.map(({ action }) =>
        action === "charge"
          ? { reason: "no_credit" }
          : { reason: "no_worker", ...(action === "lost" && { detail: "no queue" }) },
      ),
  });
}
const get = async (search = "") => (await rig.call("GET", `/api/v1/workers${search}`)).body;

describe("GET /workers", () => {
  it("says who is connected, over what, since when, where, what each serves, holds and may take", async () => {
    knows({ workers: [worker("w-1"), worker("w-2", { draining: true, actions: [] })] });
    const item = {
      ...{ worker_id: "w-1", service: "shop", actions: ["charge"], transport: "grpc", node_id: "node-1" },
      ...{ connected_at: new Date(NOW).toISOString(), in_flight: 2, max_in_flight: 10 },
    };
    expect(await get()).toEqual({
      items: [item, { ...item, worker_id: "w-2", actions: [], draining: true }],
      ...{ total: 2, limit: 50, offset: 0, unserved: [] },
    });
  });

  it("says which actions runs wait for and nobody serves, and how many calls wait", async () => {
    knows({ waiting: [waiting("charge", 9), waiting("refund", 4), waiting("lost", 1, { transport: "rmq" })] });
    expect((await get()).unserved).toEqual([
      { action: "shop.refund@1", transport: "grpc", waiting: 4 },
      { action: "shop.lost@1", transport: "rmq", waiting: 1, detail: "no queue" },
    ]);
    expect((await get("?transport=rmq")).unserved).toHaveLength(1);
  });

  it("names the nodes that did not answer, and how many workers found no room", async () => {
    knows({ silent: ["node-2"], leftOff: 3 });
    expect(await get()).toMatchObject({ silent_nodes: ["node-2"], left_off: 3 });
  });

  it("has pages by offset and by cursor, in one order, and filters", async () => {
    const workers = ["w-3", "w-1", "w-2"].map((id) => worker(id));
    knows({ workers: [...workers, worker("w-9", { service: "stock", transport: "http" })] });
    const ids = (page: { items: { worker_id: string }[] }) => page.items.map(({ worker_id }) => worker_id);
    const first = await get("?limit=2");
    expect([ids(first), first.total, first.offset]).toEqual([["w-1", "w-2"], 4, 0]);
    const second = await get(`?limit=2&cursor=${first.next_cursor}`);
    expect(ids(second)).toEqual(["w-3", "w-9"]);
    expect(second).not.toHaveProperty("next_cursor");
    expect(ids(await get("?offset=3"))).toEqual(["w-9"]);
    expect(ids(await get("?service=stock"))).toEqual(["w-9"]);
    expect(ids(await get("?transport=grpc&service=stock"))).toEqual([]);
    for (const bad of ["?cursor=zzz", "?transport=tcp", "?worker=w-1"])
      expect((await rig.call("GET", `/api/v1/workers${bad}`)).status, bad).toBe(400);
  });
});
