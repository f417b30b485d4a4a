// `set_var`: writes variables. All values see the variables before the step.
import { record } from "../attribute/composite.js";
import { optional, value, variableName } from "../attribute/kinds.js";
import type { Json } from "../values/json.js";
import { isNull, stepType } from "./step.js";

export const setVar = stepType({
  name: "set_var",
  summary: "Sets variables of the run.",
  attributes: {
    variables: optional(
      record(value, variableName, { min: 1, max: 1000 }),
      "Name to value; all values see the old variables.",
    ),
    name: optional(variableName, "One variable, with `value`."),
    value: optional(value, "The value of `name`."),
  },
  variables: "assigned",
  check({ variables, name, value }, place) {
    const lone = name === undefined ? value !== undefined && !isNull(value) : value === undefined;
    if (lone) place.problem("needs both name and value");
    else if (variables === undefined && name === undefined) place.problem("needs variables, or name and value");
  },
  enter({ attributes: { variables = {}, name, value }, scope }) {
    const assign: Record<string, Json> = {};
    for (const [key, template] of Object.entries(variables)) assign[key] = template.render(scope);
    if (name !== undefined && value) assign[name] = value.render(scope);
    return { kind: "done", assign };
  },
});
