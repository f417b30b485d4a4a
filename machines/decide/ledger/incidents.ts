// Incidents: a step, or an undo, that failed for good stands still until a person decides what follows (decide/incidents.ts).

import { isPausing } from "../../state/context.js";
import type { StepEntry, StepError } from "../../state/entry.js";
import type { UndoEntry } from "../../state/rollback.js";
import type { Failure, StepPlan } from "../../steps/step.js";
import type { Json } from "../../values/json.js";
import type { Draft } from "../draft.js";
import { catchesError } from "./frames.js";
import { groupOf } from "./groups.js";
import { type FailedAttempt, failedMetadata } from "./rows.js";
import { undoMetadata } from "./undo-list.js";

/** What the errors of a step lead to. A parallel has no `on_error` of its own: the one of its join counts. */
export function errorRule(
  { workflow }: Draft,
  plan: StepPlan,
): { readonly onError: string; readonly saveAs: string | null } {
  const rule = plan.type.forks ? workflow.steps.get(plan.next ?? "") : plan;
  return { onError: rule?.onError ?? "fail", saveAs: rule?.saveAs ?? null };
}

/**
 * Whether the error is to wait for a person: the step says so, or its workflow, and nothing in this run takes the error. The error of a branch
 * or an item has had its own incident: a join and a foreach pass it on.
 */
export function standsAtIncident(draft: Draft, plan: StepPlan, error: StepError): boolean {
  const { workflow } = draft;
  if ((plan.onFailure ?? workflow.onFailure) !== "incident") return false;
  if (errorRule(draft, plan).onError !== "fail" || isTaken(draft, error)) return false;
  const group = groupOf(draft, plan)?.group;
  return group === undefined || group.kind === "saga";
}

/** Whether a container around the token takes the error: a try that catches it, or one with an `on_error`. */
function isTaken(draft: Draft, error: StepError): boolean {
  return draft.context.frames.some((frame) => {
    const container = draft.workflow.steps.get(frame.step);
    return (frame.kind === "try" && catchesError(draft, frame, error)) || (container && container.onError !== "fail");
  });
}

/** The step entry stays open. */
export function beginIncident(draft: Draft, plan: StepPlan, error: StepError, about: FailedAttempt): void {
  const { entry, attempts } = draft.context;
  const { attempt, done } = about;
  const edge = isPausing(draft.context) ? "resume" : "note";
  const metadata = { ...failedMetadata(error, about), incident: true };
  draft.row("step.failed", "paused", { stepId: plan.id, attempt, metadata });
  const known = { ...(done !== undefined && { done }), ...(plan.type.alwaysFails && { alwaysFails: true as const }) };
  draft.change({
    ...(entry && (entry.slot || entry.turn || done !== undefined) && { entry: standingEntry(entry, done) }),
    wait: {
      ...{ kind: "incident", phase: "forward", since: draft.now, error, ...known },
      attempts: attempts[plan.id] ?? attempts[`${plan.id}/saga`] ?? 0,
    },
  });
  draft.close(edge);
}

/** While a person decides, nothing is carried out: its slot is free for others. A retry asks for one again, and for a turn. */
function standingEntry({ slot: _, turn: __, ...entry }: StepEntry, done: Json | undefined): StepEntry {
  return done === undefined ? entry : { ...entry, mayHaveHappened: true };
}

/** Whether the failure of this undo is to wait for a person. The steps of a sub-saga are not those of this workflow. */
export function undoStandsAtIncident(
  { workflow }: Draft,
  { stepId, childRunId }: Pick<UndoEntry, "stepId" | "childRunId">,
) {
  const plan = childRunId === undefined ? workflow.steps.get(stepId) : undefined;
  return (plan?.onUndoFailure ?? workflow.onUndoFailure) === "incident";
}

export function beginUndoIncident(
  draft: Draft,
  { stepId, childRunId }: Pick<UndoEntry, "stepId" | "childRunId">,
  failure: Failure,
  attempt: number,
): void {
  const { attempts, unwinding } = draft.context;
  const error: StepError = { code: failure.code, message: failure.message, step_id: stepId };
  const metadata = { ...failedMetadata(error, {}), ...undoMetadata(childRunId), incident: true };
  draft.row("step.failed", unwinding ? "paused" : "compensating", { stepId, attempt, metadata });
  const counted = { since: draft.now, error, attempts: attempts[stepId] ?? 0 };
  draft.change({ wait: { kind: "incident", phase: "compensation", ...counted } });
  draft.close("note");
}
