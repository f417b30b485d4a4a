// The run record: how a context becomes columns and back, in a format of our own with a version. Stored records outlive
// releases: a change here needs a new version, an upgrade in decode(), and writers that stay behind until all nodes read it
// (law 13). Not XState's JSON: the chart's position is computed from the context.
import type { ActionCall, Frame, RunContext, RunIdentity } from "./context.js";
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
  readonly frames?: readonly JsonObject[];
  readonly items?: readonly Json[];
  readonly variables: JsonObject;
  readonly output?: Json;
}

/** What stands in the record. The rest of a context has columns of its own, which a commit that leaves them alone does not write. */
type Member =
  | "entries"
  | "entry"
  | "wait"
  | "groups"
  | "attempts"
  | "unconsumedSignals"
  | "owed"
  | "unprotected"
  | "looking"
  | "unwinding"
  | "caught"
  | "ending"
  | "finishing"
  | "undoing"
  | "quarantined";

type RecordV1 = { readonly v: 1 } & { readonly [M in Member]: RunContext[M] };

export function encodeRecord(context: RunContext): JsonObject {
  const { entries, entry, wait, groups, attempts, unconsumedSignals, owed, unprotected } = context;
  const { looking, unwinding, caught, ending, finishing, undoing, quarantined } = context;
  const record: RecordV1 = {
    v: 1,
    ...{ entries, entry, wait, groups, attempts, unconsumedSignals, owed, unprotected },
    ...{ looking, unwinding, caught, ending, finishing, undoing, quarantined },
  };
  return record as unknown as JsonObject;
}

export function decodeRun(stored: StoredRun): RunContext {
  const { v, ...record } = stored.record as unknown as RecordV1;
  if (v !== 1)
    throw new Error(`run ${stored.identity.id} has record format ${v}; this node reads up to ${RECORD_FORMAT}`);
  return {
    ...record,
    run: stored.identity,
    state: stored.state,
    step: stored.currentStep,
    requiresManualReview: stored.requiresManualReview,
    call: stored.call as unknown as ActionCall | undefined,
    frames: (stored.frames ?? []) as unknown as readonly Frame[],
    items: stored.items,
    variables: stored.variables,
    variablesSize: sizeOf(stored.variables),
    output: stored.output,
  };
}

/** A run that has not been advanced yet. A child begins with its parent's variables, whose size is known. */
export function newRun(run: RunIdentity, variables: JsonObject, variablesSize = sizeOf(variables)): RunContext {
  return {
    run,
    state: "pending",
    variables,
    variablesSize,
    entries: 0,
    frames: [],
    groups: {},
    attempts: {},
    unconsumedSignals: 0,
    owed: 0,
    unprotected: {},
    requiresManualReview: false,
    quarantined: false,
  };
}

function sizeOf(variables: JsonObject): number {
  const size = measure(variables);
  return typeof size === "number" ? size : 0;
}
