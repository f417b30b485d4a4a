// Limits on the size of one request, definition or run. An excess is an error that names the limit. Limits of a node are in
// capacity.ts; limits of single steps (`max_items`) are attributes of the step.
import type { Environment } from "./environment.js";

export interface Limits {
  /** `SAGA_LIMIT_BODY_BYTES` (2 MiB). Bytes of a request body. */
  readonly bodyBytes: number;
  /** `SAGA_LIMIT_OUTPUT_BYTES` (1 MiB). One step's output as JSON. */
  readonly outputBytes: number;
  /** `SAGA_LIMIT_VARIABLES_BYTES` (8 MiB). All variables of a run as JSON. */
  readonly variablesBytes: number;
  /** `SAGA_LIMIT_METADATA_BYTES` (64 KiB). The metadata of an audit event; longer metadata is cut and flagged. */
  readonly metadataBytes: number;
  /** `SAGA_LIMIT_STEPS` (1000). Steps of a definition. */
  readonly steps: number;
  /** `SAGA_LIMIT_BRANCHES` (100). Branches of a step, cases of a switch. */
  readonly branches: number;
  /** `SAGA_LIMIT_NESTING` (10). Depth of blocks inside blocks. */
  readonly nesting: number;
  /** `SAGA_LIMIT_ENTRIES` (100,000). Step entries of a run. */
  readonly entries: number;
}

const MiB = 1024 * 1024;
/** No limit can be raised beyond this: Postgres refuses a value over 1 GB, and a frame of that size would stall a node. */
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
