// Shared by `manual_approval` and `collect_input`: the attributes of a user task, and its opening. Each step type gives the
// outcome of a result; the submit is decided in decide/tasks.ts.

import {
  type Attributes,
  defaulted,
  handler,
  number,
  optional,
  type Parsed,
  required,
  text,
} from "../attribute/kinds.js";
import type { Place } from "../attribute/problem.js";
import { ExpressionError, type Scope } from "../expression/index.js";
import { type OpenedTask, taskOpened } from "../messages/owed.js";
import { awaitedSignal, type Wait } from "../state/wait.js";
import type { JsonObject } from "../values/json.js";
import { isLongerThan } from "../values/text.js";
import { LONGEST_WAIT_MS, parseInstant, YEAR_1_S } from "../values/time.js";
import { durationOf, type Entered, millis, type StepOutcome, shownText, textOf } from "./step.js";
import { unusedTimeout } from "./wait_for_signal.js";

/** Longer names could not be filtered by in a list of tasks. */
const LONGEST_ASSIGNEE = 512;
const LONGEST_TITLE = 1_000;

export const asked = {
  assignee: required(text, "A user, a group or a role; lists of tasks are filtered by it."),
  title: optional(text, "The title of the task."),
};

export const due = {
  due_in_ms: optional(number({ min: 0, max: LONGEST_WAIT_MS }), "The time for the submit; unlimited if absent."),
  due_at: optional(text, "Instead, the end of that time: RFC 3339, or a CEL timestamp as one whole template."),
  on_timeout: defaulted(
    handler,
    "fail",
    "`fail` (code `timeout`), `continue` with a null output, or the step to go to.",
  ),
};

type Task = typeof asked & typeof due;

export function checkDue({ due_in_ms, due_at }: Parsed<typeof due>, place: Place): void {
  if (due_in_ms !== undefined && due_at !== undefined) place.problem("takes due_in_ms or due_at, not both");
  if (due_at?.constant && parseInstant(String(due_at.render({}))) === undefined)
    place.at("due_at").problem("is not an RFC 3339 time");
}

/** What a review asks of the time of a task. */
export const dueFacts = {
  times: ({ due_in_ms }: Parsed<typeof due>) => (due_in_ms === undefined ? {} : { due_in_ms: millis(due_in_ms) }),
  waitsForGood: ({ due_in_ms, due_at }: Parsed<typeof due>) => due_in_ms === undefined && due_at === undefined,
  doubts: ({ due_in_ms, due_at, on_timeout }: Parsed<typeof due>) => unusedTimeout(due_in_ms ?? due_at, on_timeout),
};

/** The task, and the wait for its submit. */
export function openTask<A extends Attributes & Task>(
  { attributes, scope, facts, run, plan, entry, retried }: Entered<A>,
  formSchema: JsonObject | undefined,
): Extract<StepOutcome, { kind: "wait" }> {
  const { assignee, title } = attributes as Parsed<Task>;
  const dueAt = dueOf(attributes as Parsed<Task>, scope, facts.now);
  const times = dueAt === undefined ? {} : { dueAt };
  const task: OpenedTask = {
    // The form of a task's id must never change: a replay opens the same task.
    id: facts.uuid(run.id, `${run.id}/${plan.id}/task/${entry}${retried > 0 ? `/${retried}` : ""}`),
    stepId: plan.id,
    assignee: bounded(textOf(assignee, scope, "assignee"), "assignee", LONGEST_ASSIGNEE),
    ...(title && { title: bounded(shownText(title, scope, "title"), "title", LONGEST_TITLE) }),
    ...times,
    ...(formSchema && { formSchema }),
  };
  const wait: Wait = { kind: "user_task", taskId: task.id, ...times };
  const name = awaitedSignal(wait);
  return { kind: "wait", awaiting: "user_task", name, wait, owed: taskOpened({ run, now: facts.now }, task) };
}

function dueOf({ due_in_ms, due_at }: Parsed<Task>, scope: Scope, now: number): number | undefined {
  if (due_in_ms !== undefined) return now + durationOf(due_in_ms, scope, "due_in_ms");
  if (due_at === undefined) return undefined;
  const at = parseInstant(textOf(due_at, scope, "due_at"));
  if (at === undefined) throw new ExpressionError("due_at is not an RFC 3339 time");
  if (at > now + LONGEST_WAIT_MS) throw new ExpressionError("the task is due in more than ten years");
  return Math.max(at, YEAR_1_S * 1000);
}

function bounded(value: string, name: string, limit: number): string {
  if (value.length > 0 && !isLongerThan(value, limit)) return value;
  throw new ExpressionError(`${name} must be 1 to ${limit} characters`);
}
