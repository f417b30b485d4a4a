// `decision`: goes where a value names a branch.
import { expression, required } from "../definition/attribute.js";
import { branchEdges, branches, takeBranch } from "./branch.js";
import { stepType } from "./step.js";

export const decision = stepType({
  name: "decision",
  summary: "Takes the branch that a value names.",
  attributes: {
    expression: required(expression, "Its value, as text, names the branch."),
    branches: required(branches, "Name to {next}; `default` where no name matches."),
  },
  edges: ({ branches }) => branchEdges(branches),
  enter: ({ attributes, scope, plan }) =>
    takeBranch(attributes.branches, attributes.expression.evaluate(scope), plan.next),
});
