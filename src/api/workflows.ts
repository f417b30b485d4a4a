// Workflow definitions over HTTP: create, validate, publish, read, stats. The rules of versions are the store's; what makes a
// document valid is the machine's.
import type { FastifyInstance, FastifyReply } from "fastify";
import { Type } from "typebox";
import { type CompileOptions, isObject, type JsonObject } from "../../machines/index.js";
import { badRequest, invalidConfig, notFound } from "../errors.js";
import {
  type Draft,
  listVersions,
  listWorkflows,
  publishDefinition,
  readDefinition,
  storeDefinition,
  workflowExists,
  workflowStats,
} from "../store/definitions.js";
import { AnyObject } from "./body.js";
import type { ApiDeps } from "./index.js";
import * as q from "./query.js";
import { pageSchema, ref, responses } from "./schemas.js";

export type Compiling = Pick<ApiDeps, "compile" | "catalog">;

const path = q.pathReader({ wf_id: q.id });
const versionPath = q.pathReader({ wf_id: q.id, version: q.integer(1, q.MAX_INT32) });
const versionQuery = q.queryReader({ version: q.integer(1, q.MAX_INT32) });
const pageQuery = q.queryReader(q.PAGE);

const TAGS = ["workflows"];
const DOCUMENT = AnyObject({ description: "A WorkflowDefinition. Unknown fields and step attributes are refused." });
const ONE = { description: "The definition.", ...ref("WorkflowDefinition") };
const MANY = { description: "A page of definitions.", ...pageSchema("WorkflowDefinition") };

export function workflowRoutes(app: FastifyInstance, deps: ApiDeps): void {
  createRoute(app, deps);
  validateRoute(app, deps);
  publishRoutes(app, deps);
  readRoutes(app, deps);
  machineRoute(app, deps);
  statsRoute(app, deps);
}

/** The valid document and what is only doubtful in it. Throws 400 `invalid_config` with every problem. */
export function draftOf(document: unknown, { compile, catalog }: Compiling) {
  const { program, problems, warnings } = compile.compileWorkflow(document, known(catalog));
  if (!program || problems.length > 0 || !isObject(document)) {
    const [first] = problems;
    throw invalidConfig(
      `the workflow is not valid: ${first ? `${first.path} ${first.message}` : "it is no object"}`,
      problems,
    );
  }
  const { version, published, created_by: createdBy } = document;
  const draft: Draft = {
    workflowId: program.workflowId,
    version: typeof version === "number" ? version : undefined,
    tenantId: program.tenantId,
    name: program.name,
    publish: published === true,
    createdBy: typeof createdBy === "string" ? createdBy : undefined,
    document,
  };
  return { draft, warnings };
}

/** What warnings are made of. A port's methods, called on their port. */
function known(catalog: Compiling["catalog"]): CompileOptions {
  return {
    action: (service, name, version) => catalog.action(service, name, version),
    rule: (ruleId) => catalog.rule(ruleId),
  };
}

function createRoute(app: FastifyInstance, deps: ApiDeps): void {
  const response = responses({ 200: ONE, 201: ONE }, 400, 409, 413, 415);
  const schema = { tags: TAGS, summary: "Store a version of a workflow", body: DOCUMENT, response };
  app.post("/api/v1/workflows", { schema }, async (request, reply) => {
    const { draft, warnings } = draftOf(required(request.body), deps);
    const { definition, stored } = await storeDefinition(deps.sql, draft);
    await deps.catalog.refresh();
    const { workflowId: workflow_id, version } = definition;
    request.log.info({ workflow_id, version, stored, warnings: warnings.length }, "a workflow definition was posted");
    reply.status(stored ? 201 : 200).header("Location", `/api/v1/workflows/${workflow_id}?version=${version}`);
    return definition.item;
  });
}

function validateRoute(app: FastifyInstance, { compile, catalog }: ApiDeps): void {
  const problem = Type.Object({ path: Type.String(), message: Type.String() });
  const report = Type.Object({ valid: Type.Boolean(), errors: Type.Array(problem), warnings: Type.Array(problem) });
  const response = responses({ 200: { description: "What was found.", ...report } }, 400, 413, 415);
  const schema = { tags: TAGS, summary: "Validate a workflow; nothing is stored", body: DOCUMENT, response };
  app.post("/api/v1/workflows/validate", { schema }, async (request) => {
    const { problems, warnings } = compile.compileWorkflow(required(request.body), known(catalog));
    return { valid: problems.length === 0, errors: problems, warnings };
  });
}

function required(body: unknown): unknown {
  if (body !== undefined) return body;
  throw badRequest("a JSON body is required", [{ path: "$", message: "is missing" }]);
}

