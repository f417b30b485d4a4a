// What follows from a change of the run's wait, and of the slots and turns that it has. Draft.change owes it, so no way out of a step, or to
// the end of a run, can forget it.

import {
  type EventConditions,
  eventAwaited,
  eventUnawaited,
  type Owed,
  type Owing,
  slotReleased,
  taskClosed,
  turnReturned,
  turnTaken,
} from "../../messages/owed.js";
import type { Patch, RunContext } from "../../state/context.js";
import { RUN_SLOT, slotKey } from "../../state/slot.js";
import { type Turn, turnKey } from "../../state/turn.js";
import type { Wait } from "../../state/wait.js";

/** A wait for events has a row from its first commit to its last. Scanning on changes the wait, but not the row. */
export function eventWaitRow(
  { context }: { readonly context: RunContext },
  after: Wait | undefined,
  conditionsOf: () => EventConditions | undefined,
): Owed | undefined {
  const { wait: before } = context;
  if (after?.kind !== "event") return before?.kind === "event" ? eventUnawaited(context) : undefined;
  if (before?.kind === "event" && before.topic === after.topic && before.headers === after.headers) return undefined;
  return eventAwaited(context, after, conditionsOf());
}

/** A wait for a user task that ends without a submit closes the task. */
export function taskClosing(by: Owing, before: Wait | undefined, after: Wait | undefined): Owed | undefined {
  if (before?.kind !== "user_task" || before.submitted) return undefined;
  if (after?.kind === "user_task" && after.taskId === before.taskId) return undefined;
  return taskClosed(by, before.taskId);
}

/** A slot that the run or its step entry has, or waits for, goes back when the context no longer has it: the entry is left, or the run ends. */
export function slotReleases(context: RunContext, patch: Patch): readonly Owed[] {
  const { slot, entry } = context;
  const releases: Owed[] = [];
  if (slot && "slot" in patch && !patch.slot) releases.push(slotReleased(context, RUN_SLOT, slotKey(slot)));
  if (!entry?.slot || !("entry" in patch)) return releases;
  const stays = patch.entry?.number === entry.number && patch.entry.slot !== undefined;
  if (!stays) releases.push(slotReleased(context, entry.number, slotKey(entry.slot)));
  return releases;
}

/** A turn that is taken has no ticket any more. One that is open when the entry is left, or the run ends, was not used and goes back. */
export function turnReleases(context: RunContext, patch: Patch): readonly Owed[] {
  const { turn, entry } = context;
  const releases: Owed[] = [];
  const release = (before: Turn | undefined, number: number, after: Turn | undefined) => {
    if (!before?.open || after?.open || after?.full) return;
    releases.push(after ? turnTaken(context, number) : turnReturned(context, number, turnKey(before)));
  };
  if ("turn" in patch) release(turn, RUN_SLOT, patch.turn);
  if (entry && "entry" in patch)
    release(entry.turn, entry.number, patch.entry?.number === entry.number ? patch.entry.turn : undefined);
  return releases;
}
