// Reads a rule document into a rule, or lists its problems, each with its JSON path.

import { Budget } from "../attribute/budget.js";
import { beginSalvage, list, own, parseAttributes, refuseUnknown, shape } from "../attribute/composite.js";
import { Findings, type Problem } from "../attribute/findings.js";
import {
  dataObject,
  expression,
  flag,
  id,
  oneOf,
  optional,
  plainNumber,
  plainText,
  required,
  tenant,
} from "../attribute/kinds.js";
import { Place } from "../attribute/problem.js";
import { writtenObject } from "../attribute/written.js";
import type { Expression } from "../expression/index.js";
import { isObject, type JsonObject, measure } from "../values/json.js";
import { MAX_VERSION } from "../values/limits.js";
import * as misfit from "../values/misfit.js";
import { inOnePiece, type Slices } from "../values/slices.js";

export const MAX_ROWS = 1_000;

export interface RuleRow {
  readonly when: Expression;
  /** Data, without templates. */
  readonly then: JsonObject;
}

/** A checked decision table. */
export interface Rule {
  readonly ruleId: string;
  readonly version: number;
  readonly tenantId?: string;
  readonly name: string;
  readonly rows: readonly RuleRow[];
  readonly defaultOutput?: JsonObject;
  /** The document as it was posted. */
  readonly document: JsonObject;
}

/** The rule, if runs of this tenant may use it: it is theirs, or no tenant's. For others it does not exist. */
export function ruleFor(tenantId: string | undefined, rule: Rule | undefined): Rule | undefined {
  return rule && (rule.tenantId === undefined || rule.tenantId === tenantId) ? rule : undefined;
}

export interface CompiledRule {
  /** Absent if there are problems. */
  readonly rule?: Rule;
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
}

const row = shape("row", {
  when: required(expression, "Matches when truthy; sees `inputs` and each of its keys."),
  then: required(dataObject, "The rule's output if this row is the first that matches."),
});

const spec = shape("RuleSpec", {
  hit_policy: required(oneOf("first"), "Which of the matching rows counts."),
  rows: required(list(row, { max: MAX_ROWS }), "The rows, tried in order."),
  default_output: optional(dataObject, "The output if no row matches."),
});

const DOCUMENT = {
  $schema: optional(plainText, "For editors; the service does not read it."),
  id: optional(plainText, "Set by the service."),
  rule_id: required(id, "The rule's identifier."),
  version: optional(plainNumber({ min: 1, max: MAX_VERSION, whole: true }), "Given at the latest when it is stored."),
  tenant_id: optional(tenant, "Only this tenant can evaluate it."),
  name: required(plainText, "Display name."),
  rule_type: required(oneOf("decision_table"), "The kind of rule."),
  spec: required(spec, "The decision table."),
  published: optional(flag, "Whether it can be evaluated."),
  created_at: optional(plainText, "Set by the service."),
  created_by: optional(plainText, "Set by the service."),
};

/** The JSON Schema of a rule document, for editors. */
export const writtenRule = (): JsonObject => writtenObject(DOCUMENT);

export interface RuleOptions {
  readonly version?: number;
  /** It was weighed when it was posted. */
  readonly stored?: boolean;
}

export function compileRule(document: unknown, options: RuleOptions = {}): CompiledRule {
  return inOnePiece(compileRuleSlices(document, options));
}

/** A slice is at most one expression, or the structure of the document. */
export function* compileRuleSlices(document: unknown, options: RuleOptions = {}): Slices<CompiledRule> {
  beginSalvage();
  const problems = new Findings("problems");
  const warnings = new Findings("warnings");
  const budget = options.stored ? undefined : new Budget();
  const place = Place.of("$", { problems, warnings, budget });
  const rule = readRule(document, place, options.version);
  // Those of a stored rule were checked then, and are parsed when they are first evaluated.
  if (!options.stored) yield* place.checks();
  const found = { problems: problems.all(), warnings: warnings.all() };
  return problems.count === 0 && rule ? { rule, ...found } : found;
}

function readRule(document: unknown, place: Place, version?: number): Rule | undefined {
  if (!isObject(document)) return place.problem(misfit.wrongType("object"));
  const size = measure(document);
  if (typeof size !== "number") return place.below(size.path).problem(size.message);
  refuseUnknown(document, DOCUMENT, place);
  const read = parseAttributes(DOCUMENT, (name) => ({ raw: own(document, name), place: place.at(name) }));
  if (!read) return undefined;
  const { rows, default_output: defaultOutput } = read.spec;
  const at = place.at("spec").at("rows");
  if (rows.length === 0 && !defaultOutput) return at.problem("must have a row, unless the table has a default_output");
  warnAboutCovered(rows, at);
  const { rule_id: ruleId, tenant_id: tenantId, name } = read;
  return { ruleId, version: version ?? read.version ?? 1, tenantId, name, rows, defaultOutput, document };
}

function warnAboutCovered(rows: readonly RuleRow[], place: Place): void {
  const always = rows.findIndex(({ when }) => when.source.trim() === "true");
  if (always >= 0 && always < rows.length - 1)
    place.at(always).warn("rule_row_never", "always matches: the rows below it are never tried");
}
