// The credit of a stream that its worker changes, over a real socket. How a worker divides its credit is tested with the SDK.
import { describe, expect, it } from "vitest";
import { newDispatchId, newRunId } from "../harness/ids.js";
import { dispatchNow, makeCall, until, useNodes } from "./rig.js";

const { node, worker } = useNodes();

describe("credit that a worker changes", () => {
  const reserved = (n: Awaited<ReturnType<typeof node>>) => n.dispatcher.reserve(newDispatchId(), makeCall());

  it("is none until its first word, whatever the hello says; then a call that waits is offered it", async () => {
    const n = await node();
    const w = await worker(n.target, { max_in_flight: 5, credit: true });
    expect(reserved(n)).toBeUndefined();
    n.dispatcher.enqueue(newRunId(), newDispatchId(), makeCall());
    w.send({ credit: { max_in_flight: 1 } });
    expect(await w.wait("credited")).toEqual({ max_in_flight: 1 });
    await until(() => n.runs.of("offer").length === 1);
    expect(reserved(n)).toBeUndefined();
  });

  it("is acknowledged when no more is taken or set aside, and then kept to", async () => {
    const n = await node();
    const w = await worker(n.target, { credit: true });
    w.send({ credit: { max_in_flight: 3 } });
    await w.wait("credited");
    const [first, second] = [dispatchNow(n), dispatchNow(n)];
    const aside = newDispatchId();
    n.dispatcher.reserve(aside, makeCall());
    w.send({ credit: { max_in_flight: 1 } });
    w.result(first);
    await w.wait("recorded");
    expect(w.of("credited")).toHaveLength(1);
    n.dispatcher.resolved(aside);
    expect(await w.wait("credited", 2)).toEqual({ max_in_flight: 1 });
    expect(reserved(n)).toBeUndefined();
    w.result(second);
    await until(() => reserved(n) !== undefined);
    expect(reserved(n)).toBeUndefined();
  });

  it("of none is that of a worker that serves its actions, and takes no call here", async () => {
    const n = await node();
    const w = await worker(n.target, { credit: true });
    expect(await n.dispatcher.directory.obstacles([makeCall()])).toEqual([{ reason: "no_credit" }]);
    expect(reserved(n)).toBeUndefined();
    w.send({ credit: { max_in_flight: 2 } });
    await w.wait("credited");
    await until(() => reserved(n) !== undefined);
  });
});
