// The result of a rehearsal, and of a move of it: types alone, which users of the package for tests get without the machine.

import type { StepError } from "../state/entry.js";
import type { RunState } from "../state/lifecycle.js";
import type { Json, JsonObject } from "../values/json.js";

/** The result, with the names of the API. */
export interface Rehearsed {
  /** A state that is not terminal: see `left`. */
  readonly state: RunState;
  readonly output?: Json;
  readonly variables: JsonObject;
  readonly error?: StepError;
  readonly requires_manual_review: boolean;
  /** The events of the run and all its children, in the order in which they happened. */
  readonly events: readonly RehearsedEvent[];
  /** Why the rehearsal stopped before the end of the run. */
  readonly left?: string;
}

export interface RehearsedEvent {
  readonly seq: number;
  readonly run_id: string;
  readonly workflow_id: string;
  readonly step_id?: string;
  readonly attempt: number;
  readonly event_type: string;
  readonly from_state: RunState;
  readonly to_state: RunState;
  readonly actor: string;
  readonly metadata?: JsonObject;
  readonly recorded_at: string;
}

export interface WantedWorkflow {
  readonly workflowId: string;
  readonly version?: number;
}

/** `missing`: provide the workflow and move again. */
export type Move = "moved" | "over" | { readonly missing: WantedWorkflow };
