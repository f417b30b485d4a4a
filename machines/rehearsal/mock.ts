// Mocks as their authors write them: types alone, which users of the package for tests get without the machine. How they are read and used is
// in mocks.ts.
import type { Json } from "../values/json.js";

export interface MockError {
  /** `timeout`: no answer comes. */
  readonly code: string;
  readonly message?: string;
  /** Default: true. */
  readonly retryable?: boolean;
  /** Default: false. */
  readonly outcome_unknown?: boolean;
}

export type Mock = { readonly output: Json } | { readonly error: MockError };

/**
 * Mocks by step id; `<step>~undo` for the compensation of a step, `<workflow>/<step>` for a step of another workflow. The nth attempt
 * uses the nth mock; the last mock serves all further attempts.
 */
export type Mocks = Readonly<Record<string, readonly Mock[]>>;
