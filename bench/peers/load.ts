// The load, the same for all systems: clients that each begin an operation when their last one has ended. There is no pause between the
// warm-up and the measured window, so that the window begins and ends in the middle of the load.
import { setTimeout as delay } from "node:timers/promises";
import type { Scenario } from "./scenarios.js";
import type { System } from "./system.js";

/** One operation of a client. Its duration in milliseconds, as far as it is measured. */
export type Operation = () => Promise<number>;

/** How long a run has had to reach its wait, before a single signal is sent to it. */
const SETTLE_MS = 100;

export interface Window {
  readonly warmMs: number;
  readonly measureMs: number;
  opened(): void;
  closed(): void;
}

export interface Loaded {
  /** Durations of the operations that ended in the window, in milliseconds. */
  readonly durations: readonly number[];
  /** Operations in total. */
  readonly total: number;
  readonly seconds: number;
}

/** Each client has an operation of its own. */
export async function steadyLoad(clients: readonly Operation[], window: Window): Promise<Loaded> {
  const durations: number[] = [];
  let total = 0;
  let state: "warm" | "open" | "over" = "warm";
  const work = clients.map(async (operation) => {
    while (state !== "over") {
      const ms = await operation();
      total++;
      if (state === "open") durations.push(ms);
    }
  });
  const timed = async () => {
    await delay(window.warmMs);
    window.opened();
    state = "open";
    const since = performance.now();
    await delay(window.measureMs);
    state = "over";
    const seconds = (performance.now() - since) / 1000;
    window.closed();
    return seconds;
  };
  const [seconds] = await Promise.all([timed(), ...work]);
  return { durations, total, seconds };
}

export function operationOf(scenario: Scenario, system: System): Operation {
  if (scenario.kind === "signal") return () => signalOne(system);
  return scenario.kind === "cycles" ? signalCycles(system) : () => timed(() => system.run(scenario.workflow));
}

/** The time from sending the signal to the answer of the request that started the run and has waited for its end since. */
async function signalOne(system: System): Promise<number> {
  const id = system.newId();
  const ended = system.run("signalled", id);
  await Promise.race([delay(SETTLE_MS), ended]);
  return timed(() => Promise.all([system.signal(id), ended]));
}

/** Each cycle starts the next run, then signals the one that has waited since the last cycle, and waits for its end. */
function signalCycles(system: System): Operation {
  let parked = system.begin();
  return () =>
    timed(async () => {
      const id = await parked;
      parked = system.begin();
      await parked;
      await system.signal(id);
      await system.end(id);
    });
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const since = performance.now();
  await work();
  return performance.now() - since;
}

/** Calls `work` once for each number below `count`, `lanes` at a time. */
export async function each(count: number, lanes: number, work: (nth: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const lane = async () => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}

const POLL_MS = 100;
const STALLED_MS = 120_000;

/** Resolves when the count is reached. Throws when it has not changed for two minutes. */
export async function reached(count: () => Promise<number>, wanted: number): Promise<void> {
  let before = -1;
  for (let since = performance.now(); ; await delay(POLL_MS)) {
    const now = await count();
    if (now >= wanted) return;
    if (now !== before) since = performance.now();
    before = now;
    if (performance.now() - since > STALLED_MS) throw new Error(`stalled at ${now} of ${wanted} runs`);
  }
}
