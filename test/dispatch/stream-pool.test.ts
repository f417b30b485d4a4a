// The bounds of the pool of streams itself. A node counts its streams before their hello, too, so that there the first of these bounds is
// a second one.
import { describe, expect, it } from "vitest";
import type { WorkerStream } from "../../src/dispatch/grpc/stream.js";
import { StreamPool } from "../../src/dispatch/grpc/stream-pool.js";

const stream = (workerId: string, service = "payments") => ({ workerId, service }) as WorkerStream;

describe("a pool of streams", () => {
  it.each([
    ["in all", { streams: 2 }, stream("w2", "shipping"), "the node has 2 worker streams, the most it takes"],
    [
      "of a worker",
      { streamsPerWorker: 2 },
      stream("w1"),
      "the worker has 2 streams to this node, the most it may have",
    ],
  ])("refuses one beyond the most %s, until another has gone", (_, limit, second, excess) => {
    const limits = { streams: 10, streamsPerWorker: 10, ...limit };
    const pool = new StreamPool();
    const [first, third] = [stream("w1"), stream("w1")];
    for (const one of [first, second]) {
      expect(pool.excessOf(one, limits)).toBeUndefined();
      pool.add(one);
    }
    expect(pool.excessOf(third, limits)).toBe(excess);
    pool.remove(first);
    expect(pool.excessOf(third, limits)).toBeUndefined();
  });
});
