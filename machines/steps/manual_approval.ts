// `manual_approval`: asks a person to approve or to reject, and takes the branch of the answer.
import { record } from "../attribute/composite.js";
import { oneOf, optional, schema } from "../attribute/kinds.js";
import type { JsonObject } from "../values/json.js";
import { revealed } from "../values/secret.js";
import { branch, branchEdges } from "./branch.js";
import { type Failure, stepType, type TaskRules } from "./step.js";
import { asked, checkDue, due, dueFacts, openTask } from "./user_task.js";
import { nextOrTimeout, timeoutEdges } from "./wait_for_signal.js";

const attributes = {
  ...asked,
  form_schema: optional(
    schema,
    "The JSON Schema of the result, besides its boolean `approved`, which also a closed schema allows; no templates.",
  ),
  branches: optional(
    record(branch, oneOf("approved", "rejected"), { min: 1, max: 2 }),
    "`approved` and `rejected` to {next}. Without a branch, an approval goes to `next` and a rejection fails the step.",
  ),
  ...due,
};

const task: TaskRules<typeof attributes> = {
  granted: "approved",
  problems: ({ approved }) => (typeof approved === "boolean" ? [] : ["/approved must be true or false"]),
  outcome({ branches }, result, by) {
    const output: JsonObject = by === undefined ? result : { ...result, submitted_by: by };
    const approved = revealed(result.approved ?? false) === true;
    const way = approved ? "approved" : "rejected";
    const target = branches?.[way]?.next;
    if (target !== undefined) return { kind: "done", output, edge: `branch.${way}`, target };
    if (approved) return { kind: "done", output };
    const error: Failure = { code: "approval_rejected", message: "the approval was rejected", details: output };
    return { kind: "failed", error };
  },
};

export const manualApproval = stepType({
  name: "manual_approval",
  summary: "Waits for a person to approve or to reject.",
  attributes,
  output: "the result, with `submitted_by` if it was given; null after a timeout with `continue` or a step",
  errors: "`approval_rejected`, `timeout`",
  pauses: true,
  mock: {
    output: "object",
    failures: "timeout",
    answer: (given = { approved: true }) => given,
    refusals: { approval_rejected: { approved: false } },
  },
  edges: (attributes) => [...branchEdges(attributes.branches, (key) => key), ...timeoutEdges(attributes, "an answer")],
  nextWhen: (attributes) => nextOrTimeout(attributes, attributes.branches?.approved ? null : "approved"),
  check: (attributes, place) => checkDue(attributes, place),
  codes: () => ["approval_rejected", "timeout"],
  times: (attributes) => dueFacts.times(attributes),
  waitsForGood: (attributes) => dueFacts.waitsForGood(attributes),
  doubts: (attributes) => dueFacts.doubts(attributes),
  task,
  enter(entered) {
    const opened = openTask(entered, entered.attributes.form_schema);
    return entered.run.dryRun ? task.outcome(entered.attributes, { approved: true }, undefined) : opened;
  },
});
