// Evaluates a decision table on inputs: the output of the first row that matches, and what was looked at on the way.
import { burn, ExpressionError, type Scope } from "../expression/index.js";
import type { JsonObject } from "../json.js";
import type { Rule, RuleRow } from "./document.js";

/** What an evaluation did, for audit. Every name goes out as it stands here. */
export interface RuleAudit {
  readonly rule_id: string;
  readonly version: number;
  /** From 0; null: none. */
  readonly matched_row: number | null;
  readonly used_default: boolean;
  /** Those that were looked at, in order. */
  readonly rows: readonly { readonly index: number; readonly matched: boolean }[];
}

export interface RuleResult {
  /** Absent: no row matched and there is no default. */
  readonly output?: JsonObject;
  readonly audit: RuleAudit;
}

/** Throws ExpressionError, which says the row. */
export function evaluateRule(rule: Rule, inputs: JsonObject): RuleResult {
  // `inputs` is the inputs, whatever they call their members.
  const scope: Scope = { ...inputs, inputs };
  const matched = burn(() => rule.rows.findIndex((row, index) => matches(row, index, scope)));
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

function matches({ when }: RuleRow, index: number, scope: Scope): boolean {
  try {
    return when.test(scope);
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    throw new ExpressionError(`rows[${index}].when: ${error.message}`);
  }
}
