// Timers that are due within one second: how late they fire. Both times are of the database's clock, which the service uses.
import { setTimeout as delay } from "node:timers/promises";
import type { Stage } from "../stage.js";
import { TIMED } from "../workloads.js";
import type { Scenario } from "./scenario.js";

const WITHIN_MS = 1_000;
const SPARE_MS = 3_000;
/** Milliseconds that a start is guessed to take if there is no warm-up. */
const GUESSED_MS_EACH = 5;

interface Waiting {
  readonly ids: readonly string[];
  /** When the first one is due, in epoch milliseconds. */
  readonly firstDue: number;
}

/**
 * Starts runs of which the nth waits until `offset(nth)` ms after the first one. They are due so far ahead that all of them wait by then,
 * judged by the rate of the warm-up; throws if they do not.
 */
export async function startTimed(stage: Stage, offset: (nth: number) => number): Promise<Waiting> {
  const { api, size } = stage;
  const start = (until: number) =>
    api.insist(() => api.start(TIMED, { inputs: { until: new Date(until).toISOString() } }));
  const since = performance.now();
  await stage.warmUp(async () => {
    await start(0);
  });
  const msEach = size.warmup > 0 ? (performance.now() - since) / size.warmup : GUESSED_MS_EACH;
  const firstDue = Date.now() + 1.5 * msEach * size.count + SPARE_MS;
  const ids: string[] = [];
  await stage.prepare(size.count, async (nth) => {
    ids[nth] = await start(firstDue + offset(nth));
  });
  if (Date.now() > firstDue) throw new Error("the first timers were due before the last run was started");
  return { ids, firstDue };
}

const timers: Scenario = {
  ...{
    name: "timers",
    title: "Timers due in one second",
    unit: "timers",
    count: 10_000,
    concurrency: 64,
    kind: "work",
  },
  async play(stage) {
    await stage.api.publish(TIMED);
    const { count, concurrency } = stage.size;
    const offset = (nth: number) => Math.floor((nth * WITHIN_MS) / count);
    const { ids, firstDue } = await startTimed(stage, offset);
    await delay(firstDue - Date.now());
    await stage.measured(async () => {
      await delay(WITHIN_MS);
      let last = firstDue;
      const fired = await stage.operations({ count, concurrency }, "due to end", async (nth) => {
        const { terminal_at = "" } = await stage.api.ended(ids[nth] ?? "");
        last = Math.max(last, Date.parse(terminal_at));
        return { ms: Date.parse(terminal_at) - firstDue - offset(nth) };
      });
      return { count: fired, seconds: (last - firstDue) / 1_000 };
    });
  },
};

export const TIMERS = [timers];
