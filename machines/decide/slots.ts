// The commands of a slot: `slot_granted` and `slot_refused`; and how a run, or its step, goes on with the answer. A refusal is kept until the
// run may go on; a slot that is granted to a halted run goes back, so that those behind it pass.

import type { Command } from "../messages/command.js";
import { type DecisionOn, unchanged } from "../messages/transition.js";
import type { RunContext } from "../state/context.js";
import { isTerminal } from "../state/lifecycle.js";
import { RUN_SLOT, type Slot } from "../state/slot.js";
import { beginAttempt } from "./dispatching.js";
import { currentPlan, type Draft } from "./draft.js";
import { failRun } from "./ending.js";
import { aboutSlot, awaitRunSlot, letOthersPass, runSlotOf, slotFailure } from "./ledger/slots.js";
import { failStep } from "./token.js";

/** An answer about a slot that the run no longer waits for is stale: the commit that ended the wait has removed the ticket. */
export function slotDecided(
  draft: Draft,
  command: Command<"slot_granted" | "slot_refused">,
): DecisionOn<"slot_granted"> {
  const slot = awaitedSlot(draft.context, command.entry);
  if (!slot) return unchanged({ type: "advanced" });
  const verdict = command.type === "slot_granted" ? "granted" : command.reason;
  const { entry } = draft.context;
  if (command.entry === RUN_SLOT) draft.change({ slot: { ...slot, verdict } });
  else draft.change({ entry: entry && { ...entry, slot: { ...slot, verdict } } });
  letOthersPass(draft);
  // The run is ready now: its next step follows in the same commit, unless it is halted.
  draft.close("note");
  return draft.decided({ type: "advanced" });
}

function awaitedSlot({ state, slot: ofRun, entry }: RunContext, number: number): Slot | undefined {
  const slot = number === RUN_SLOT ? ofRun : entry?.number === number ? entry.slot : undefined;
  return isTerminal(state) || slot?.verdict !== undefined ? undefined : slot;
}

/** The run does not begin yet: it asks for its slot, waits for it, or has been refused it. False: nothing has changed. */
export function standBeforeSlot(draft: Draft): boolean {
  const slot = runSlotOf(draft);
  const failure = "code" in slot ? slot : slotFailure(slot);
  if (failure) failRun(draft, failure);
  else if (!draft.context.wait && "key" in slot) awaitRunSlot(draft, slot);
  else return false;
  return true;
}

/** The step has its slot, and its call is queued, or waits for its turn; or it fails without one. False: the answer has not come yet. */
export function takeStepSlot(draft: Draft): boolean {
  const { entry, call } = draft.context;
  const { slot } = entry ?? {};
  if (!slot?.verdict || !call) return false;
  const plan = currentPlan(draft);
  const failure = slotFailure(slot);
  if (failure) failStep(draft, plan, failure);
  else {
    draft.row("log", "running", { stepId: plan.id, metadata: { kind: "slot_granted", ...aboutSlot(slot) } });
    beginAttempt(draft, call, 1, "resume");
  }
  return true;
}
