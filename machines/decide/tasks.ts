// User tasks in a run's decisions: submitting one, taking its result, and closing one whose step is left. Not how a task is
// opened: that is its step's entry (steps/user_task.ts).
import type { RunCommand } from "./commands.js";
import { awaitedSignal, type Wait } from "./context.js";
import type { Effect } from "./effects.js";
import { complete, currentPlan, failStep } from "./enter.js";
import { isObject, type Json, type JsonObject, measure } from "./json.js";
import type { StepPlan } from "./steps/step.js";
import type { Decision, Draft } from "./transition.js";

type Submit = Extract<RunCommand, { type: "submit" }>;

/** Signals of these names say that a task's result was checked, so nobody may send one. */
export function isTaskSignal(name: string): boolean {
  return name.startsWith("user_task.");
}

/**
 * A person hands in a result. The first that fits is taken; whatever comes after it, or after the task's time, is refused.
 * `timeOut` is what the task's end without a submit does to its step.
 */
export function submit(draft: Draft, command: Submit, timeOut: (draft: Draft) => void): Decision {
  const { wait, quarantined, unconsumedSignals } = draft.context;
  const { taskId, result, submittedBy: by } = command;
  if (wait?.kind !== "user_task" || wait.taskId !== taskId || wait.submitted)
    return draft.decided({ type: "closed", reason: "the task is not open: it was submitted, or it has expired" });
  if (wait.dueAt !== undefined && wait.dueAt <= draft.now) {
    // It is too late also where nobody has looked at the time yet. In quarantine the step itself is left alone.
    if (!quarantined) timeOut(draft);
    return draft.decided({ type: "closed", reason: "the task has expired" });
  }
  const problems = problemsOf(draft, currentPlan(draft), command);
  if (problems.length > 0) return draft.decided({ type: "unfit", problems });
  record(draft, command, !quarantined);
  draft.actor = "coordinator";
  draft.change({ wait: { ...wait, submitted: by === undefined ? {} : { by } } });
  if (!quarantined) received(draft, result);
  else {
    draft.change({ unconsumedSignals: unconsumedSignals + 1 });
    draft.take("note");
  }
  return draft.decided({ type: "submit", taskId, submittedAt: draft.now, matched: !quarantined });
}

/** The task is over, and the run has had the signal that says so. */
function record(draft: Draft, { taskId, result, submittedBy }: Submit, matched: boolean): void {
  const { context, facts, now } = draft;
  const name = awaitedSignal(context.wait) ?? "";
  // A task has one signal for ever.
  const id = facts.uuid(context.run.id, `${taskId}/submitted`);
  const by: JsonObject = submittedBy === undefined ? {} : { submitted_by: submittedBy };
  draft.owe({ kind: "task.submitted", id: taskId, result, at: now, by: submittedBy });
  draft.owe({ kind: "signal.recorded", id, name, payload: result, consumed: matched });
  const metadata = { kind: "signal", name, signal_id: id, matched, ...by };
  draft.row("log", context.state, { stepId: context.step, metadata });
}

/** The signal that the run waits for has come: a payload, or the result of a task. */
export function received(draft: Draft, payload: Json): void {
  const { wait } = draft.context;
  const plan = currentPlan(draft);
  if (wait?.kind !== "user_task" || !plan.type.task || !isObject(payload))
    return complete(draft, plan, { output: payload });
  const outcome = plan.type.task.outcome(plan.attributes, payload, wait.submitted?.by);
  if (outcome.kind === "failed") failStep(draft, plan, outcome.error);
  else complete(draft, plan, outcome);
}

/** What would fail the step is better refused: the person is still there to mend it. */
function problemsOf(draft: Draft, { type, attributes }: StepPlan, { result, submittedBy }: Submit): readonly string[] {
  const { facts } = draft;
  const { form_schema: schema } = attributes as { form_schema?: JsonObject };
  const { output: most } = facts.limits;
  const size = measure({ ...result, ...(submittedBy !== undefined && { submitted_by: submittedBy }) });
  if (typeof size !== "number") return [`/ cannot be stored:${size.path} ${size.message}`];
  if (size > most) return [`/ is over ${most} characters of JSON`];
  return [...(type.task?.problems(result) ?? []), ...(schema ? facts.conforms(schema, result) : [])];
}

/** A wait for a task that ends without a submit closes the task, however the step is left. */
export function closing(before: Wait | undefined, after: Wait | undefined): readonly Effect[] {
  if (before?.kind !== "user_task" || before.submitted) return [];
  if (after?.kind === "user_task" && after.taskId === before.taskId) return [];
  return [{ kind: "task.closed", id: before.taskId }];
}
