// The recorded signals of a run that no step has taken.
import type { Facts } from "../../messages/fact.js";
import { signalConsumed } from "../../messages/owed.js";
import type { RunContext } from "../../state/context.js";
import type { Draft } from "../draft.js";

/** Whether an unconsumed signal may exist for the run. A branch or an item may take those of its family. */
export function mayHaveSignal({ unconsumedSignals, run }: RunContext): boolean {
  return unconsumedSignals > 0 || run.family !== undefined;
}

/** Claims the signal. The run counts its own signals only. */
export function consumeSignal(draft: Draft, { id, runId }: NonNullable<Facts["signal"]>): void {
  const { run, unconsumedSignals } = draft.context;
  draft.owe(signalConsumed(draft, id));
  if (runId === run.id) draft.change({ unconsumedSignals: unconsumedSignals - 1 });
}
