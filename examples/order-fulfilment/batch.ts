// Runs a batch: customers place orders, the carrier reports parcels, and processes are killed. It ends when every run has
// ended; audit.ts checks whether the books balance.
import { setTimeout as delay } from "node:timers/promises";
import type { Run, Saga, State } from "./rest.js";
import type { DemoOrder, ScenarioName } from "./scenarios.js";

export interface Progress {
  readonly orders: number;
  started: number;
  states: Record<State, number>;
  readonly kills: { readonly what: string; readonly planned: number; done: number }[];
}

const NO_STATES = { pending: 0, running: 0, paused: 0, compensating: 0, succeeded: 0, failed: 0, cancelled: 0 };

export function newProgress(orders: number): Progress {
  return { orders, started: 0, states: { ...NO_STATES }, kills: [] };
}

export function ended({ states }: Progress): number {
  return states.succeeded + states.failed + states.cancelled;
}

/** The rate of orders, and the most starts in progress. */
export const ORDERS_PER_SECOND = 15;
const STARTS_AT_ONCE = 16;
const LOOK_MS = 250;

export interface BatchOptions {
  readonly saga: Saga;
  readonly orders: readonly DemoOrder[];
  readonly progress: Progress;
  /** Enters the order into the shop's books before the service receives it. */
  readonly place: (order: DemoOrder) => Promise<void>;
  readonly signal: AbortSignal;
}

/** Orders arrive at a steady rate, and wait while the service is down. */
export async function takeOrders({ saga, orders, progress, place, signal }: BatchOptions): Promise<void> {
  const queue = [...orders];
  let next = performance.now();
  const take = async () => {
    for (let order = queue.shift(); order !== undefined; order = queue.shift()) {
      next = Math.max(next + 1_000 / ORDERS_PER_SECOND, performance.now());
      await delay(next - performance.now(), undefined, { signal });
      await place(order);
      await saga.start(order);
      progress.started++;
    }
  };
  await Promise.all(Array.from({ length: STARTS_AT_ONCE }, take));
}

/** The carrier: looks for runs that wait for their parcel, and reports each parcel once, some time later. */
export async function reportParcels({ saga, progress, signal }: BatchOptions): Promise<void> {
  const seen = new Set<string>();
  const inProgress = new Set<Promise<void>>();
  // A refused report is a bug of the demo, and its run would never end: the loop below must not wait for it.
  let refused: unknown;
  while (ended(progress) < progress.orders) {
    for (const run of await saga.waitingForParcel()) {
      const payload = reportOn(run.inputs.scenario as ScenarioName, run);
      if (seen.has(run.id) || payload === undefined) continue;
      seen.add(run.id);
      const report: Promise<void> = deliver(saga, run, payload, signal)
        .catch((error: unknown) => {
          refused = error;
        })
        .finally(() => inProgress.delete(report));
      inProgress.add(report);
    }
    if (refused) throw refused;
    await delay(LOOK_MS, undefined, { signal });
  }
  await Promise.all(inProgress);
}

async function deliver(saga: Saga, run: Run, payload: object, signal: AbortSignal): Promise<void> {
  await delay(100 + Math.random() * 1_900, undefined, { signal });
  await saga.parcel(run.id, payload);
}

function reportOn(scenario: ScenarioName, { inputs }: Run): object | undefined {
  if (scenario === "parcel_missing") return undefined;
  if (scenario === "parcel_garbled") return { stat: "dlvrd?" };
  return { status: scenario === "parcel_lost" ? "lost" : "delivered", tracking: `T-${inputs.order_id}` };
}

/** Counts the runs by state until all have ended. */
export async function watch({ saga, progress, signal }: BatchOptions): Promise<void> {
  while (ended(progress) < progress.orders) {
    progress.states = await saga.countByState();
    if (ended(progress) < progress.orders) await delay(LOOK_MS, undefined, { signal });
  }
}

export interface Killing {
  readonly what: string;
  readonly times: number;
  /** Kills and restarts the process; resolves when it serves again. */
  readonly strike: () => Promise<void>;
}

/**
 * Kills at random moments, spread over the time in which orders arrive. There is always work in progress then, because an
 * order takes longer than the pause between two kills.
 */
export async function killNowAndThen(killing: Killing, { progress, signal }: BatchOptions): Promise<void> {
  const tally = { what: killing.what, planned: killing.times, done: 0 };
  progress.kills.push(tally);
  for (let nth = 0; nth < killing.times; nth++) {
    const share = 0.05 + (0.85 * (nth + Math.random())) / killing.times;
    while (progress.started < share * progress.orders) await delay(20, undefined, { signal });
    await delay(Math.random() * 300, undefined, { signal });
    if (ended(progress) === progress.orders) return;
    await killing.strike();
    tally.done++;
  }
}
