// The command `submit`: a person submits the result of a user task. The step opens the task (steps/user_task.ts).
import type { Command } from "../messages/command.js";
import { signalRecorded, taskClosed } from "../messages/owed.js";
import type { DecisionOn } from "../messages/transition.js";
import { withSecrets } from "../schema/secrets.js";
import { isHalted } from "../state/context.js";
import { awaitedSignal } from "../state/wait.js";
import { payloadSchemaOf } from "../steps/payload.js";
import type { StepPlan } from "../steps/step.js";
import { isObject, type Json, type JsonObject, measure } from "../values/json.js";
import { spread } from "../values/secret.js";
import { currentPlan, type Draft } from "./draft.js";
import { waitTimedOut } from "./timeouts.js";
import { completeStep, failStep } from "./token.js";

type Submit = Command<"submit">;

/** A signal of such a name states that the result of a task was checked, so clients may not send one. */
export function isTaskSignal(name: string): boolean {
  return name.startsWith("user_task.");
}

/** The first result that fits completes the task. Later results, and those after the task's time, are refused. */
export function submit(draft: Draft, command: Submit): DecisionOn<"submit"> {
  const { wait, unconsumedSignals } = draft.context;
  const halted = isHalted(draft.context);
  const { taskId, submittedBy: by } = command;
  if (wait?.kind !== "user_task" || wait.taskId !== taskId || wait.submitted)
    return draft.decided({ type: "closed", reason: "the task is not open: it was submitted, or it has expired" });
  if (wait.dueAt !== undefined && wait.dueAt <= draft.now) {
    // The task is overdue even if no wake has fired yet. The step of a halted run is left alone.
    if (!halted) waitTimedOut(draft);
    return draft.decided({ type: "closed", reason: "the task has expired" });
  }
  const problems = problemsOfSubmit(draft, currentPlan(draft), command);
  if (problems.length > 0) return draft.decided({ type: "unfit", problems });
  const result = withSecrets(payloadSchemaOf(currentPlan(draft)), command.result);
  recordSubmit(draft, { ...command, result }, !halted);
  draft.actor = "coordinator";
  draft.change({ wait: { ...wait, submitted: by === undefined ? {} : { by } } });
  if (!halted) completeWait(draft, result);
  else {
    draft.change({ unconsumedSignals: unconsumedSignals + 1 });
    draft.close("note");
  }
  return draft.decided({ type: "submit", taskId, submittedAt: draft.now, matched: !halted });
}

/** Records the result and the signal that carries it. */
function recordSubmit(draft: Draft, { taskId, result, submittedBy, traceparent }: Submit, matched: boolean): void {
  const { context, facts } = draft;
  const name = awaitedSignal(context.wait) ?? "";
  // One submit per task: the id of its signal is derived from the task.
  const id = facts.uuid(context.run.id, `${taskId}/submitted`);
  const by: JsonObject = submittedBy === undefined ? {} : { submitted_by: submittedBy };
  draft.owe(taskClosed(draft, taskId, { result, by: submittedBy }));
  draft.owe(signalRecorded(draft, { id, name, payload: result }, { consumed: matched }));
  const metadata = { kind: "signal", name, signal_id: id, matched, ...by, ...(traceparent && { traceparent }) };
  draft.row("log", context.state, { stepId: context.step, metadata });
}

/** Completes the wait for a signal with its payload, or the wait for a user task with its result. */
export function completeWait(draft: Draft, payload: Json): void {
  const { wait } = draft.context;
  const plan = currentPlan(draft);
  if (wait?.kind !== "user_task" || !plan.type.task || !isObject(payload))
    return completeStep(draft, plan, { output: payload });
  const outcome = plan.type.task.outcome(plan.attributes, spread(payload) as JsonObject, wait.submitted?.by);
  if (outcome.kind === "failed") failStep(draft, plan, outcome.error);
  else completeStep(draft, plan, outcome);
}

/** Problems that would fail the step. The result is refused instead, so that the person can correct it. */
function problemsOfSubmit(
  draft: Draft,
  { type, attributes }: StepPlan,
  { result, submittedBy }: Submit,
): readonly string[] {
  const { facts } = draft;
  const { form_schema: schema } = attributes as { form_schema?: JsonObject };
  const { output: limit } = facts.limits;
  const size = measure({ ...result, ...(submittedBy !== undefined && { submitted_by: submittedBy }) });
  if (typeof size !== "number") return [`/ cannot be stored:${size.path} ${size.message}`];
  if (size > limit) return [`/ is over ${limit} characters of JSON`];
  const granted = type.task?.granted;
  return [...(type.task?.problems(result) ?? []), ...(schema ? facts.conforms(schema, result, { granted }) : [])];
}
