// A time limit beside a signal is over in time, also if nothing else refers to it and garbage is collected meanwhile.
import { setTimeout as delay } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { within } from "../../src/sdk/timer.js";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

it("a time limit beside a signal ends what waits for it, whatever is collected before", async () => {
  const other = new AbortController();
  const waited = Array.from({ length: 20 }, async () => {
    const both = within(other.signal, 500);
    await new Promise((resolve) => both.addEventListener("abort", resolve, { once: true }));
    return (both.reason as Error).name;
  });
  for (let round = 0; round < 3; round++) {
    await delay(1);
    collect();
  }
  expect(new Set(await Promise.all(waited))).toEqual(new Set(["TimeoutError"]));
});

it("a signal beside a time limit ends it with its own reason", async () => {
  const other = new AbortController();
  const both = within(other.signal, 60_000);
  await delay(0);
  expect(both.aborted).toBe(false);
  const reason = new Error("no longer");
  other.abort(reason);
  expect(both.reason).toBe(reason);
  expect(within(AbortSignal.abort(reason), 60_000).reason).toBe(reason);
});
