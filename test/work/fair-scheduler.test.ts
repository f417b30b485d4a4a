// The turns of the event loop: when computing has to wait, and who goes first.
import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { FairScheduler } from "../../src/work/fair-scheduler.js";

let now = 0;
const newScheduler = () => new FairScheduler(() => now);

/** Computes for a time: by default a whole slice. */
function compute(ms = 20): void {
  now += ms;
}

/** The turns of the loop itself. */
function countLoops() {
  const loops = { count: 0, stop: () => clearImmediate(next) };
  let next = setImmediate(function again() {
    loops.count++;
    next = setImmediate(again);
  });
  return loops;
}

describe("a piece of computing", () => {
  it("is computed at once while little was computed, and after I/O once a slice was, whoever used it", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const scheduler = newScheduler();
    const order: string[] = [];
    void scheduler.compute("a", () => compute(19));
    void scheduler.compute("b", () => order.push("b"));
    expect(order).toEqual(["b"]);
    compute();
    const socket = connect((server.address() as AddressInfo).port, "127.0.0.1", () => order.push("I/O"));
    await scheduler.compute("c", () => order.push("c"));
    expect(order).toEqual(["b", "I/O", "c"]);
    socket.destroy();
    server.close();
  });

  it("can be put off to the next turn, although nothing was computed", async () => {
    const scheduler = newScheduler();
    const order: string[] = [];
    const later = scheduler.nextTurn("a").then(() => order.push("next turn"));
    const after = scheduler.compute("b", () => order.push("behind it"));
    expect(order).toEqual([]);
    await Promise.all([later, after]);
    expect(order).toEqual(["next turn", "behind it"]);
  });

  it("waits behind those that wait, and parties take turns", async () => {
    const scheduler = newScheduler();
    expect(scheduler.spent).toBe(false);
    compute();
    expect(scheduler.spent).toBe(true);
    const order: string[] = [];
    const piece = (party: string, name: string) =>
      scheduler.compute(party, () => {
        order.push(name);
        compute();
      });
    const many = ["m1", "m2", "m3", "m4"].map((name) => piece("many", name));
    const few = ["f1", "f2"].map((name) => piece("few", name));
    await Promise.all([...many, ...few]);
    expect(order).toEqual(["m1", "f1", "m2", "f2", "m3", "m4"]);
  });

  it.each([
    ["is followed by I/O before the next one", 20, [1, 1, 1, 1, 1]],
    ["shares its turn with the next ones if it is short", 8, [3, 2]],
  ])("%s", async (_, ms, expected) => {
    const scheduler = newScheduler();
    const loops = countLoops();
    const seen = new Map<number, number>();
    const piece = () => {
      seen.set(loops.count, (seen.get(loops.count) ?? 0) + 1);
      compute(ms);
    };
    // Together: none of them has computed when the others ask.
    await Promise.all(Array.from({ length: 5 }, async () => scheduler.compute("a", piece)));
    loops.stop();
    expect([...seen.values()]).toEqual(expected);
  });

  it("costs nothing where nothing waits: after I/O there is a new slice", async () => {
    const scheduler = newScheduler();
    for (let nth = 0; nth < 3; nth++) {
      let computed = false;
      void scheduler.compute("a", () => {
        computed = true;
        compute();
      });
      expect([computed, scheduler.spent]).toEqual([true, true]);
      await turn();
      await turn();
      expect(scheduler.spent).toBe(false);
    }
  });

  it("that throws is its caller's, and the next one has its turn", async () => {
    const scheduler = newScheduler();
    compute();
    expect(scheduler.spent).toBe(false);
    compute();
    const fails = scheduler.compute("a", () => {
      throw new Error("no");
    });
    const lives = scheduler.compute("a", () => "yes");
    await expect(fails).rejects.toThrow("no");
    expect(await lives).toBe("yes");
  });
});

describe("a work in slices", () => {
  /** Each slice takes 8 ms. */
  function* work(name: string, count: number, order: string[]): Generator<void, string> {
    for (let nth = 1; nth <= count; nth++) {
      order.push(`${name}${nth}`);
      compute(8);
      yield;
    }
    return name;
  }

  it("stops after a slice of the loop, and goes on when its turn has come again", async () => {
    const scheduler = newScheduler();
    const order: string[] = [];
    function* long(): Generator<void, string> {
      for (let nth = 1; nth <= 7; nth++) {
        order.push(`long${nth}`);
        compute(8);
        if (nth === 3) void scheduler.compute("others", () => order.push("short"));
        yield;
      }
      return "long";
    }
    expect(await scheduler.computeSlices("documents", long())).toBe("long");
    expect(order).toEqual(["long1", "long2", "long3", "short", "long4", "long5", "long6", "long7"]);
  });

  it("waits for a place if two of its party take long; one that is short, and one of another party, do not", async () => {
    const scheduler = newScheduler();
    const order: string[] = [];
    const ended: string[] = [];
    const works = [
      ...["a", "b", "c"].map((name) => scheduler.computeSlices("documents", work(name, 15, order))),
      scheduler.computeSlices("documents", work("short", 1, order)),
      scheduler.computeSlices("programs", work("other", 15, order)),
    ];
    await Promise.all(works.map(async (work) => ended.push(await work)));
    expect(ended.indexOf("short")).toBeLessThan(ended.indexOf("a"));
    expect(ended.indexOf("other")).toBeLessThan(ended.indexOf("c"));
    expect(order.indexOf("c8")).toBeGreaterThan(order.indexOf("a15"));
  });

  it("that throws gives its place to the next", async () => {
    const scheduler = newScheduler();
    function* throwing(): Generator<void, void> {
      for (let nth = 0; nth < 5; nth++) {
        compute();
        yield;
      }
      throw new Error("faulty");
    }
    const works = Array.from({ length: 5 }, () => scheduler.computeSlices("documents", throwing()));
    expect((await Promise.allSettled(works)).map(({ status }) => status)).toEqual(works.map(() => "rejected"));
  });
});
