// The limits on what one request, definition or run may hold. Over a limit is a clear error that names it; limits of the
// machine's own loops (SAGA_STEPS_PER_COMMIT) and of single steps (`max_items`) are elsewhere.
import type { Environment } from "./environment.js";

export interface Limits {
  /** Bytes of a request body. */
  readonly bodyBytes: number;
  /** Bytes of one step's output, as JSON. */
  readonly outputBytes: number;
  /** Bytes of all variables of a run, as JSON. */
  readonly variablesBytes: number;
  /** Bytes of an audit event's metadata; longer is cut and flagged. */
  readonly metadataBytes: number;
  /** Steps of one definition. */
  readonly steps: number;
  /** Branches of one parallel. */
  readonly branches: number;
  /** Blocks inside blocks. */
  readonly nesting: number;
  /** Step entries of one run. */
  readonly entries: number;
}

const MiB = 1024 * 1024;
/** Postgres refuses a value over 1 GB, and a frame of that size would stall a node: no limit can be lifted beyond this. */
const MOST_BYTES = 256 * MiB;

const LIMITS: Record<keyof Limits, { name: string; standard: number; max: number }> = {
  bodyBytes: { name: "SAGA_LIMIT_BODY_BYTES", standard: 2 * MiB, max: MOST_BYTES },
  outputBytes: { name: "SAGA_LIMIT_OUTPUT_BYTES", standard: MiB, max: MOST_BYTES },
  variablesBytes: { name: "SAGA_LIMIT_VARIABLES_BYTES", standard: 8 * MiB, max: MOST_BYTES },
  metadataBytes: { name: "SAGA_LIMIT_METADATA_BYTES", standard: 64 * 1024, max: MiB },
  steps: { name: "SAGA_LIMIT_STEPS", standard: 1000, max: 100_000 },
  branches: { name: "SAGA_LIMIT_BRANCHES", standard: 100, max: 10_000 },
  nesting: { name: "SAGA_LIMIT_NESTING", standard: 10, max: 100 },
  entries: { name: "SAGA_LIMIT_ENTRIES", standard: 100_000, max: 100_000_000 },
};

export function readLimits(environment: Environment): Limits {
  const limit = (key: keyof Limits) => {
    const { name, standard, max } = LIMITS[key];
    return environment.integer(name, { min: 1, max }) ?? standard;
  };
  return {
    bodyBytes: limit("bodyBytes"),
    outputBytes: limit("outputBytes"),
    variablesBytes: limit("variablesBytes"),
    metadataBytes: limit("metadataBytes"),
    steps: limit("steps"),
    branches: limit("branches"),
    nesting: limit("nesting"),
    entries: limit("entries"),
  };
}
