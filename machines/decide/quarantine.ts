// The commands `quarantine` and `release`: a run is left alone until an operator releases it.

import type { Command } from "../messages/command.js";
import { type DecisionOn, refused, unchanged } from "../messages/transition.js";
import { isPausing, type Patch, type RunContext } from "../state/context.js";
import { isTerminal, type RunState } from "../state/lifecycle.js";
import { awaitedSignal } from "../state/wait.js";
import type { Draft } from "./draft.js";
import { rescanFromStart } from "./events.js";
import { consumeSignal, mayHaveSignal } from "./ledger/signals.js";
import { completeWait } from "./tasks.js";
import { proceedAfterChildren } from "./token.js";

export function quarantine(draft: Draft, { proof }: Command<"quarantine">): DecisionOn<"quarantine"> {
  const { context } = draft;
  if (isTerminal(context.state) || context.quarantined) return unchanged({ type: "advanced" });
  draft.change({ quarantined: true, proof });
  draft.row("log", "paused", { stepId: context.step, metadata: { kind: "quarantine", ...proof } });
  draft.close("note");
  return draft.decided({ type: "advanced" });
}

export function release(draft: Draft, { actor }: Command<"release">): DecisionOn<"release"> {
  const { context, facts } = draft;
  if (!context.quarantined) return refused("the run is not in quarantine");
  const awaited = mayHaveSignal(context) ? awaitedSignal(context.wait) : undefined;
  if (awaited !== undefined && facts.signal === undefined) return { need: { kind: "signal", name: awaited } };
  draft.change({ quarantined: false, proof: undefined, ...rescanAfterRelease(draft.context) });
  const metadata = { kind: "release", by: actor };
  draft.row("log", stateWithoutQuarantine(draft.context), { stepId: context.step, metadata });
  if (awaited !== undefined && facts.signal) {
    consumeSignal(draft, facts.signal);
    completeWait(draft, facts.signal.payload);
  } else proceedAfterChildren(draft);
  return draft.decided({ type: "advanced" });
}

/** Events and signals in quarantine were not offered to the run: after its commit it looks for them itself (law 9). */
function rescanAfterRelease({ wait, run }: RunContext): Patch {
  if (wait?.kind === "event") return { wait: rescanFromStart(wait) };
  return wait?.kind === "signal" && run.family ? { wait: { ...wait, look: true } } : {};
}

/** The state that a run would have without its quarantine. */
export function stateWithoutQuarantine(context: RunContext): RunState {
  if (context.ending && !context.unwinding) return "compensating";
  if (context.step === undefined) return "pending";
  return isPausing(context) ? "paused" : "running";
}
