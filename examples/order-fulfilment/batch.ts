// What goes on during the batch: customers order, the carrier reports, and whoever was asked to kills processes. It ends
// when every run has ended; whether the books balance then is audit.ts's question.
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

/** Customers order this often, and the shop has this many starts under way at most. */
export const ORDERS_PER_SECOND = 15;
const STARTS_AT_ONCE = 16;
const LOOK_MS = 250;

export interface BatchOptions {
  readonly saga: Saga;
  readonly orders: readonly DemoOrder[];
  readonly progress: Progress;
  /** The order is in the shop's own books before the service hears of it. */
  readonly place: (order: DemoOrder) => Promise<void>;
  readonly signal: AbortSignal;
}

/** Orders come at a steady pace, and wait their turn while the service is down. */
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

/** The carrier: looks which parcels are waited for, and reports each some time later, once. */
export async function reportParcels({ saga, progress, signal }: BatchOptions): Promise<void> {
  const seen = new Set<string>();
  const underWay = new Set<Promise<void>>();
  // A report that the service refuses is a fault of the demo: the loop below must not wait for the end that never comes.
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
        .finally(() => underWay.delete(report));
      underWay.add(report);
    }
    if (refused) throw refused;
    await delay(LOOK_MS, undefined, { signal });
  }
  await Promise.all(underWay);
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

/** Counts the runs by their states until all have ended. */
export async function watch({ saga, progress, signal }: BatchOptions): Promise<void> {
  while (ended(progress) < progress.orders) {
    progress.states = await saga.countByState();
    if (ended(progress) < progress.orders) await delay(LOOK_MS, undefined, { signal });
  }
}

export interface Killing {
  readonly what: string;
  readonly times: number;
  /** Kills it and starts it again; resolves when it serves again. */
  readonly strike: () => Promise<void>;
}

/**
 * Strikes at random moments, spread over the time in which orders come in. There is always work under way then: an order
 * takes longer than the pause between two strikes.
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
