// What a rehearsal is asked, and what it answers: the shapes of both. Not how it goes.
import type { StepError } from "../context.js";
import type { ActionFact } from "../facts.js";
import type { Json, JsonObject } from "../json.js";
import type { RunState } from "../lifecycle.js";
import type { RunLimits } from "../limits.js";
import type { Rule } from "../rule/document.js";
import type { Mocks } from "./mocks.js";

export interface RehearsalOptions {
  readonly inputs?: JsonObject;
  readonly mocks?: Mocks;
  readonly entrypoint?: string;
  readonly tenantId?: string;
  readonly dryRun?: boolean;
  readonly features?: Readonly<Record<string, boolean>>;
  /** Epoch milliseconds: where its clock begins. */
  readonly startAt: number;
  /** A registration; what has none is taken to be registered, with no schemas. */
  action?(service: string, name: string, version?: number): ActionFact | undefined;
  rule?(ruleId: string): Rule | undefined;
  conforms?(schema: JsonObject, value: Json): readonly string[];
  readonly limits?: RunLimits;
}

/** How it ended, in the words of the API. */
export interface Rehearsed {
  /** Not a terminal one: see `left`. */
  readonly state: RunState;
  readonly output?: Json;
  readonly variables: JsonObject;
  readonly error?: StepError;
  readonly requires_manual_review: boolean;
  /** Of the run and all its children, in the order in which they happened. */
  readonly events: readonly RehearsedEvent[];
  /** Why it was left before its end. */
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

/** `lacks`: provide it, and move again. */
export type Move = "moved" | "over" | { readonly lacks: WantedWorkflow };
