// The one child run of a `sub_saga`: its creation, another attempt after a backoff, and its undo if its step is aborted.

import { childStarted } from "../../messages/owed.js";
import type { Group } from "../../state/group.js";
import type { RunIdentity } from "../../state/identity.js";
import { backoff } from "../../state/wait.js";
import type { StepOutcome, StepPlan } from "../../steps/step.js";
import { asRunId, type RunId } from "../../values/ids.js";
import { formatInstant } from "../../values/time.js";
import type { Draft } from "../draft.js";
import { awaitChildren, entryNumber, groupOf, inheritedIdentity, setGroup } from "./groups.js";
import { addUndo, joinIfMayHaveHappened, subSagaUndo } from "./undo-list.js";

type SubSaga = Extract<StepOutcome, { kind: "start_sub_saga" }>;

export function startSubSaga(draft: Draft, plan: StepPlan, { child, dueAt }: SubSaga): void {
  const entry = entryNumber(draft);
  const { groups, attempts, run } = draft.context;
  const counter = `${plan.id}/saga`;
  const attempt = (attempts[counter] ?? 0) + 1;
  const id = asRunId(draft.facts.uuid(run.id, `${run.id}/${plan.id}/saga/${attempt}`));
  const counts = { total: 1, window: 1, started: 1, running: 1, failed: 0 };
  const nth = (groups[entry]?.nth ?? 0) + 1;
  const group: Group = { step: plan.id, kind: "saga", ...counts, child: id, nth, version: child.workflow.version };
  draft.change({ groups: { ...groups, [entry]: group }, attempts: { ...attempts, [counter]: attempt } });
  const identity = identityOf(draft, id, plan, child);
  draft.owe(childStarted({ identity, variables: child.startup, inherited: false, at: draft.now }));
  awaitChildren(draft, plan, { dueAt });
}

function identityOf(
  draft: Draft,
  id: RunId,
  plan: StepPlan,
  { workflow, entrypoint, inputs }: SubSaga["child"],
): RunIdentity {
  const { workflowId, version, definitionId, timeoutMs } = workflow;
  return {
    ...inheritedIdentity(draft, id, entryNumber(draft), plan),
    ...{ workflowId, version, definitionId, entrypoint, inputs },
    ...(timeoutMs !== undefined && { expiresAt: draft.now + timeoutMs }),
    ...(plan.compensation && { keepsUndo: true }),
  };
}

/** The sub-saga failed and its policy allows another attempt: a new child starts after the backoff. */
export function backOffSubSaga(
  draft: Draft,
  plan: StepPlan,
  { error, dueAt, nth, maxAttempts }: Extract<StepOutcome, { kind: "retry_sub_saga" }>,
): void {
  const { code, message } = error;
  const metadata = { code, message, retryable: true, will_retry: true, next_retry_at: formatInstant(dueAt) };
  draft.row("step.failed", "paused", { stepId: plan.id, metadata });
  draft.change({ wait: backoff({ nth, since: draft.now, dueAt, error, maxAttempts }) });
  draft.close("note");
}

/** An aborted step may have happened, or its sub-saga may still succeed: both are owed an undo. */
export function oweAbortedStep(draft: Draft, plan: StepPlan): void {
  joinIfMayHaveHappened(draft, plan);
  keepSubSagaUndo(draft, plan);
}

/**
 * The child of an aborted step is about to be cancelled and may succeed before that. Its undo is evaluated now, while the step's
 * scope still exists. A child that succeeded while the run was in quarantine is owed its undo at once.
 */
function keepSubSagaUndo(draft: Draft, plan: StepPlan): void {
  const found = groupOf(draft, plan);
  if (found?.group.kind !== "saga") return;
  const { running, verdict } = found.group;
  const undo = running > 0 || verdict?.state === "succeeded" ? subSagaUndo(draft, plan) : undefined;
  if (!undo) return;
  if (running > 0) setGroup(draft, found.entry, { ...found.group, undo });
  else addUndo(draft, undo);
}
