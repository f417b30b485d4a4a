// `metric_emit`: records a value as an audit event `metric`. The shell counts it after the commit, so a replay counts nothing
// twice.
import { defaulted, number, object, oneOf, optional, required, text } from "../attribute/kinds.js";
import { asText, ExpressionError, isSecretText, type Scope, type Template } from "../expression/index.js";
import type { JsonObject } from "../values/json.js";
import { SECRET } from "../values/secret.js";
import { isLongerThan } from "../values/text.js";
import { failed, numberOf, objectOf, stepType, textOf } from "./step.js";

export const METRIC_KINDS = ["counter", "gauge", "histogram"] as const;
const LONGEST_NAME = 128;
const MAX_TAGS = 16;

export const metricEmit = stepType({
  name: "metric_emit",
  summary: "Records a value: an audit event `metric`, and a series on `/metrics`.",
  attributes: {
    name: required(text, "The metric's name, at most 128 characters."),
    value: defaulted(number(), 1, "A counter grows by it, a gauge is set to it, a histogram observes it."),
    kind: defaulted(oneOf(...METRIC_KINDS), "counter", "How the values of one name are combined."),
    tags: optional(object, "At most 16; their values are strings, numbers or booleans."),
  },
  errors: "`limit_exceeded`",
  check({ name, value, kind }, place) {
    if (name.constant && !isName(String(name.render({})))) place.at("name").problem(NAME_RULE);
    if (kind === "counter" && typeof value === "number" && value < 0) place.at("value").problem(COUNTER_RULE);
  },
  enter({ attributes: { name, value, kind, tags }, scope, run }) {
    const metric = textOf(name, scope, "name");
    if (!isName(metric)) throw new ExpressionError(`name ${NAME_RULE}`);
    const figure = numberOf(value, scope, "value", Number.NEGATIVE_INFINITY);
    if (kind === "counter" && figure < 0) throw new ExpressionError(`value ${COUNTER_RULE}`);
    const labels = tags ? tagsOf(tags, scope) : {};
    if (Object.keys(labels).length > MAX_TAGS)
      return failed("limit_exceeded", `the metric ${metric} has over ${MAX_TAGS} tags`);
    const metadata = { name: metric, kind, value: figure, tags: labels, ...(run.dryRun && { dry_run: true }) };
    return { kind: "done", notes: [{ type: "metric", metadata }] };
  },
});

const NAME_RULE = `must have 1 to ${LONGEST_NAME} characters`;
const COUNTER_RULE = "must not be negative: a counter only grows";

function isName(name: string): boolean {
  return name.length > 0 && !isLongerThan(name, LONGEST_NAME);
}

function tagsOf(tags: Template, scope: Scope): JsonObject {
  const entries = Object.entries(objectOf(tags, scope, "tags"));
  return Object.fromEntries(
    entries.map(([name, value]) => {
      if (typeof value !== "object") return [name, asText(value)];
      if (isSecretText(value) || name === SECRET)
        throw new ExpressionError(`tags.${name} is not secret, so it cannot depend on a secret value`);
      throw new ExpressionError("the values of tags must be strings, numbers or booleans");
    }),
  );
}
