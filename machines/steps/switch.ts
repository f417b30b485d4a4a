// `switch`: takes the first case that holds, or the branch that a value names.
import { list, shape } from "../attribute/composite.js";
import { expression, optional, required, stepId } from "../attribute/kinds.js";
import { constantTruth } from "../expression/index.js";
import { MAX_BRANCHES } from "../values/limits.js";
import { branches, namedEdges, takeBranch, unlessDefault } from "./branch.js";
import { type Edge, failed, stepType } from "./step.js";
import { excerpt } from "./words.js";

const oneCase = shape("case", {
  when: required(expression, "The case holds if truthy."),
  next: required(stepId, "The step to go to."),
});

const NO_CASE = "no case holds";

export const switchStep = stepType({
  name: "switch",
  summary: "Takes the first case that holds, or the branch that a value names.",
  attributes: {
    cases: optional(list(oneCase, { min: 1, max: MAX_BRANCHES }), "Tried in order."),
    default: optional(stepId, "The step to go to if no case holds."),
    expression: optional(expression, "Instead of cases: its value, as text, names the branch."),
    branches: optional(branches, "Name to {next}, with `expression`."),
  },
  errors: "`no_branch_matched`",
  check({ cases, default: otherwise, expression, branches }, place) {
    if ((cases === undefined) === (expression === undefined))
      place.problem("needs either cases or expression with branches");
    if ((expression === undefined) !== (branches === undefined)) place.problem("needs both expression and branches");
    if (otherwise !== undefined && cases === undefined)
      place.at("default").problem("goes with cases; use branches.default");
  },
  codes: () => ["no_branch_matched"],
  doubts({ cases = [] }) {
    return cases.flatMap(({ when }, index) => {
      const truth = constantTruth(when);
      if (truth === undefined) return [];
      const isLast = index === cases.length - 1;
      const message = truth ? `always holds${isLast ? "" : ": the cases below it are never taken"}` : "never holds";
      return [{ code: "condition_constant" as const, at: ["cases", index, "when"], message }];
    });
  },
  edges({ cases = [], default: otherwise, expression, branches }) {
    const edges: Edge[] = cases.map(({ when, next }, index) => ({
      label: `case.${index}`,
      target: next,
      at: ["cases", index, "next"],
      when: excerpt(when.source),
    }));
    if (otherwise !== undefined) edges.push({ label: "default", target: otherwise, at: ["default"], when: NO_CASE });
    return [...edges, ...namedEdges(branches, expression ? excerpt(expression.source) : "")];
  },
  nextWhen({ default: otherwise, branches }) {
    if (branches) return unlessDefault(branches);
    return otherwise === undefined ? NO_CASE : null;
  },
  enter({ attributes: { cases = [], default: otherwise, expression, branches }, scope, plan }) {
    if (expression && branches) return takeBranch(branches, expression.evaluate(scope), plan.next);
    const taken = cases.findIndex(({ when }) => when.test(scope));
    if (taken >= 0) return { kind: "done", edge: `case.${taken}`, target: cases[taken]?.next };
    if (otherwise !== undefined) return { kind: "done", edge: "default", target: otherwise };
    return plan.next === undefined
      ? failed("no_branch_matched", "no case holds and there is no default")
      : { kind: "done" };
  },
});
