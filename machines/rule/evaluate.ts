// Evaluates a decision table: the output of the first row that matches, and an audit of the rows tried.
import { type Scope, withFuel } from "../expression/index.js";
import type { JsonObject } from "../values/json.js";
import type { Rule } from "./document.js";

/** The audit of an evaluation. Its names are part of the API. */
export interface RuleAudit {
  readonly rule_id: string;
  readonly version: number;
  /** Counted from 0. Null: none. */
  readonly matched_row: number | null;
  readonly used_default: boolean;
  /** The rows that were tried, in order. */
  readonly rows: readonly { readonly index: number; readonly matched: boolean }[];
}

export interface RuleResult {
  /** Absent: no row matched, and there is no default. */
  readonly output?: JsonObject;
  readonly audit: RuleAudit;
}

/** Throws an ExpressionError that names the row. */
export function evaluateRule(rule: Rule, inputs: JsonObject): RuleResult {
  // A member of the inputs may not hide `inputs` itself.
  const scope: Scope = { ...inputs, inputs };
  const matched = withFuel(() => rule.rows.findIndex(({ when }) => when.test(scope)));
  const found = rule.rows[matched];
  const looked = found ? matched + 1 : rule.rows.length;
  return {
    output: found ? found.then : rule.defaultOutput,
    audit: {
      rule_id: rule.ruleId,
      version: rule.version,
      matched_row: found ? matched : null,
      used_default: !found && rule.defaultOutput !== undefined,
      rows: Array.from({ length: looked }, (_, index) => ({ index, matched: index === matched })),
    },
  };
}
