// The one child of a `sub_saga`: making it, its time, another try, and what undoes it when its step is cut off. Hearing of its
// end is as with any child (children.ts).
import { awaitChildren, changeGroup, entryNumber, groupOf, hold, inherited, resume, tooDeep } from "./children.js";
import type { Group, RunIdentity } from "./context.js";
import { currentPlan } from "./enter.js";
import { oweUndo, undoOfSaga } from "./rollback.js";
import type { Outcome, StepPlan } from "./steps/step.js";
import { SAGA_TIMEOUT } from "./steps/sub_saga.js";
import { formatInstant } from "./time.js";
import type { Draft } from "./transition.js";

export function startSaga(draft: Draft, plan: StepPlan, { child, dueAt }: Extract<Outcome, { kind: "saga" }>): void {
  if (tooDeep(draft, plan)) return;
  const entry = entryNumber(draft);
  const { run, groups, attempts } = draft.context;
  const counter = `${plan.id}/saga`;
  const attempt = (attempts[counter] ?? 0) + 1;
  const nth = (groups[entry]?.nth ?? 0) + 1;
  const { version: taken } = child.workflow;
  const id = draft.facts.uuid(run.id, `${run.id}/${plan.id}/saga/${attempt}`);
  const { workflow, entrypoint, inputs } = child;
  const { workflowId, version, definitionId, timeoutMs } = workflow;
  const identity: RunIdentity = {
    ...inherited(draft, id, entry, plan),
    ...{ workflowId, version, definitionId, inputs, entrypoint },
    ...(timeoutMs !== undefined && { expiresAt: draft.now + timeoutMs }),
    ...(plan.compensation && { keepsUndo: true }),
  };
  const group: Group = {
    step: plan.id,
    kind: "saga",
    total: 1,
    window: 1,
    started: 1,
    running: 1,
    failed: 0,
    child: id,
    nth,
    version: taken,
  };
  draft.change({ groups: { ...groups, [entry]: group }, attempts: { ...attempts, [counter]: attempt } });
  draft.owe({
    kind: "child.start",
    child: { identity, variables: {}, variablesSize: 2, inherited: false, at: draft.now },
  });
  awaitChildren(draft, plan, { dueAt });
}

/** A sub-saga's time has run out: its child is cancelled, and the step fails once that has ended, unless it succeeded first. */
export function sagaTimedOut(draft: Draft, plan: StepPlan): void {
  const found = groupOf(draft, plan);
  if (!found) throw new Error("a sub-saga waits for no child");
  changeGroup(draft, found.entry, { ...found.group, timedOut: true });
  hold(draft, plan, { kind: "hold", stop: SAGA_TIMEOUT.message });
}

/**
 * The step is cut off. Its sub-saga will be told to end: what undoes it if that comes too late is evaluated while its scope is
 * there. Or it has succeeded while the run was in quarantine, and is owed at once.
 */
export function guardSaga(draft: Draft, plan: StepPlan): void {
  const found = groupOf(draft, plan);
  if (found?.group.kind !== "saga") return;
  const { running, verdict } = found.group;
  const undo = running > 0 || verdict?.state === "succeeded" ? undoOfSaga(draft, plan) : undefined;
  if (!undo) return;
  if (running > 0) changeGroup(draft, found.entry, { ...found.group, undo });
  else oweUndo(draft, undo);
}

/** The sub-saga failed, and its policy allows another: after the backoff a new child begins. */
export function tryAgain(
  draft: Draft,
  plan: StepPlan,
  { error, dueAt, nth }: Extract<Outcome, { kind: "again" }>,
): void {
  const { code, message } = error;
  const metadata = { code, message, retryable: true, will_retry: true, next_retry_at: formatInstant(dueAt) };
  draft.row("step.failed", "paused", { stepId: plan.id, metadata });
  draft.change({ wait: { kind: "backoff", nth, dueAt } });
  draft.take("note");
}

export function retrySaga(draft: Draft): void {
  const plan = currentPlan(draft);
  const found = groupOf(draft, plan);
  if (!found) throw new Error("a sub-saga is tried again that was never tried");
  draft.row("log", "running", { stepId: plan.id, metadata: { kind: "retry", nth: (found.group.nth ?? 1) + 1 } });
  changeGroup(draft, found.entry, {
    ...found.group,
    verdict: undefined,
    stopped: undefined,
    timedOut: undefined,
  });
  draft.change({ wait: undefined });
  draft.take("resume");
  resume(draft);
}
