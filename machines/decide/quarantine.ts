// The commands `quarantine` and `release`: a run is left alone until an operator releases it. And how a run goes on after that, or after
// an operator's pause.

import type { Command } from "../messages/command.js";
import { Needed } from "../messages/fact.js";
import { type DecisionOn, refused, unchanged } from "../messages/transition.js";
import { isHalted, isPausing, type Patch, type RunContext } from "../state/context.js";
import { isTerminal, type RunState } from "../state/lifecycle.js";
import { awaitedSignal } from "../state/wait.js";
import { dispatchRequest } from "./dispatching.js";
import type { Draft } from "./draft.js";
import { rescanFromStart } from "./events.js";
import { tendDetachedGroups } from "./ledger/groups.js";
import { consumeSignal, mayHaveSignal } from "./ledger/signals.js";
import { letOthersPass, wantSlotAgain } from "./ledger/slots.js";
import { completeWait } from "./tasks.js";
import { proceedAfterChildren } from "./token.js";

export function quarantine(draft: Draft, { proof }: Command<"quarantine">): DecisionOn<"quarantine"> {
  const { context } = draft;
  if (isTerminal(context.state) || context.quarantined) return unchanged({ type: "advanced" });
  draft.change({ quarantined: true, proof });
  draft.row("log", "paused", { stepId: context.step, metadata: { kind: "quarantine", ...proof } });
  letOthersPass(draft);
  draft.close("note");
  return draft.decided({ type: "advanced" });
}

export function release(draft: Draft, { actor }: Command<"release">): DecisionOn<"release"> {
  const { context } = draft;
  if (!context.quarantined) return refused("the run is not in quarantine");
  draft.change({ quarantined: false, proof: undefined });
  const metadata = { kind: "release", by: actor };
  draft.row("log", restingState(context), { stepId: context.step, metadata });
  continueAfterHalt(draft);
  return draft.decided({ type: "acted", state: context.state, changed: true });
}

/** Takes what came meanwhile: a signal, a task's result, children that ended. A run that is still halted stays where it is. */
export function continueAfterHalt(draft: Draft): void {
  const { context, facts } = draft;
  if (isHalted(context)) return draft.close("note");
  const awaited = mayHaveSignal(context) ? awaitedSignal(context.wait) : undefined;
  if (awaited !== undefined && facts.signal === undefined) throw new Needed({ kind: "signal", name: awaited });
  draft.change(rescanAfterHalt(context));
  wantSlotAgain(draft);
  // The ends of detached branches were only counted, and what the run waits for may be something else.
  tendDetachedGroups(draft);
  if (awaited !== undefined && facts.signal) {
    consumeSignal(draft, facts.signal);
    completeWait(draft, facts.signal.payload);
  } else if (context.wait?.kind === "queued" && context.call) {
    // Offers were refused meanwhile.
    draft.owe({ sends: [dispatchRequest(context.run, context.wait.dispatchId, context.call)] });
    draft.close("note");
  } else proceedAfterChildren(draft);
}

/** Events and signals were not offered to the halted run: after its commit it looks for them itself (law 9). */
function rescanAfterHalt({ wait, run }: RunContext): Patch {
  if (wait?.kind === "event") return { wait: rescanFromStart(wait) };
  return wait?.kind === "signal" && run.family ? { wait: { ...wait, look: true } } : {};
}

/** The state of a run that has not ended, as its context has it: halted, ending, not begun, waiting, or stepping. */
export function restingState(context: RunContext): RunState {
  if (isHalted(context)) return "paused";
  if (context.ending && !context.unwinding) return "compensating";
  // Before its first step it can only wait for a slot or a turn.
  if (context.step === undefined) return context.wait ? "paused" : "pending";
  return isPausing(context) || context.wait?.kind === "incident" ? "paused" : "running";
}
