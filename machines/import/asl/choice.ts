// The conditions of a Choice state as CEL. A comparison with a value of another type does not hold, as the specification has it; a path that finds
// nothing is an error in both.

import { isObject, type Json, type JsonObject } from "../../values/json.js";
import type { FieldPath } from "../../values/json-path.js";
import { literal, quoted } from "../cel.js";
import { NoEquivalent } from "../report.js";
import { type PathScope, pathToCel, presence, segmentsOf } from "./path.js";

const COMPARED =
  /^(String|Numeric|Boolean|Timestamp)(Equals|LessThanEquals|LessThan|GreaterThanEquals|GreaterThan)(Path)?$/;

const OPERATORS: Readonly<Record<string, string>> = {
  Equals: "==",
  LessThan: "<",
  LessThanEquals: "<=",
  GreaterThan: ">",
  GreaterThanEquals: ">=",
};

/** What a timestamp of the specification looks like. Anything else is not compared. */
const TIMESTAMP = quoted(
  "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$",
);

const TYPES: Readonly<Record<string, (of: string) => string>> = {
  String: (of) => `type(${of}) == string`,
  Numeric: (of) => `(type(${of}) == double || type(${of}) == int)`,
  Boolean: (of) => `type(${of}) == bool`,
  Timestamp: (of) => `type(${of}) == string && ${of}.matches(${TIMESTAMP})`,
};

/** Throws NoEquivalent. `path`: that of the rule, for errors of the callers. */
export function conditionOf(rule: JsonObject, scope: PathScope, path: FieldPath = []): string {
  if (Array.isArray(rule.And)) return joined(rule.And, (first, rest) => `(${first} ? ${rest} : false)`, scope);
  if (Array.isArray(rule.Or)) return joined(rule.Or, (first, rest) => `(${first} ? true : ${rest})`, scope);
  if (isObject(rule.Not)) return `!(${conditionOf(rule.Not, scope, path)})`;
  const operator = Object.keys(rule).find(
    (name) => !["Variable", "Next", "Comment", "Assign", "Output"].includes(name),
  );
  if (operator === undefined || typeof rule.Variable !== "string")
    throw new NoEquivalent("a choice rule", "it has no Variable or no comparison");
  const value = rule[operator] ?? null;
  return operator.startsWith("Is")
    ? tested(operator, rule.Variable, value, scope)
    : compared(operator, rule.Variable, value, scope);
}

/** In their order: CEL's own `&&` and `||` would pass over an error that comes before the value that decides. */
function joined(rules: readonly Json[], by: (first: string, rest: string) => string, scope: PathScope): string {
  const conditions = rules.map((each) => `(${conditionOf(isObject(each) ? each : {}, scope)})`);
  return conditions.reduceRight((rest, first) => by(first, rest));
}

function tested(operator: string, variable: string, value: Json, scope: PathScope): string {
  const test = testOf(operator, variable, scope);
  return value === false ? `!(${test})` : test;
}

function testOf(operator: string, variable: string, scope: PathScope): string {
  if (operator === "IsPresent") {
    // The context object is always there as far as expressions see it.
    if (variable.startsWith("$$")) {
      const input = /^\$\$\.Execution\.Input(.*)$/.exec(variable);
      if (!input) throw new NoEquivalent(`IsPresent of ${variable}`, "only the execution's input is tested");
      return presence("inputs", segmentsOf(input[1] ?? "", variable));
    }
    pathToCel(variable, scope);
    return presence(scope.root, segmentsOf(variable.slice(1), variable));
  }
  const of = pathToCel(variable, scope);
  switch (operator) {
    case "IsNull":
      return `${of} == null`;
    case "IsNumeric":
      return TYPES.Numeric?.(of) ?? "";
    case "IsString":
      return TYPES.String?.(of) ?? "";
    case "IsBoolean":
      return TYPES.Boolean?.(of) ?? "";
    case "IsTimestamp":
      return TYPES.Timestamp?.(of) ?? "";
    default:
      throw new NoEquivalent(`the comparison ${operator}`, "the specification has none of this name");
  }
}

function compared(operator: string, variable: string, value: Json, scope: PathScope): string {
  const left = pathToCel(variable, scope);
  if (operator === "StringMatches")
    return `type(${left}) == string && ${left}.matches(${quoted(patternOf(String(value)))})`;
  const [, type = "", comparison = "", isPath] = COMPARED.exec(operator) ?? [];
  const typed = TYPES[type];
  const sign = OPERATORS[comparison];
  if (!typed || !sign) throw new NoEquivalent(`the comparison ${operator}`, "the specification has none of this name");
  const valued = (of: string) => (type === "Timestamp" ? `timestamp(${of})` : of);
  if (!isPath) return `${typed(left)} && ${valued(left)} ${sign} ${valued(literal(value))}`;
  // A list has both values or fails, whatever the type of the first one is.
  const both = `[[${left}, ${pathToCel(String(value), scope)}]]`;
  return `${both}.exists(p, ${typed("p[0]")} && ${typed("p[1]")} && ${valued("p[0]")} ${sign} ${valued("p[1]")})`;
}

/** A star stands for any text, and a backslash takes the next character as it is. */
function patternOf(text: string): string {
  const parts = [...text.matchAll(/\\(.)|(\*)|([^\\*]+)/gsu)].map(([, taken, star, other]) =>
    star ? ".*" : (taken ?? other ?? "").replace(/[.*+?^${}()|[\]\\]/g, "\\$&"),
  );
  return `(?s)^${parts.join("")}$`;
}
