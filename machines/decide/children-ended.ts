// The command `child`: a child run has ended.

import type { Command } from "../messages/command.js";
import { type DecisionOn, unchanged } from "../messages/transition.js";
import { isHalted } from "../state/context.js";
import type { StepError } from "../state/entry.js";
import type { Frame, Unprotected } from "../state/frame.js";
import type { ChildState, Group } from "../state/group.js";
import type { UndoEntry } from "../state/rollback.js";
import type { Draft } from "./draft.js";
import { setGroup } from "./ledger/groups.js";
import { addUndo, mergeUnprotected } from "./ledger/undo-list.js";
import { proceedAfterChildren } from "./token.js";

/** Counts the child, takes over its undo list, and lets the waiting step go on. A repeat changes nothing. */
export function childEnded(draft: Draft, command: Command<"child">): DecisionOn<"child"> {
  const { context } = draft;
  const group = context.groups[command.entry];
  if (!group || group.ended?.some(([branch]) => branch === command.branch)) return unchanged({ type: "advanced" });
  countChild(draft, command, group);
  if (isHalted(context)) draft.close("note");
  else proceedAfterChildren(draft);
  return draft.decided({ type: "advanced" });
}

function countChild(
  draft: Draft,
  { entry, branch, state, error, owed, unprotected }: Command<"child">,
  group: Group,
): void {
  const { context } = draft;
  const running = group.running - 1;
  const verdict = verdictAfter(group, state, error);
  setGroup(draft, entry, {
    ...group,
    running,
    failed: group.failed + (state === "succeeded" ? 0 : 1),
    ...(group.ended && branch !== undefined && { ended: [...group.ended, [branch, state] as const] }),
    ...(verdict && { verdict }),
    ...(owed > 0 && { handed: true }),
  });
  if (owed > 0) draft.change({ owed: context.owed + owed });
  if (state === "succeeded" && group.undo) subSagaSucceededTooLate(draft, entry, group.undo);
  inheritUndo(draft, entry, owed, unprotected);
}

/** A cancelled sub-saga succeeded. If its step is still there and may try again, its entry is owed one undo, at its end. */
function subSagaSucceededTooLate(draft: Draft, number: number, undo: UndoEntry): void {
  const { entry } = draft.context;
  if (entry?.number === number) draft.change({ entry: { ...entry, mayHaveHappened: true } });
  else addUndo(draft, undo);
}

/** A child that was created before a try was entered hands its undo list to the part of the run outside that try. */
function inheritUndo(draft: Draft, entry: number, owed: number, unprotected: Unprotected): void {
  if (owed === 0 && Object.keys(unprotected).length === 0) return;
  const { frames } = draft.context;
  const inner = frames.findIndex((frame) => frame.kind === "try" && frame.entry.number > entry);
  if (inner < 0) return draft.change({ unprotected: mergeUnprotected(draft.context.unprotected, unprotected) });
  const changed = frames.map((frame, index): Frame => {
    if (frame.kind !== "try" || index < inner) return frame;
    const outside = index === inner ? mergeUnprotected(frame.unprotected, unprotected) : frame.unprotected;
    return { ...frame, owed: frame.owed + owed, unprotected: outside };
  });
  draft.change({ frames: changed });
}

/** A group of items keeps the failure that exceeded its tolerance. */
function verdictAfter(group: Group, state: ChildState, error: StepError | undefined): Group["verdict"] {
  if (group.kind === "branches") return undefined;
  const settled = group.kind === "items" && (group.stopped || state === "succeeded");
  return settled ? group.verdict : { state, ...(error && { error }) };
}
