// `collect_input`: asks a person to fill in a form, described by a JSON Schema.
import { required, schema } from "../attribute/kinds.js";
import { stepType } from "./step.js";
import { asked, checkDue, due, dueFacts, openTask } from "./user_task.js";
import { nextOrTimeout, timeoutEdges } from "./wait_for_signal.js";

export const collectInput = stepType({
  name: "collect_input",
  summary: "Waits for a person to fill in a form.",
  attributes: {
    ...asked,
    form_schema: required(schema, "The JSON Schema of the result; no templates."),
    ...due,
  },
  output: "the result; null after a timeout with `continue` or a step",
  errors: "`timeout`",
  pauses: true,
  mock: { output: "object", failures: "timeout" },
  edges: (attributes) => timeoutEdges(attributes, "a submit"),
  nextWhen: (attributes) => nextOrTimeout(attributes, "the form is submitted"),
  check: (attributes, place) => checkDue(attributes, place),
  codes: () => ["timeout"],
  times: (attributes) => dueFacts.times(attributes),
  waitsForGood: (attributes) => dueFacts.waitsForGood(attributes),
  doubts: (attributes) => dueFacts.doubts(attributes),
  outputSchema: ({ form_schema, on_timeout }) => (on_timeout === "fail" ? form_schema : undefined),
  task: {
    problems: () => [],
    outcome: (_, result) => ({ kind: "done", output: result }),
  },
  enter(entered) {
    const opened = openTask(entered, entered.attributes.form_schema);
    return entered.run.dryRun ? { kind: "done", output: {} } : opened;
  },
});
