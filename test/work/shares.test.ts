// Places that callers share: how many one may hold, and in which order those who wait get theirs.
import { expect, it } from "vitest";
import { Shares } from "../../src/work/shares.js";

it("a holder has at most half of the places, rounded up, and others find the rest", () => {
  const shares = new Shares(5);
  const first = shares.take("a");
  shares.take("a");
  shares.take("a");
  expect(shares.take("a")).toBe("share");
  shares.take("b");
  shares.take("b");
  expect([shares.take("b"), shares.take("a"), shares.take("c"), shares.take(undefined)]).toEqual([
    ...["full", "share", "full", "full"],
  ]);
  if (typeof first === "function") first();
  expect(typeof shares.take("c")).toBe("function");
});

it("without a holder all places are one's own", () => {
  const shares = new Shares(2);
  expect([shares.take(undefined), shares.take(undefined), shares.take(undefined)].map((got) => typeof got)).toEqual([
    ...["function", "function", "string"],
  ]);
});

it("who waits gets a place in the order of coming, and one who has its share holds up no other", async () => {
  const shares = new Shares(2);
  const order: string[] = [];
  const ends = new Map<string, () => void>();
  const work = (holder: string, name: string) =>
    shares.run(holder, () => {
      order.push(name);
      return new Promise<void>((resolve) => void ends.set(name, resolve));
    });
  const all = [work("a", "a1"), work("a", "a2"), work("a", "a3"), work("b", "b1")];
  await Promise.resolve();
  expect(order).toEqual(["a1", "b1"]);
  ends.get("a1")?.();
  await all[0];
  await new Promise(setImmediate);
  expect(order).toEqual(["a1", "b1", "a2"]);
  ends.get("a2")?.();
  await all[1];
  await new Promise(setImmediate);
  expect(order.at(-1)).toBe("a3");
  ends.get("a3")?.();
  ends.get("b1")?.();
  await Promise.all(all);
});
