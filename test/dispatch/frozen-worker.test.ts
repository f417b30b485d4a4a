// A worker that does not read its stream, over a real socket.
// @module-tag long
import { describe, it } from "vitest";
import { dispatchNow, makeCall, until, useNodes } from "./rig.js";

const { node, worker } = useNodes();

describe("a stream", () => {
  it("is closed if its worker does not read it, and its steps go elsewhere", async () => {
    const n = await node({ limits: { stallMs: 3_000, claimWaitMs: 10 } });
    const frozen = await worker(n.target, { worker_id: "frozen", max_in_flight: 200 });
    frozen.freeze();
    const inputs = { blob: "x".repeat(100_000) };
    for (let index = 0; index < 100; index++) dispatchNow(n, { call: makeCall({ inputs }) });
    await until(() => n.dispatcher.workers.connected === 0);
    const other = await worker(n.target, { worker_id: "other", max_in_flight: 200 });
    await other.wait("execute", 100);
  });
});
