// `decision`: takes the branch that a value names: the value of an expression, or a member of a rule's output.
import { defaulted, expression, naming, object, optional, required, text } from "../attribute/kinds.js";
import { asText, type Scope } from "../expression/index.js";
import { evaluateRule, type RuleResult } from "../rule/evaluate.js";
import { beginningOf, type Json, type JsonObject } from "../values/json.js";
import { spread } from "../values/secret.js";
import { branches, namedEdges, takeBranch, unlessDefault } from "./branch.js";
import { constantText } from "./named.js";
import { type Doubt, failed, type Note, objectOf, stepType, textOf } from "./step.js";
import { excerpt, written } from "./words.js";

export const decision = stepType({
  name: "decision",
  summary: "Takes the branch that a value or a rule names.",
  attributes: {
    expression: optional(expression, "Its value, as text, names the branch."),
    rule_id: optional(naming("rule", text), "Instead of `expression`: the rule whose output names the branch."),
    rule_inputs: optional(object, "The rule's inputs; the run's inputs if absent."),
    output_key: defaulted(text, "branch", "The member of the rule's output that names the branch."),
    branches: required(branches, "Name to {next}; `default` where no name matches."),
  },
  errors: "`no_branch_matched`, `not_found`",
  edges: ({ branches, expression, rule_id }) =>
    namedEdges(
      branches,
      expression ? excerpt(expression.source) : `the output of the rule ${rule_id ? written(rule_id) : ""}`,
    ),
  doubts({ rule_id, output_key, branches }, { plan, known }) {
    const [ruleId, key] = [constantText(rule_id), constantText(output_key)];
    const rule = ruleId === undefined ? undefined : known.rule?.(ruleId);
    if (!rule?.rows || key === undefined) return [];
    const outputs = [...rule.rows.map(({ then }) => then), ...(rule.defaultOutput ? [rule.defaultOutput] : [])];
    const named = outputs.map((output) => (Object.hasOwn(output, key) ? asText(output[key] ?? null) : undefined));
    const missing = named.find((name) => name === undefined || !Object.hasOwn(branches, name));
    const doubts: Doubt[] = Object.keys(branches)
      .filter((name) => name !== "default" && !named.includes(name))
      .map((name) => ({
        code: "rule_branch_never",
        at: ["branches", name],
        message: `no row of the rule ${ruleId} names this branch`,
      }));
    const falls = named.some((name) => name === undefined || !Object.hasOwn(branches, name));
    if (!falls || Object.hasOwn(branches, "default") || plan.next !== undefined) return doubts;
    const what =
      missing === undefined ? `has no member ${JSON.stringify(key)}` : `names the branch ${JSON.stringify(missing)}`;
    const message = `an output of the rule ${ruleId} ${what}, and there is neither such a branch nor a default`;
    return [...doubts, { code: "rule_branch_missing", at: ["branches"], message }];
  },
  nextWhen: ({ branches }) => unlessDefault(branches),
  check({ expression, rule_id, rule_inputs }, place) {
    if ((expression === undefined) === (rule_id === undefined)) place.problem("needs either expression or rule_id");
    if (rule_inputs !== undefined && rule_id === undefined) place.at("rule_inputs").problem("goes with rule_id");
  },
  enter({ attributes: { expression, rule_id, rule_inputs, output_key, branches }, scope, plan, facts, run }) {
    if (expression) return takeBranch(branches, expression.evaluate(scope), plan.next);
    const ruleId = rule_id ? textOf(rule_id, scope, "rule_id") : "";
    const rule = facts.rule(ruleId, run.tenantId);
    if (!rule) return failed("not_found", `there is no published rule ${beginningOf(ruleId, 128)}`);
    const inputs = spread(rule_inputs ? objectOf(rule_inputs, scope, "rule_inputs") : inputsOf(scope)) as JsonObject;
    const result = evaluateRule(rule, inputs);
    const notes: readonly Note[] = [{ type: "rule.evaluated", metadata: { ...result.audit } }];
    return { ...takeBranch(branches, named(result, textOf(output_key, scope, "output_key")), plan.next), notes };
  },
});

function inputsOf({ inputs }: Scope): JsonObject {
  return inputs as JsonObject;
}

/** The name of a branch in a rule's result. Undefined: no row matched, or the output has no such member. */
function named({ output = {} }: RuleResult, key: string): Json | undefined {
  return Object.hasOwn(output, key) ? output[key] : undefined;
}
