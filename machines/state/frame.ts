// Frames: the blocks of a run that its token is in. They are stored as they are: a durable format.

import type { Json } from "../values/json.js";
import type { StepEntry, StepError } from "./entry.js";

/** The steps that completed without a compensation. True: the action is registered as compensable, so a person must review it. */
export type Unprotected = Readonly<Record<string, boolean>>;

/** A block or a catch chain that the token is in. Branches and items are runs of their own and have no frames here. */
export type Frame =
  | {
      readonly kind: "try";
      readonly step: string;
      readonly catchStep: string;
      readonly entry: StepEntry;
      readonly dueAt?: number;
      /** The completed steps of the try are undone before its catch. */
      readonly rollback?: true;
      /** The counts of the run at the entry of the try. */
      readonly owed: number;
      readonly unprotected: Unprotected;
    }
  | { readonly kind: "catch"; readonly step: string; readonly entry: StepEntry; readonly error: StepError }
  | {
      readonly kind: "while";
      readonly step: string;
      readonly entry: StepEntry;
      readonly iteration: number;
      /** The outputs of the last rounds, at most `keep` of them. */
      readonly outputs: readonly Json[];
      /** The most rounds, and the number of outputs to keep, as evaluated at the entry. */
      readonly most: number;
      readonly keep: number;
    };
