// The run record: a context as columns, in a versioned format of our own, not XState's JSON (the position in the chart is
// computed from the context). Stored records outlive releases: a change needs a new format, which is read one release before it is
// written, and an upgrade of older records when they are read (law 13).

import { type Json, type JsonObject, measure } from "../values/json.js";
import type { ActionCall } from "./call.js";
import type { RunContext } from "./context.js";
import type { Frame } from "./frame.js";
import type { RunIdentity } from "./identity.js";
import type { RunState } from "./lifecycle.js";

/** The record formats of a release. Tests have those of the next ones. */
export interface RecordFormats {
  /** The newest one that it reads. It reads all from 1 on. */
  readonly reads: number;
  /** The newest one that it writes: the release before reads it, too. */
  readonly writes: number;
  /** The record of a context. `format` is at most `writes`. */
  encode(context: RunContext, format: number): JsonObject & { readonly v: number };
  /** The record in any format up to `reads`, as members of the context. */
  decode(record: JsonObject): RecordMembers;
}

/** The first record format, which every release reads. */
export const FIRST_FORMAT = 1;

export const RECORD_FORMATS: RecordFormats = {
  ...{ reads: FIRST_FORMAT, writes: FIRST_FORMAT },
  encode: (context) => ({ v: FIRST_FORMAT, ...membersOf(context) }) as unknown as ReturnType<RecordFormats["encode"]>,
  decode: ({ v: _, ...members }) => members as unknown as RecordMembers,
};

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
  | "slot"
  | "turn"
  | "resumptions";

export type RecordMembers = { readonly [M in Member]: RunContext[M] };

/** The record was written by a newer release than this one. */
export class UnreadableRecord extends Error {
  override readonly name = "UnreadableRecord";
}

/** Their order is that of the record: a replay must see what the first run saw. */
function membersOf(context: RunContext): RecordMembers {
  return {
    wait: context.wait,
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
    turn: context.turn,
    resumptions: context.resumptions,
  };
}

/** The context of a stored run. Throws UnreadableRecord. */
export function decodeRun(stored: StoredRun, { reads, decode } = RECORD_FORMATS): RunContext {
  const { v } = stored.record;
  if (!(typeof v === "number" && v >= FIRST_FORMAT && v <= reads))
    throw new UnreadableRecord(
      `run ${stored.identity.id} has record format ${v}, but this node reads formats up to ${reads}`,
    );
  return {
    ...decode(stored.record),
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
  // All members are there from the beginning: on Node 20 each one that a patch adds to a copy costs 2 µs.
  return {
    run,
    state: "pending",
    variables,
    variablesSize,
    step: undefined,
    entries: 0,
    entry: undefined,
    wait: undefined,
    frames: [],
    groups: {},
    items: undefined,
    call: undefined,
    attempts: {},
    unconsumedSignals: 0,
    owed: 0,
    unprotected: {},
    looking: undefined,
    unwinding: undefined,
    caught: undefined,
    ending: undefined,
    finishing: undefined,
    undoing: undefined,
    requiresManualReview: false,
    quarantined: false,
    proof: undefined,
    held: undefined,
    slot: undefined,
    turn: undefined,
    resumptions: undefined,
    output: undefined,
  };
}

function sizeOf(variables: JsonObject): number {
  const size = measure(variables);
  return typeof size === "number" ? size : 0;
}
