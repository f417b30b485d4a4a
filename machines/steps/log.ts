// `log`: writes an audit event `log`.
import { defaulted, object, oneOf, optional, required, text } from "../attribute/kinds.js";
import { asText, isSecretText } from "../expression/index.js";
import { MASK } from "../values/secret.js";
import { objectOf, stepType } from "./step.js";

export const log = stepType({
  name: "log",
  summary: "Writes an audit event `log`.",
  attributes: {
    message: required(text, "The text."),
    level: defaulted(oneOf("debug", "info", "warn", "error"), "info", "The severity."),
    fields: optional(object, "Structured data."),
  },
  enter({ attributes: { message, level, fields }, scope }) {
    const text = message.render(scope);
    const metadata = { kind: "message", level, message: isSecretText(text) ? MASK : asText(text) };
    const full = fields ? { ...metadata, fields: objectOf(fields, scope, "fields") } : metadata;
    return { kind: "done", notes: [{ type: "log", metadata: full }] };
  },
});
