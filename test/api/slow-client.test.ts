// A client of the live stream that does not read: it is closed with 1013, and the other clients are not affected.
// @module-tag both
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { long } from "../harness/long.js";
import { until } from "../harness/until.js";
import { Client, committed, hangUp } from "./client.js";
import { appendEvents, insertRun, useRig } from "./rig.js";

const rig = useRig();
afterEach(hangUp);

async function listen(): Promise<number> {
  if (!rig.app.server.listening) await rig.app.listen({ port: 0, host: "127.0.0.1" });
  return (rig.app.server.address() as AddressInfo).port;
}

const closing = () => [...rig.app.websocketServer.clients].some((client) => client.readyState === client.CLOSING);

describe("a client that does not read", () => {
  it.each([["more than 1000 frames", 2_000, 100] as const, ...long([], [["more than 4 MiB", 60_000, 20] as const])])(
    "is closed with %s unsent",
    async (_, size, batch) => {
      const port = await listen();
      const runId = await insertRun(rig, { inputs: { text: "x".repeat(5 * 1024 * 1024) } });
      const [slow, good] = [new Client(port, runId), new Client(port, runId)];
      await Promise.all([slow.has(1), good.has(1)]);
      slow.socket.pause();
      const metadata = { text: "y".repeat(size) };
      let seq = 0;
      while (!closing()) {
        expect(seq, "it was never too slow").toBeLessThan(20_000);
        await appendEvents(
          rig,
          runId,
          Array.from({ length: batch }, () => ({ metadata })),
        );
        rig.feed.onCommit(
          runId,
          Array.from({ length: batch }, () => committed(runId, ++seq, { metadata })),
        );
        await good.has(seq + 1);
      }
      slow.socket.resume();
      expect(await until(() => slow.code)).toBe(1013);
      expect(good.seqs).toEqual(Array.from({ length: seq }, (_, index) => index + 1));
      expect(good.code).toBeUndefined();
      expect(slow.seqs).toEqual(good.seqs.slice(0, slow.seqs.length));
    },
  );

  it("is closed if it reads nothing of a replay", { tags: "long" }, async () => {
    const port = await listen();
    const runId = await insertRun(rig);
    const metadata = { text: "z".repeat(60_000) };
    for (let n = 0; n < 5; n++)
      await appendEvents(
        rig,
        runId,
        Array.from({ length: 100 }, () => ({ metadata })),
      );
    const slow = new Client(port, runId, "?after_seq=0");
    await slow.has(1);
    slow.socket.pause();
    await until(closing);
    slow.socket.resume();
    expect(await until(() => slow.code)).toBe(1013);
    expect(slow.kinds).not.toContain("end");
  });
});
