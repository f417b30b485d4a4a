// Dispatches of tenants between nodes, with access on: credit, vouchers and claims are those of workers that serve the run's tenant.
import { describe, expect, it } from "vitest";
import { GrpcDoor } from "../../src/dispatch/grpc/door.js";
import { type PrincipalFacts, verifierOf } from "../harness/verifier.js";
import { answering, NEVER_MS, useClusters } from "./relay-rig.js";
import { until } from "./rig.js";

const A = "0190a000-0000-7000-8000-00000000000a";
const B = "0190a000-0000-7000-8000-00000000000b";
const WORKERS: Readonly<Record<string, PrincipalFacts>> = {
  alice: { roles: ["worker"], tenantId: A, services: ["payments"] },
  bob: { roles: ["worker"], tenantId: B, services: ["payments"] },
};
const door = new GrpcDoor({
  ...{ verifier: verifierOf(WORKERS), security: { refused: () => {} }, now: Date.now, log: { error: () => {} } },
});
const cluster = useClusters(
  { handOverMs: NEVER_MS, claimWaitMs: 5_000 },
  { door, access: { callbackToken: () => "t" } },
);

describe("a call at a node without a worker of its tenant", () => {
  it("is executed by one of another node, and holds up no other tenant's", async () => {
    const c = await cluster(["a", "b"]);
    const bob = await c.worker("a", { token: "bob", worker_id: "bob" });
    const alice = answering(await c.worker("b", { token: "alice", worker_id: "alice" }));
    const calls = [A, A, B].map((tenantId) => c.call("a", {}, { tenantId }));
    await until(() => calls.slice(0, 2).every((dispatch) => c.isDone(dispatch)));
    await bob.wait("execute");
    expect(bob.of("execute").map(({ tenant_id }) => tenant_id)).toEqual([B]);
    expect(alice.of("execute").map(({ tenant_id }) => tenant_id)).toEqual([A, A]);
  });

  it("waits where there is none, and no voucher is given for it", async () => {
    const c = await cluster(["a", "b"]);
    await c.worker("b", { token: "bob", worker_id: "bob" });
    const dispatch = c.call("a", {}, { tenantId: A });
    await until(() => c.kinds("dispatch.want").length > 3);
    expect(c.kinds("dispatch.vouchers")).toEqual([]);
    answering(await c.worker("b", { token: "alice", worker_id: "alice" }));
    await until(() => c.isDone(dispatch));
  });

  it("is not held up by more calls than one message names, of tenants without any worker", async () => {
    const c = await cluster(["a", "b"], { demands: 2 });
    for (const nth of [1, 2, 3, 4, 5, 6, 7]) c.call("a", {}, { tenantId: A.replace(/0a$/, `1${nth}`) });
    const dispatch = c.call("a", {}, { tenantId: A });
    answering(await c.worker("b", { token: "alice", worker_id: "alice" }));
    await until(() => c.isDone(dispatch));
  });

  it("is not had by a worker of another tenant that claims it at another node", async () => {
    const c = await cluster(["a", "b"]);
    const alice = await c.worker("a", { token: "alice", worker_id: "alice" });
    const dispatch = c.call("a", {}, { tenantId: A });
    await alice.wait("execute");
    alice.cut();
    await until(() => c.node("a").dispatcher.inFlight === 0);
    const in_flight = [dispatch.dispatchId];
    const bob = await c.worker("b", { token: "bob", worker_id: "alice", in_flight });
    await until(() => c.kinds("dispatch.claim").length > 0);
    expect(c.kinds("dispatch.claim")[0]?.body).toMatchObject({ items: [{ service: "payments", tenants: [B] }] });
    const again = await c.worker("b", { token: "alice", worker_id: "alice", in_flight });
    again.result(dispatch);
    expect(await again.wait("recorded")).toMatchObject({ stale: false });
    expect(bob.of("execute")).toEqual([]);
    expect(c.executions(dispatch)).toHaveLength(1);
    expect(c.kinds("dispatch.hand"), "bob's claim moved nothing").toHaveLength(1);
  });
});
