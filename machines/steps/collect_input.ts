// `collect_input`: asks a person to fill in a form, whose shape is a JSON Schema.
import { required, schema } from "../definition/attribute.js";
import { stepType } from "./step.js";
import { asked, checkDue, due, openTask } from "./user_task.js";
import { timeoutEdges } from "./wait_for_signal.js";

export const collectInput = stepType({
  name: "collect_input",
  summary: "Waits for a person to fill in a form.",
  attributes: {
    ...asked,
    form_schema: required(schema, "What the result must conform to; taken as it is, no templates."),
    ...due,
  },
  output: "the result; null after a timeout that goes on",
  pauses: true,
  edges: ({ on_timeout }) => timeoutEdges(on_timeout),
  check: (attributes, place) => checkDue(attributes, place),
  task: {
    problems: () => [],
    outcome: (_, result) => ({ kind: "done", output: result }),
  },
  enter(entered) {
    const opened = openTask(entered, entered.attributes.form_schema);
    return entered.run.dryRun ? { kind: "done", output: {} } : opened;
  },
});
