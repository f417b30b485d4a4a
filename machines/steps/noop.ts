// `noop`: does nothing; a place to point at.
import { stepType } from "./step.js";

export const noop = stepType({
  name: "noop",
  summary: "Does nothing.",
  attributes: {},
  enter: () => ({ kind: "done" }),
});
