// The slots that a run asks for: when it asks, what it records, and the error of one that it does not get. The store grants
// them (src/store/slots.ts); Draft.change gives them back.

import { ExpressionError } from "../../expression/index.js";
import { scopeOf } from "../../expression/scope.js";
import { slotRequested, slotReturned, slotWanted } from "../../messages/owed.js";
import type { ActionCall } from "../../state/call.js";
import { isHalted } from "../../state/context.js";
import { RUN_SLOT, type Slot, type SlotKey, type SlotRequest, slotKey } from "../../state/slot.js";
import { runSlot } from "../../steps/concurrency.js";
import type { Failure, StepPlan } from "../../steps/step.js";
import type { JsonObject } from "../../values/json.js";
import type { Draft } from "../draft.js";

/** Whether the run may begin: it needs no slot, or has one. A branch or an item is part of a run that has one; a dry run does nothing. */
export function mayBegin({ workflow, context: { run, slot } }: Draft): boolean {
  if (slot) return slot.verdict === "granted";
  return workflow.concurrency === undefined || run.dryRun || run.family !== undefined;
}

/** The slot that the run waits for before its first step. A run that a client started has asked for it with its start. */
export function runSlotOf(draft: Draft): Slot | Failure {
  const { workflow, context, now } = draft;
  const { concurrency } = workflow;
  if (context.slot) return context.slot;
  if (!concurrency) throw new Error(`run ${context.run.id} asks for a slot that its workflow does not have`);
  try {
    const slot = runSlot(context.run, concurrency, scopeOf(context, now));
    const { limit, onLimit } = concurrency;
    draft.owe(slotRequested(draft, { entry: RUN_SLOT, slot, limit, onLimit }));
    draft.change({ slot });
    return slot;
  } catch (error) {
    if (error instanceof ExpressionError) return { code: "expression_error", message: error.message };
    throw error;
  }
}

/** The run stands still before its first step. */
export function awaitRunSlot(draft: Draft, slot: SlotKey): void {
  const { scope, key } = slot;
  draft.change({ wait: { kind: "concurrency", entry: RUN_SLOT, scope, key, since: draft.now } });
  draft.row("log", "paused", { metadata: { kind: "slot_awaited", ...aboutSlot(slot) } });
  draft.close("note");
}

/** The call is made, and is queued for a worker once the step entry has its slot. */
export function awaitStepSlot(
  draft: Draft,
  plan: StepPlan,
  call: ActionCall,
  { slot, limit }: Pick<SlotRequest, "slot" | "limit">,
): void {
  const { entry } = draft.context;
  if (!entry) throw new Error(`run ${draft.context.run.id} asks for a slot of a step that it has not entered`);
  const { scope, key } = slot;
  const wait = { kind: "concurrency", entry: entry.number, scope, key, since: draft.now } as const;
  draft.change({ call, entry: { ...entry, slot }, wait });
  const request: SlotRequest = { entry: entry.number, stepId: plan.id, slot, limit, onLimit: "queue" };
  draft.owe(slotRequested(draft, request));
  draft.row("step.paused", "paused", { stepId: plan.id, metadata: { awaiting: "concurrency", name: key } });
  draft.close("pause");
}

/**
 * A halted run lets those behind it pass, and keeps its place: the granter passes over its ticket, and a slot that came too late for that
 * goes back. A slot that is in use stays, as does that of a run that would be refused if it asked again.
 */
export function letOthersPass(draft: Draft): void {
  const { step, slot: ofRun, entry } = draft.context;
  if (!isHalted(draft.context)) return;
  if (step === undefined) {
    if (ofRun?.verdict !== "granted" || draft.workflow.concurrency?.onLimit === "refuse") return;
    const slot = slotKey(ofRun);
    draft.change({ slot });
    draft.owe(slotReturned(draft, RUN_SLOT, slot));
  } else if (draft.context.wait?.kind === "concurrency" && entry?.slot?.verdict === "granted") {
    const slot = slotKey(entry.slot);
    draft.change({ entry: { ...entry, slot } });
    draft.owe(slotReturned(draft, entry.number, slot));
  }
}

/** The run goes on, and may still wait for a slot. */
export function wantSlotAgain(draft: Draft): void {
  const { step, slot: ofRun, entry, wait } = draft.context;
  const slot = step === undefined ? ofRun : wait?.kind === "concurrency" ? entry?.slot : undefined;
  if (slot && slot.verdict === undefined) draft.owe(slotWanted(slotKey(slot)));
}

/** The error of a slot that was refused. Undefined: it was granted, or is still awaited. */
export function slotFailure({ verdict, scope, key }: Slot): Failure | undefined {
  if (verdict === "refused")
    return { code: "concurrency_limit", message: `all slots of the key "${key}" of ${scope} are taken` };
  if (verdict === "full")
    return { code: "concurrency_queue_full", message: `too many wait for a slot of the key "${key}" of ${scope}` };
  return undefined;
}

export const aboutSlot = ({ scope, key }: SlotKey): JsonObject => ({ scope, key });
