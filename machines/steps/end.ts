// `end`: the whole run succeeds, from any block.
import { optional, value } from "../attribute/kinds.js";
import { stepType } from "./step.js";

export const end = stepType({
  name: "end",
  summary: "Ends the whole run: it succeeds.",
  attributes: { output: optional(value, "The run's output; null if absent.") },
  last: true,
  ends: true,
  nextWhen: () => null,
  enter: ({ attributes, scope }) => ({ kind: "end", output: attributes.output?.render(scope) ?? null }),
});
