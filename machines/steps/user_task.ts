// User tasks: what `manual_approval` and `collect_input` share, their attributes and the opening of the task that a person is
// to hand in. Not what becomes of a result: that is each step's own, and the submit is decided in ../task.ts.

import { awaitedSignal, type Wait } from "../context.js";
import { type Attributes, defaulted, number, optional, type Parsed, required, text } from "../definition/attribute.js";
import type { Place } from "../definition/problem.js";
import type { OpenedTask } from "../effects.js";
import { ExpressionError, type Scope } from "../expression/index.js";
import type { JsonObject } from "../json.js";
import { LONGEST_WAIT_MS, parseInstant } from "../time.js";
import { durationOf, type Entered, type Outcome, textOf } from "./step.js";
import { onTimeout } from "./wait_for_signal.js";

/** Longer names could not be asked for in a list. */
const LONGEST_ASSIGNEE = 512;
const LONGEST_TITLE = 1_000;

export const asked = {
  assignee: required(text, "Who is asked to do it: a user, a group, a role, as the tasks' lists are filtered by."),
  title: optional(text, "What the task is called."),
};

export const due = {
  due_in_ms: optional(number({ min: 0, max: LONGEST_WAIT_MS }), "How long it can be submitted; for ever if absent."),
  due_at: optional(text, "Instead, until when: RFC 3339, or a CEL timestamp as one whole template."),
  on_timeout: defaulted(
    onTimeout,
    "fail",
    "`fail` (code `timeout`), `continue` with a null output, or the step to go to.",
  ),
};

type Task = typeof asked & typeof due;

export function checkDue({ due_in_ms, due_at }: Parsed<typeof due>, place: Place): void {
  if (due_in_ms !== undefined && due_at !== undefined) place.problem("takes due_in_ms or due_at, not both");
  if (due_at?.constant && parseInstant(String(due_at.render({}))) === undefined)
    place.at("due_at").problem("is no RFC 3339 time");
}

/** The task, and the wait for its submit. */
export function openTask<A extends Attributes & Task>(
  { attributes, scope, facts, run, plan, entry }: Entered<A>,
  formSchema: JsonObject | undefined,
): Extract<Outcome, { kind: "wait" }> {
  const { assignee, title } = attributes as Parsed<Task>;
  const dueAt = dueOf(attributes as Parsed<Task>, scope, facts.now);
  const times = dueAt === undefined ? {} : { dueAt };
  const task: OpenedTask = {
    // An id of a task must never change: a replay opens the same one.
    id: facts.uuid(run.id, `${run.id}/${plan.id}/task/${entry}`),
    stepId: plan.id,
    assignee: bounded(textOf(assignee, scope, "assignee"), "assignee", LONGEST_ASSIGNEE),
    ...(title && { title: bounded(textOf(title, scope, "title"), "title", LONGEST_TITLE) }),
    ...times,
    ...(formSchema && { formSchema }),
  };
  const wait: Wait = { kind: "user_task", taskId: task.id, ...times };
  const name = awaitedSignal(wait);
  return { kind: "wait", awaiting: "user_task", name, wait, effects: [{ kind: "task.opened", task }] };
}

function dueOf({ due_in_ms, due_at }: Parsed<Task>, scope: Scope, now: number): number | undefined {
  if (due_in_ms !== undefined) return now + durationOf(due_in_ms, scope, "due_in_ms");
  if (due_at === undefined) return undefined;
  const at = parseInstant(textOf(due_at, scope, "due_at"));
  if (at === undefined) throw new ExpressionError("due_at is no RFC 3339 time");
  if (at > now + LONGEST_WAIT_MS) throw new ExpressionError("the task is due in more than ten years");
  return at;
}

function bounded(value: string, name: string, most: number): string {
  if (value.length > 0 && value.length <= most) return value;
  throw new ExpressionError(`${name} must be 1 to ${most} characters`);
}
