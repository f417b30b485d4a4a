// How much a node takes on: what it keeps in memory, and from where on it sheds load. Limits on single requests, definitions
// and runs are in limits.ts.
import type { Environment } from "./environment.js";

export interface Capacity {
  /** Runs kept in memory, on a node. */
  readonly residents: number;
  /** What those at rest may weigh together, estimated, in bytes. */
  readonly residentBytes: number;
  /** Runs and requests in hand on a node, from which on it sheds load. */
  readonly shedRuns: number;
  /** Lateness of the event loop, in milliseconds, from which on it sheds load. */
  readonly shedLoopMs: number;
  /** Use of the heap, in percent of its limit, from which on it sheds load. */
  readonly shedHeapPercent: number;
}

const MiB = 1024 * 1024;

export function readCapacity(environment: Environment): Capacity {
  return {
    residents: environment.integer("SAGA_RESIDENTS", { min: 0, max: 10_000_000 }) ?? 10_000,
    residentBytes: environment.integer("SAGA_RESIDENT_BYTES", { min: 0, max: 1024 * 1024 * MiB }) ?? 256 * MiB,
    shedRuns: environment.integer("SAGA_SHED_RUNS", { min: 1, max: 10_000_000 }) ?? 5_000,
    shedLoopMs: environment.integer("SAGA_SHED_LOOP_MS", { min: 1, max: 60_000 }) ?? 1_000,
    shedHeapPercent: environment.integer("SAGA_SHED_HEAP_PERCENT", { min: 20, max: 100 }) ?? 85,
  };
}
