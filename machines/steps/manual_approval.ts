// `manual_approval`: asks a person for a yes or a no, and goes where the answer leads.
import { oneOf, optional, record, schema } from "../definition/attribute.js";
import type { JsonObject } from "../json.js";
import { branch, branchEdges } from "./branch.js";
import { stepType, type TaskRules } from "./step.js";
import { asked, checkDue, due, openTask } from "./user_task.js";
import { timeoutEdges } from "./wait_for_signal.js";

const attributes = {
  ...asked,
  form_schema: optional(schema, "What the result must conform to, beside its boolean `approved`; no templates."),
  branches: optional(
    record(branch, oneOf("approved", "rejected"), { min: 1, max: 2 }),
    "`approved` and `rejected` to {next}. An approval without goes to `next`, a rejection without fails the step.",
  ),
  ...due,
};

const task: TaskRules<typeof attributes> = {
  problems: ({ approved }) => (typeof approved === "boolean" ? [] : ["/approved must be true or false"]),
  outcome({ branches }, result, by) {
    const output: JsonObject = by === undefined ? result : { ...result, submitted_by: by };
    const way = result.approved ? "approved" : "rejected";
    const target = branches?.[way]?.next;
    if (target !== undefined) return { kind: "done", output, edge: `branch.${way}`, target };
    if (result.approved) return { kind: "done", output };
    const error = { code: "approval_rejected", message: "the approval was refused", details: output };
    return { kind: "failed", error };
  },
};

export const manualApproval = stepType({
  name: "manual_approval",
  summary: "Waits for a person to approve or to reject.",
  attributes,
  output: "the result, and `submitted_by` where it was given; null after a timeout that goes on",
  pauses: true,
  edges: ({ branches, on_timeout }) => [...branchEdges(branches), ...timeoutEdges(on_timeout)],
  check: (attributes, place) => checkDue(attributes, place),
  task,
  enter(entered) {
    const opened = openTask(entered, entered.attributes.form_schema);
    return entered.run.dryRun ? task.outcome(entered.attributes, { approved: true }, undefined) : opened;
  },
});
