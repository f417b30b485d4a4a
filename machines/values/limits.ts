// The limits of definitions and runs (docs/workflows.md). Sizes are characters of JSON text. They are parameters, so that an
// operator can set them. Exceeding a limit is an error that names it.

export interface RunLimits {
  /** Step entries of one run. */
  readonly entries: number;
  /** One step's output. */
  readonly output: number;
  /** All variables of a run. */
  readonly variables: number;
  /** The metadata of one audit event. Longer metadata is cut and marked. */
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

/** The largest integer of 32 bits: what most columns of counts hold. */
export const MAX_INT32 = 2_147_483_647;
/** The last version of a definition, a rule or an action: what its column holds. */
export const MAX_VERSION = MAX_INT32;
/** The signals of one run that no step has consumed. */
export const MAX_KEPT_SIGNALS = 10_000;

/** The upper bounds of the settings. */
export const MAX_STEPS = 100_000;
export const MAX_BRANCHES = 10_000;
/** The nesting depth of blocks in a definition, and of runs. */
export const MAX_NESTING = 10;
