// Effects that follow from a change of the run's wait. Draft.change applies them, so no way out of a step can forget them.

import type { Effect, EventConditions } from "../../messages/effect.js";
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