function publishRoutes(app: FastifyInstance, deps: ApiDeps): void {
  for (const [name, published] of [["publish", true] as const, ["unpublish", false] as const]) {
    const summary = published
      ? "Publish a version: it can be started"
      : "Unpublish a version: it cannot be started any more";
    const schema = { tags: TAGS, summary, params: versionPath.schema, response: responses({ 200: ONE }, 400, 404) };
    app.post(`/api/v1/workflows/:wf_id/versions/:version/${name}`, { schema }, async (request) => {
      const { wf_id: workflowId, version } = versionPath.read(request.params);
      if (published) await refuseInvalid(deps, workflowId, version);
      const definition = await publishDefinition(deps.sql, workflowId, version, published);
      if (!definition) throw noSuchWorkflow(workflowId, version);
      await deps.catalog.refresh();
      return definition.item;
    });
  }
}

/** A draft may have been stored by a release that allowed more. */
async function refuseInvalid(deps: ApiDeps, workflowId: string, version: number): Promise<void> {
  const draft = await readDefinition(deps.sql, workflowId, version);
  if (draft && !draft.published) draftOf(draft.item, deps);
}

function readRoutes(app: FastifyInstance, { sql }: ApiDeps): void {
  const list = { tags: TAGS, querystring: pageQuery.schema, response: responses({ 200: MANY }, 400) };
  const listSchema = { ...list, summary: "List workflows, each by its latest published version" };
  app.get("/api/v1/workflows", { schema: listSchema }, async (request) =>
    listWorkflows(sql, q.pageOf(pageQuery.read(request.query))),
  );

  const readSchema = {
    tags: TAGS,
    summary: "Get the latest published version of a workflow, or the version asked for",
    params: path.schema,
    querystring: versionQuery.schema,
    response: responses({ 200: ONE }, 400, 404),
  };
  app.get("/api/v1/workflows/:wf_id", { schema: readSchema }, async (request) => {
    const { wf_id: workflowId } = path.read(request.params);
    const { version } = versionQuery.read(request.query);
    const definition = await readDefinition(sql, workflowId, version);
    if (!definition) throw noSuchWorkflow(workflowId, version);
    return definition.item;
  });

  const versionsSchema = { ...list, summary: "List a workflow's versions, newest first", params: path.schema };
  const response = responses({ 200: MANY }, 400, 404);
  app.get("/api/v1/workflows/:wf_id/versions", { schema: { ...versionsSchema, response } }, async (request) => {
    const { wf_id: workflowId } = path.read(request.params);
    const page = q.pageOf(pageQuery.read(request.query));
    if (!(await workflowExists(sql, workflowId))) throw noSuchWorkflow(workflowId);
    return listVersions(sql, workflowId, page);
  });
}

function machineRoute(app: FastifyInstance, { sql, catalog, compile }: ApiDeps): void {
  const machine = { description: "An XState v5 machine configuration.", ...AnyObject() };
  const schema = {
    tags: TAGS,
    summary: "Get the state machine compiled from a workflow",
    params: path.schema,
    querystring: versionQuery.schema,
    response: responses({ 200: machine }, 400, 404),
  };
  app.get("/api/v1/workflows/:wf_id/machine", { schema }, async (request): Promise<JsonObject> => {
    const { wf_id: workflowId } = path.read(request.params);
    const { version } = versionQuery.read(request.query);
    const definition = await readDefinition(sql, workflowId, version);
    if (!definition) throw noSuchWorkflow(workflowId, version);
    return compile.machineConfig(await catalog.program(definition.definitionId));
  });
}

function statsRoute(app: FastifyInstance, { sql }: ApiDeps): void {
  const stats = Type.Object({
    success_rate_24h: Type.Union([Type.Number({ minimum: 0, maximum: 1 }), Type.Null()]),
    last_run_at: Type.Union([Type.String({ format: "date-time" }), Type.Null()]),
    in_flight: Type.Integer(),
  });
  const response = responses({ 200: { description: "Over all versions.", ...stats } }, 400, 404);
  const schema = { tags: TAGS, summary: "Get aggregate stats of a workflow", params: path.schema, response };
  app.get("/api/v1/workflows/:wf_id/stats", { schema }, async (request, reply: FastifyReply) => {
    const { wf_id: workflowId } = path.read(request.params);
    if (!(await workflowExists(sql, workflowId))) throw noSuchWorkflow(workflowId);
    return reply.send(await workflowStats(sql, workflowId));
  });
}

function noSuchWorkflow(workflowId: string, version?: number) {
  return notFound(
    version === undefined
      ? `there is no published version of workflow ${workflowId}`
      : `there is no version ${version} of workflow ${workflowId}`,
  );
}
