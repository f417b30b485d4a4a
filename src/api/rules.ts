// Rules over HTTP: create, publish, read, evaluate. The rules of versions are the store's; what makes a document valid, and
// what an evaluation comes to, is the machine's.
import type { FastifyInstance } from "fastify";
import { type Static, Type } from "typebox";
import {
  compileRule,
  ExpressionError,
  evaluateRule,
  isObject,
  type Rule,
  type RuleResult,
  tenantName,
} from "../../machines/index.js";
import { badRequest, invalidConfig, notFound, unprocessable } from "../errors.js";
import {
  listRules,
  listRuleVersions,
  publishRule,
  type RuleDraft,
  readRule,
  ruleExists,
  type StoredRule,
  storeRule,
} from "../store/rules.js";
import { AnyObject, readBody } from "./body.js";
import type { ApiDeps } from "./index.js";
import * as q from "./query.js";
import { pageSchema, ref, responses } from "./schemas.js";

const path = q.pathReader({ rule_id: q.id });
const versionPath = q.pathReader({ rule_id: q.id, version: q.integer(1, q.MAX_INT32) });
const versionQuery = q.queryReader({ version: q.integer(1, q.MAX_INT32) });
const pageQuery = q.queryReader(q.PAGE);

const TAGS = ["rules"];
const DOCUMENT = AnyObject({ description: "A RuleDefinition. Unknown fields are refused." });
const ONE = { description: "The rule.", ...ref("RuleDefinition") };
const MANY = { description: "A page of rules.", ...pageSchema("RuleDefinition") };

const Evaluate = Type.Object({
  inputs: AnyObject({ description: "What the rows see, as `inputs` and by name." }),
  version: Type.Optional(Type.Integer({ minimum: 1, maximum: q.MAX_INT32 })),
  tenant_id: Type.Optional(Type.String({ description: "A rule with a tenant exists for that tenant only." })),
});

const RowAudit = Type.Object({ index: Type.Integer(), matched: Type.Boolean() });
const Evaluated = Type.Object({
  output: AnyObject(),
  audit: Type.Object({
    rule_id: Type.String(),
    version: Type.Integer(),
    matched_row: Type.Union([Type.Integer({ description: "From 0." }), Type.Null()]),
    used_default: Type.Boolean(),
    rows: Type.Array(RowAudit, { description: "The rows that were looked at." }),
    duration_ms: Type.Number(),
  }),
});

export function ruleRoutes(app: FastifyInstance, deps: ApiDeps): void {
  createRoute(app, deps);
  publishRoutes(app, deps);
  readRoutes(app, deps);
  evaluateRoute(app, deps);
}

/** The valid document and what is only doubtful in it. Throws 400 `invalid_config` with every problem. */
export function ruleDraftOf(document: unknown) {
  const { rule, problems, warnings } = compileRule(document);
  if (!rule || !isObject(document)) {
    const [first] = problems;
    throw invalidConfig(`the rule is not valid: ${first?.path} ${first?.message}`, problems);
  }
  const { version, published, created_by: createdBy, rule_type, spec } = document;
  const draft: RuleDraft = {
    ruleId: rule.ruleId,
    version: typeof version === "number" ? version : undefined,
    tenantId: rule.tenantId,
    name: rule.name,
    ruleType: String(rule_type),
    spec: isObject(spec) ? spec : {},
    publish: published === true,
    createdBy: typeof createdBy === "string" ? createdBy : undefined,
  };
  return { draft, warnings };
}

function createRoute(app: FastifyInstance, deps: ApiDeps): void {
  const response = responses({ 200: ONE, 201: ONE }, 400, 409, 413, 415);
  const schema = { tags: TAGS, summary: "Store a version of a rule", body: DOCUMENT, response };
  app.post("/api/v1/rules", { schema }, async (request, reply) => {
    if (request.body === undefined) throw badRequest("a JSON body is required", [{ path: "$", message: "is missing" }]);
    const { draft, warnings } = ruleDraftOf(request.body);
    const { rule, stored } = await storeRule(deps.sql, draft);
    await deps.catalog.refresh();
    const { ruleId: rule_id, version } = rule;
    request.log.info({ rule_id, version, stored, warnings: warnings.length }, "a rule was posted");
    reply.status(stored ? 201 : 200).header("Location", `/api/v1/rules/${rule_id}?version=${version}`);
    return rule.item;
  });
}

function publishRoutes(app: FastifyInstance, deps: ApiDeps): void {
  for (const [name, published] of [["publish", true] as const, ["unpublish", false] as const]) {
    const summary = published
      ? "Publish a version: it can be evaluated"
      : "Unpublish a version: it cannot be evaluated any more";
    const schema = { tags: TAGS, summary, params: versionPath.schema, response: responses({ 200: ONE }, 400, 404) };
    app.post(`/api/v1/rules/:rule_id/versions/:version/${name}`, { schema }, async (request) => {
      const { rule_id: ruleId, version } = versionPath.read(request.params);
      // A draft may have been stored by a release that allowed more.
      const draft = published ? await readRule(deps.sql, ruleId, version) : undefined;
      if (draft && !draft.published) ruleDraftOf(draft.item);
      const rule = await publishRule(deps.sql, ruleId, version, published);
      if (!rule) throw noSuchRule(ruleId, version);
      await deps.catalog.refresh();
      return rule.item;
    });
  }
}

