// Groups: the children of step entries. They are stored as they are: a durable format.

import type { RunId } from "../values/ids.js";
import type { JsonObject } from "../values/json.js";
import type { StepError } from "./entry.js";
import type { UndoEntry } from "./rollback.js";

export type ChildState = "succeeded" | "failed" | "cancelled";

/** The children of one step entry. They start in order, at most `window` of them at once. */
export interface Group {
  readonly step: string;
  readonly kind: "branches" | "items" | "saga";
  readonly total: number;
  readonly window: number;
  readonly started: number;
  readonly running: number;
  readonly failed: number;
  /** Branches: which have ended, in that order. Items may be too many to list. */
  readonly ended?: readonly (readonly [branch: string, state: ChildState])[];
  /** Items: the last failure; once the group is stopped, the failure that exceeded the tolerance. Sub-saga: its end. */
  readonly verdict?: { readonly state: ChildState; readonly error?: StepError };
  /** Sub-saga: the child, and the number of its attempt. */
  readonly child?: RunId;
  readonly nth?: number;
  /** Sub-saga: its version, fixed at the step's entry, and whether it timed out. */
  readonly version?: number;
  readonly timedOut?: boolean;
  /** A sub-saga that was cancelled: its undo, in case it succeeded before the cancel reached it. */
  readonly undo?: UndoEntry;
  /** Branches that do not all start at once: the names that the blocks around the step gave to expressions. */
  readonly locals?: JsonObject;
  /** Its children handed over undo lists. */
  readonly handed?: boolean;
  /** Its children were cancelled, and no more are created. */
  readonly stopped?: boolean;
  /** Detached: the step is over, and the group stays only until its children have ended. */
  readonly left?: boolean;
}
