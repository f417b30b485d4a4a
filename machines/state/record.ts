// The run record: a context as columns, in a versioned format of our own, not XState's JSON (the position in the chart is
// computed from the context). Stored records outlive releases: a change needs a new version, an upgrade in decodeRun(), and
// writers that keep the old version until all live nodes read the new one (law 13).

import { type Json, type JsonObject, measure } from "../values/json.js";
import type { ActionCall } from "./call.js";
import type { RunContext } from "./context.js";
import type { Frame } from "./frame.js";
import type { RunIdentity } from "./identity.js";
import type { RunState } from "./lifecycle.js";

/** The newest record format that this code reads. */
export const RECORD_FORMAT = 4;
/** Every release reads it. */
export const OLDEST_RECORD_FORMAT = 1;

/** A run as it is stored, without its rows in other tables. */
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

/** The members of a context in the record. The others have columns of their own: a commit writes only those that changed. */
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
  | "quarantined"
  | "proof"
  | "held"
  | "slot";

/**
 * Format 2 is format 1 with the member `snapshot` of a wait for an event. Format 3 adds the member `held` and the wait `incident`: an
 * older format cannot express them, so nodes that do not read it leave such a run alone. The same holds for format 4: the slots of a run
 * and of its step entry, and the wait `concurrency`.
 */
type StoredRecord = { readonly v: number } & { readonly [M in Member]: RunContext[M] };

/** The record was written by a newer version than this one. */
export class UnreadableRecord extends Error {
  override readonly name = "UnreadableRecord";
}

/**
 * The record in the oldest format that can express it. `format` is the newest one that all live nodes read: below 2, a wait for an event
 * falls back to its ordinal. `record_in_format` in the database does the same with a stored record.
 */
export function encodeRecord(context: RunContext, format: number): JsonObject & { readonly v: number } {
  const wait = format < 2 ? withoutSnapshot(context.wait) : context.wait;
  const record: StoredRecord = {
    v: formatOf(context, wait),
    wait,
    entries: context.entries,
    entry: context.entry,
    groups: context.groups,
    attempts: context.attempts,
    unconsumedSignals: context.unconsumedSignals,
    owed: context.owed,
    unprotected: context.unprotected,
    looking: context.looking,
    unwinding: context.unwinding,
    caught: context.caught,
    ending: context.ending,
    finishing: context.finishing,
    undoing: context.undoing,
    quarantined: context.quarantined,
    proof: context.proof,
    held: context.held,
    slot: context.slot,
  };
  return record as unknown as ReturnType<typeof encodeRecord>;
}

function formatOf({ held, slot, entry }: RunContext, wait: RunContext["wait"]): number {
  // A node that does not know of slots would not give them back. No run waits for one without either.
  if (slot || entry?.slot) return 4;
  if (held || wait?.kind === "incident") return 3;
  return wait?.kind === "event" && wait.snapshot !== undefined ? 2 : OLDEST_RECORD_FORMAT;
}

function withoutSnapshot(wait: RunContext["wait"]): RunContext["wait"] {
  if (wait?.kind !== "event") return wait;
  const { snapshot: _, ...rest } = wait;
  return rest;
}

/** Reads a record of any format up to `newest`. */
export function decodeRun(stored: StoredRun, newest = RECORD_FORMAT): RunContext {
  const { v, ...record } = stored.record as unknown as StoredRecord;
  if (!(v >= OLDEST_RECORD_FORMAT && v <= newest))
    throw new UnreadableRecord(
      `run ${stored.identity.id} has record format ${v}, but this node reads formats up to ${newest}`,
    );
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

/** The context of a new run. A child starts with its parent's variables, whose size is known. */
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
