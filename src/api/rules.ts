// Rules over HTTP. Beyond the routes of every versioned document they can be evaluated.

import type { Static } from "typebox";
import * as Type from "typebox";
import {
  ExpressionError,
  evaluateRule,
  isObject,
  type JsonObject,
  measure,
  type Rule,
  type RuleResult,
  tenantName,
  WeightedCache,
} from "../../machines/index.js";
import { isAnyone, ownerFor, refuseNarrowed, tenantsOf } from "../access/index.js";
import { performance } from "../ambient.js";
import { unprocessable } from "../errors.js";
import { type RuleDraft, ruleVersions } from "../store/lists/rules.js";
import type { StoredVersion } from "../store/lists/versions.js";
import { isUsable, tenantsOfRun } from "../store/owners.js";
import type { ApiDeps } from "./deps.js";
import { AnyObject } from "./http/body.js";
import { Id, path, Version } from "./http/parameters.js";
import { responses } from "./http/responses.js";
import type { Api } from "./http/validation.js";
import { type Compiling, onWire, type Report, storageOf, VersionedResource } from "./versioned.js";

export const rules = new VersionedResource<RuleDraft>({
  noun: "rule",
  collection: "rules",
  parameter: "rule_id",
  use: "evaluated",
  resource: "RuleDefinition",
  description: "A RuleDefinition. Unknown fields are refused.",
  store: ruleVersions,
  check,
  authorize: ({ principal }) => refuseNarrowed(principal, "change rules"),
  exists: ({ tenants }, { tenantId }) => isUsable(tenantId, tenants),
});

export function ruleRoutes(app: Api, deps: ApiDeps): void {
  rules.routes(app, deps);
  evaluateRoute(app, deps);
}

async function check(document: unknown, { compile }: Compiling): Promise<Report<RuleDraft>> {
  const { rule, problems, warnings } = await compile.compileRule(document);
  return {
    ...(rule && isObject(document) && { draft: draftOf(rule, document) }),
    problems,
    warnings: onWire(warnings),
  };
}

function draftOf({ ruleId: key, tenantId: forTenant, name }: Rule, document: JsonObject): RuleDraft {
  const { rule_type: ruleType, spec } = document;
  const content = { ruleType: String(ruleType), spec: isObject(spec) ? spec : {} };
  return { key, forTenant, name, ...content, ...storageOf(document) };
}

const Evaluate = Type.Object({
  inputs: AnyObject({ description: "The conditions see it as `inputs`, and each member by its name." }),
  version: Type.Optional(Version),
  tenant_id: Type.Optional(Type.String({ description: "A rule with a tenant exists for that tenant only." })),
});

const Evaluated = Type.Object({
  output: AnyObject(),
  audit: Type.Object({
    rule_id: Type.String(),
    version: Type.Integer(),
    matched_row: Type.Union([Type.Integer({ description: "From 0." }), Type.Null()]),
    used_default: Type.Boolean(),
    rows: Type.Array(Type.Object({ index: Type.Integer(), matched: Type.Boolean() }), {
      description: "The rows that were evaluated.",
    }),
    duration_ms: Type.Number(),
  }),
});

function evaluateRoute(app: Api, { sql, compile: { compileRule } }: ApiDeps): void {
  const compile = keeping(compileRule);
  const schema = {
    tags: ["rules"],
    "x-saga-role": "operator" as const,
    summary: "Evaluate a rule",
    params: path({ rule_id: Id }),
    body: Evaluate,
    response: responses({ 200: { description: "The rule's output.", ...Evaluated } }, 400, 404, 413, 415, 422),
  };
  app.post("/api/v1/rules/:rule_id/evaluate", { schema }, async ({ params: { rule_id: ruleId }, body, principal }) => {
    const { inputs, version, tenant_id: named } = body;
    const tenantId = ownerFor(principal, named && tenantName(named));
    const missing = () => rules.missing(ruleId, version, true);
    // It is read from the store, not from memory: another node may have published it a moment ago.
    const stored = await ruleVersions.read(sql, ruleId, version);
    const tenants = isAnyone(principal) ? tenantsOf(principal) : tenantsOfRun(tenantId);
    if (!stored?.published || !isUsable(stored.tenantId, tenants)) throw missing();
    const began = performance.now();
    const rule = await compile(stored);
    if (rule.tenantId !== undefined && rule.tenantId !== tenantId) throw missing();
    return answer(rule, inputs, began);
  });
}

function answer(rule: Rule, inputs: JsonObject, began: number): Static<typeof Evaluated> {
  const { output, audit } = evaluated(rule, inputs);
  if (output === undefined)
    throw unprocessable(`no_decision_row_matched: none of ${audit.rows.length} rows matched, and there is no default`);
  const duration_ms = Math.round((performance.now() - began) * 1000) / 1000;
  return { output, audit: { ...audit, rows: [...audit.rows], duration_ms } };
}

function evaluated(rule: Rule, inputs: JsonObject): RuleResult {
  try {
    return evaluateRule(rule, inputs);
  } catch (error) {
    if (error instanceof ExpressionError) throw unprocessable(`the rule cannot be evaluated: ${error.message}`);
    throw error;
  }
}

/** The compiled rules that are kept, in characters of their documents. */
const MAX_KEPT_CHARS = 16 * 1_048_576;

/** Compiled rules are kept: a rule's content never changes under its id. */
function keeping(compileRule: ApiDeps["compile"]["compileRule"]): (stored: StoredVersion) => Promise<Rule> {
  const compiled = new WeightedCache<string, Rule>(MAX_KEPT_CHARS);
  return async ({ id, item }) => {
    const kept = compiled.get(id);
    if (kept) return kept;
    const { rule, problems } = await compileRule(item, { stored: true });
    if (!rule) throw unprocessable(`the rule cannot be evaluated: ${problems[0]?.path} ${problems[0]?.message}`);
    compiled.set(id, rule, Number(measure(item)));
    return rule;
  };
}
