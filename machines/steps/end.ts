// `end`: the whole run succeeds here, from anywhere.
import { optional, value } from "../definition/attribute.js";
import { stepType } from "./step.js";

export const end = stepType({
  name: "end",
  summary: "Ends the whole run: it succeeds.",
  attributes: { output: optional(value, "The run's output; null if absent.") },
  last: true,
  enter: ({ attributes, scope }) => ({ kind: "end", output: attributes.output?.render(scope) ?? null }),
});