function readRoutes(app: FastifyInstance, { sql }: ApiDeps): void {
  const list = { tags: TAGS, querystring: pageQuery.schema, response: responses({ 200: MANY }, 400) };
  const listSchema = { ...list, summary: "List rules, each by its latest published version" };
  app.get("/api/v1/rules", { schema: listSchema }, async (request) =>
    listRules(sql, q.pageOf(pageQuery.read(request.query))),
  );

  const readSchema = {
    tags: TAGS,
    summary: "Get the latest published version of a rule, or the version asked for",
    params: path.schema,
    querystring: versionQuery.schema,
    response: responses({ 200: ONE }, 400, 404),
  };
  app.get("/api/v1/rules/:rule_id", { schema: readSchema }, async (request) => {
    const { rule_id: ruleId } = path.read(request.params);
    const { version } = versionQuery.read(request.query);
    const rule = await readRule(sql, ruleId, version);
    if (!rule) throw noSuchRule(ruleId, version);
    return rule.item;
  });

  const versionsSchema = { ...list, summary: "List a rule's versions, newest first", params: path.schema };
  const response = responses({ 200: MANY }, 400, 404);
  app.get("/api/v1/rules/:rule_id/versions", { schema: { ...versionsSchema, response } }, async (request) => {
    const { rule_id: ruleId } = path.read(request.params);
    const page = q.pageOf(pageQuery.read(request.query));
    if (!(await ruleExists(sql, ruleId))) throw noSuchRule(ruleId);
    return listRuleVersions(sql, ruleId, page);
  });
}

function evaluateRoute(app: FastifyInstance, { sql }: ApiDeps): void {
  const compile = compiler();
  const schema = {
    tags: TAGS,
    summary: "Evaluate a rule",
    params: path.schema,
    body: Evaluate,
    response: responses({ 200: { description: "The rule's output.", ...Evaluated } }, 400, 404, 413, 415, 422),
  };
  app.post("/api/v1/rules/:rule_id/evaluate", { schema }, async (request, reply) => {
    const { rule_id: ruleId } = path.read(request.params);
    const { inputs, version, tenant_id: tenantId } = readBody(request, reply, Evaluate);
    // From the store, not from memory: what was published on another node a moment ago counts.
    const stored = await readRule(sql, ruleId, version);
    if (!stored?.published) throw noSuchRule(ruleId, version, true);
    const began = performance.now();
    const rule = compile(stored);
    if (rule.tenantId !== undefined && rule.tenantId !== (tenantId && tenantName(tenantId)))
      throw noSuchRule(ruleId, version, true);
    return answer(rule, inputs, began);
  });
}

function answer(rule: Rule, inputs: Static<typeof Evaluate>["inputs"], began: number): Static<typeof Evaluated> {
  const { output, audit } = evaluated(rule, inputs);
  if (output === undefined)
    throw unprocessable(`no_decision_row_matched: none of ${audit.rows.length} rows matched, and there is no default`);
  const duration_ms = Math.round((performance.now() - began) * 1000) / 1000;
  return { output, audit: { ...audit, rows: [...audit.rows], duration_ms } };
}

function evaluated(rule: Rule, inputs: Static<typeof Evaluate>["inputs"]): RuleResult {
  try {
    return evaluateRule(rule, inputs);
  } catch (error) {
    if (error instanceof ExpressionError) throw unprocessable(`the rule cannot be evaluated: ${error.message}`);
    throw error;
  }
}

/** A rule's content never changes under its id. */
const COMPILED_KEPT = 200;

function compiler(): (stored: StoredRule) => Rule {
  const known = new Map<string, Rule>();
  return (stored) => {
    const kept = known.get(stored.id);
    if (kept) {
      known.delete(stored.id);
      known.set(stored.id, kept);
      return kept;
    }
    const { rule, problems } = compileRule(stored.item);
    if (!rule) throw unprocessable(`the rule cannot be evaluated: ${problems[0]?.path} ${problems[0]?.message}`);
    const [oldest] = known.keys();
    if (oldest !== undefined && known.size >= COMPILED_KEPT) known.delete(oldest);
    known.set(stored.id, rule);
    return rule;
  };
}

function noSuchRule(ruleId: string, version?: number, published = version === undefined) {
  const which = version === undefined ? "version" : `version ${version}`;
  return notFound(`there is no ${published ? "published " : ""}${which} of rule ${ruleId}`);
}
