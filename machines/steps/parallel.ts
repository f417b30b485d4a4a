// `parallel`: starts a child run for each branch and goes on to its join, which waits for them.
import { defaulted, number, required } from "../attribute/kinds.js";
import { EACH } from "../attribute/mention.js";
import { namedBranches } from "./branch.js";
import { numberOf, stepType } from "./step.js";

export const parallel = stepType({
  name: "parallel",
  summary: "Runs its branches side by side, each as a child run; its next is the join that waits for them.",
  attributes: {
    branches: required(namedBranches, "Name to {next}: the first step of the branch."),
    max_concurrency: defaulted(number({ min: 0, whole: true }), 0, "Branches that run at once; 0: all."),
  },
  errors: "`limit_exceeded`",
  forks: true,
  block: { kind: "branch", starts: ["branches", EACH, "next"] },
  nextWhen: () => "the branches have begun",
  enter({ attributes: { branches, max_concurrency }, scope }) {
    const total = Object.keys(branches).length;
    const window = Math.floor(numberOf(max_concurrency, scope, "max_concurrency")) || total;
    return { kind: "start_children", group: { kind: "branches", total, window } };
  },
});
