// Effects that follow from a change of the run's wait, and of the slots that it has. Draft.change applies them, so no way out of a step, or to
// the end of a run, can forget them.

import type { Effect, EventConditions } from "../../messages/effect.js";
import type { Patch, RunContext } from "../../state/context.js";
import { RUN_SLOT, slotKey } from "../../state/slot.js";
import type { Wait } from "../../state/wait.js";

/** A wait for events has a row from its first commit to its last. Scanning on changes the wait, but not the row. */
export function eventWaitRows(
  before: Wait | undefined,
  after: Wait | undefined,
  conditionsOf: () => EventConditions | undefined,
): readonly Effect[] {
  if (after?.kind !== "event") return before?.kind === "event" ? [{ kind: "event.unawaited" }] : [];
  const { topic, headers } = after;
  if (before?.kind === "event" && before.topic === topic && before.headers === headers) return [];
  const conditions = conditionsOf();
  return [{ kind: "event.awaited", topic, headers, ...(conditions && { conditions }) }];
}

/** A wait for a user task that ends without a submit closes the task. */
export function taskClosings(before: Wait | undefined, after: Wait | undefined): readonly Effect[] {
  if (before?.kind !== "user_task" || before.submitted) return [];
  if (after?.kind === "user_task" && after.taskId === before.taskId) return [];
  return [{ kind: "task.closed", id: before.taskId }];
}

/** A slot that the run or its step entry has, or waits for, goes back when the context no longer has it: the entry is left, or the run ends. */
export function slotReleases({ slot, entry }: RunContext, patch: Patch): readonly Effect[] {
  const releases: Effect[] = [];
  if (slot && "slot" in patch && !patch.slot)
    releases.push({ kind: "slot.released", entry: RUN_SLOT, slot: slotKey(slot) });
  if (!entry?.slot || !("entry" in patch)) return releases;
  const stays = patch.entry?.number === entry.number && patch.entry.slot !== undefined;
  if (!stays) releases.push({ kind: "slot.released", entry: entry.number, slot: slotKey(entry.slot) });
  return releases;
}
