// The run record: how a context becomes columns and back, in a format of our own with a version. Stored records outlive
// releases: a change here needs a new version, an upgrade in decode(), and writers that stay behind until all nodes read it
// (law 13). Not XState's JSON: the chart's position is computed from the context.
import type { ActionCall, Ending, RunContext, RunIdentity, StepEntry, Wait } from "./context.js";
import { type Json, type JsonObject, measure } from "./json.js";
import type { RunState } from "./lifecycle.js";

/** The newest record format this code reads. */
export const RECORD_FORMAT = 1;

/** A run as it is stored, but for its rows in other tables. */
export interface StoredRun {
  readonly identity: RunIdentity;
  readonly state: RunState;
  readonly currentStep?: string;
  readonly requiresManualReview: boolean;
  readonly record: JsonObject;
  readonly call?: JsonObject;
  readonly variables: JsonObject;
  readonly output?: Json;
}

interface RecordV1 {
  readonly v: 1;
  readonly entries: number;
  readonly entry?: StepEntry;
  readonly wait?: Wait;
  readonly attempts: Readonly<Record<string, number>>;
  readonly unconsumedSignals: number;
  readonly owed: number;
  readonly unprotected: Readonly<Record<string, boolean>>;
  readonly ending?: Ending;
  readonly undoing?: string;
  readonly quarantined: boolean;
}

export function encodeRecord(context: RunContext): JsonObject {
  const { entries, entry, wait, attempts, unconsumedSignals, owed, unprotected, ending, undoing, quarantined } =
    context;
  const record: RecordV1 = {
    v: 1,
    entries,
    entry,
    wait,
    attempts,
    unconsumedSignals,
    owed,
    unprotected,
    ending,
    undoing,
    quarantined,
  };
  return record as unknown as JsonObject;
}

export function decodeRun(stored: StoredRun): RunContext {
  const { v, ...record } = stored.record as unknown as RecordV1;
  if (v !== 1)
    throw new Error(`run ${stored.identity.id} has record format ${v}; this node reads up to ${RECORD_FORMAT}`);
  const size = measure(stored.variables);
  return {
    ...record,
    run: stored.identity,
    state: stored.state,
    step: stored.currentStep,
    requiresManualReview: stored.requiresManualReview,
    call: stored.call as unknown as ActionCall | undefined,
    variables: stored.variables,
    variablesSize: typeof size === "number" ? size : 0,
    output: stored.output,
  };
}

/** A run that has not been advanced yet. */
export function newRun(run: RunIdentity, variables: JsonObject): RunContext {
  const size = measure(variables);
  return {
    run,
    state: "pending",
    variables,
    variablesSize: typeof size === "number" ? size : 0,
    entries: 0,
    attempts: {},
    unconsumedSignals: 0,
    owed: 0,
    unprotected: {},
    requiresManualReview: false,
    quarantined: false,
  };
}
