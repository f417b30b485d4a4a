// `log`: writes an audit event of the workflow's own.
import { defaulted, object, oneOf, optional, required, text } from "../definition/attribute.js";
import { asText } from "../expression/index.js";
import { objectOf, stepType } from "./step.js";

export const log = stepType({
  name: "log",
  summary: "Writes an audit event `log`.",
  attributes: {
    message: required(text, "What to say."),
    level: defaulted(oneOf("debug", "info", "warn", "error"), "info", "How much it matters."),
    fields: optional(object, "More to say."),
  },
  enter({ attributes: { message, level, fields }, scope }) {
    const metadata = { kind: "message", level, message: asText(message.render(scope)) };
    const full = fields ? { ...metadata, fields: objectOf(fields, scope, "fields") } : metadata;
    return { kind: "done", notes: [{ type: "log", metadata: full }] };
  },
});
