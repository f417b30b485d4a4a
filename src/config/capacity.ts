// The capacity of a node: how much it keeps in memory, and when it sheds load. Limits on single requests, definitions and runs are
// in limits.ts.
import type { Environment } from "./environment.js";

export interface Capacity {
  /** `SAGA_RESIDENTS` (10,000). Runs in memory. */
  readonly residents: number;
  /** `SAGA_RESIDENT_BYTES` (256 MiB). Estimated bytes of all idle runs in memory. */
  readonly residentBytes: number;
  /** `SAGA_SHED_RUNS` (5,000). Busy runs, or open requests, at which the node begins to shed load. */
  readonly shedRuns: number;
  /** `SAGA_SHED_LOOP_MS` (1,000). Delay of the event loop at which the node begins to shed load. */
  readonly shedLoopMs: number;
  /** `SAGA_SHED_HEAP_PERCENT` (85). Heap use at which the node begins to shed load. */
  readonly shedHeapPercent: number;
  /** `SAGA_BULK_PER_SECOND` (200). Acts of bulk jobs that a node carries out in a second. */
  readonly bulkPerSecond: number;
  /** `SAGA_CONCURRENCY_QUEUE` (10,000). Runs and steps that may wait for a slot of one concurrency key. */
  readonly slotRoom: number;
  /** `SAGA_RATE_LIMIT_QUEUE` (10,000). Runs and steps that may wait for their turn under the rate limit of one key. */
  readonly turnRoom: number;
}

const MiB = 1024 * 1024;

export function readCapacity(environment: Environment): Capacity {
  return {
    residents: environment.integer("SAGA_RESIDENTS", { min: 0, max: 10_000_000 }) ?? 10_000,
    turnRoom: environment.integer("SAGA_RATE_LIMIT_QUEUE", { min: 1, max: 1_000_000 }) ?? 10_000,
    residentBytes: environment.integer("SAGA_RESIDENT_BYTES", { min: 0, max: 1024 * 1024 * MiB }) ?? 256 * MiB,
    shedRuns: environment.integer("SAGA_SHED_RUNS", { min: 1, max: 10_000_000 }) ?? 5_000,
    shedLoopMs: environment.integer("SAGA_SHED_LOOP_MS", { min: 1, max: 60_000 }) ?? 1_000,
    shedHeapPercent: environment.integer("SAGA_SHED_HEAP_PERCENT", { min: 20, max: 100 }) ?? 85,
    bulkPerSecond: environment.integer("SAGA_BULK_PER_SECOND", { min: 1, max: 100_000 }) ?? 200,
    slotRoom: environment.integer("SAGA_CONCURRENCY_QUEUE", { min: 1, max: 1_000_000 }) ?? 10_000,
  };
}
