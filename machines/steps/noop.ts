// `noop`: does nothing. Useful as the target of an edge.
import { stepType } from "./step.js";

export const noop = stepType({
  name: "noop",
  summary: "Does nothing.",
  attributes: {},
  enter: () => ({ kind: "done" }),
});
