// Rollbacks: the undo list of a run, and the reasons why it leaves a try or ends without success.

import type { RunId } from "../values/ids.js";
import type { JsonObject } from "../values/json.js";
import type { StepError } from "./entry.js";
import type { TerminalState } from "./lifecycle.js";

/**
 * The run is leaving a try with an error. Once everything inside has ended, and is undone if the try rolls back, its catch gets
 * the error.
 */
export interface Unwinding {
  /** The try's step entry. */
  readonly entry: number;
  readonly error: StepError;
  /** The try timed out: everything that still runs inside is cancelled. */
  readonly timedOut?: true;
}

/** An entry of the undo list. The database assigns the `ordinal`, in the order of completion. */
export interface UndoEntry {
  readonly ordinal?: string;
  readonly stepId: string;
  /** The owner's step entry. An undo that a child handed over belongs to the step entry that created the child. */
  readonly entry: number;
  /** `service.name@version`, or `service.name` if it is not registered yet. Absent: the step has no compensation and is skipped. */
  readonly action?: string;
  readonly inputs?: JsonObject;
  readonly forwardIdempotencyKey: string;
  readonly childRunId?: RunId;
  /** The trace context of the attempt that it undoes, if its spans are recorded. */
  readonly forwardTrace?: string;
}

/** The run is on its way to an end other than success. The first cause is kept. */
export interface Ending {
  readonly to: Exclude<TerminalState, "succeeded">;
  readonly error?: StepError;
  readonly reason: string;
  /** The run ends without any undo. */
  readonly abandon?: true;
  /** And without waiting for an answer. */
  readonly terminated?: true;
  /** And without reading any value of the run: the key that they were sealed with was destroyed. */
  readonly dataLost?: true;
}
