// The limits that bind a definition and a run (docs/workflows.md). Sizes are characters of JSON text. They are handed in, so
// that an operator can set them; over a limit is an error that names it.

export interface RunLimits {
  /** Step entries of one run. */
  readonly entries: number;
  /** One step's output. */
  readonly output: number;
  /** All variables of a run. */
  readonly variables: number;
  /** One audit event's metadata; longer is cut and flagged. */
  readonly metadata: number;
}

export const STANDARD_RUN_LIMITS: RunLimits = {
  entries: 100_000,
  output: 1_048_576,
  variables: 8 * 1_048_576,
  metadata: 65_536,
};

export interface DefinitionLimits {
  readonly steps: number;
  /** Outgoing edges of one step. */
  readonly branches: number;
}

export const STANDARD_DEFINITION_LIMITS: DefinitionLimits = { steps: 1_000, branches: 100 };

/** What no setting lifts: the schema's own bounds. */
export const MOST_STEPS = 100_000;
export const MOST_BRANCHES = 10_000;
/** Blocks within blocks in a definition, and runs below runs. */
export const MOST_NESTING = 10;
