// Starting runs, and reading them and what belongs to them. Commands to a run stand in commands.ts, watching in stream.ts.
import { isUtf8 } from "node:buffer";
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Sql } from "postgres";
import { type Static, Type } from "typebox";
import { FORBIDDEN_NAMES, type JsonObject, RUN_STATES, UUID_PATTERN } from "../../machines/index.js";
import { badRequest, notFound } from "../errors.js";
import type { StartRequest } from "../run/ports.js";
import { listEvents, listSignals, listUndo } from "../store/history.js";
import type { Page, PageQuery } from "../store/page.js";
import { listRuns, readRun, runExists } from "../store/runs.js";
import { listUserTasks } from "../store/user-tasks.js";
import { AnyObject, jsonPath, readBody } from "./body.js";
import type { ApiDeps } from "./index.js";
import * as q from "./query.js";
import { pageSchema, type Resource, ref, responses } from "./schemas.js";

/** Ten years: the longest any clock here runs. */
const MAX_MS = 10 * 366 * 86_400_000;
const KEY = { minLength: 1, maxLength: 255 };

const Start = Type.Object({
  workflow_id: Type.String({ pattern: q.ID_PATTERN }),
  version: Type.Optional(Type.Integer({ minimum: 1, maximum: q.MAX_INT32 })),
  entrypoint: Type.Optional(
    Type.String({ maxLength: 128, description: "Empty or `default`: the definition's start." }),
  ),
  inputs: Type.Optional(AnyObject()),
  variables: Type.Optional(AnyObject()),
  tenant_id: Type.Optional(Type.String({ pattern: UUID_PATTERN })),
  dry_run: Type.Optional(Type.Boolean()),
  feature_overrides: Type.Optional(
    Type.Unsafe<Record<string, boolean>>({ type: "object", additionalProperties: { type: "boolean" } }),
  ),
  run_id: Type.Optional(Type.String({ pattern: UUID_PATTERN })),
  idempotency_key: Type.Optional(Type.String(KEY)),
  business_key: Type.Optional(Type.String({ minLength: 1, maxLength: 256 })),
  delay_ms: Type.Optional(Type.Integer({ minimum: 0, maximum: MAX_MS })),
  timeout_ms: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_MS })),
});

const STARTED = {
  description: "The run is durable.",
  type: "object",
  properties: {
    run_id: { type: "string", format: "uuid" },
    workflow_id: { type: "string" },
    version: { type: "integer" },
    definition_id: { type: "string", format: "uuid" },
    state: { type: "string" },
    deduplicated: { type: "boolean", description: "The first run of this idempotency key or run id." },
  },
};

const listQuery = q.queryReader({
  workflow_id: q.id,
  version: q.integer(1, q.MAX_INT32),
  state: q.listOf(...RUN_STATES),
  tenant_id: q.uuid,
  trigger_id: q.uuid,
  parent_run_id: q.uuid,
  root_only: q.flag,
  business_key: q.text({ max: 256 }),
  requires_manual_review: q.flag,
  awaited_signal: q.text({ max: 256 }),
  current_step: q.id,
  started_after: q.time,
  started_before: q.time,
  q: q.text({ min: 0, max: 256 }),
  sort: q.oneOf("-started_at", "started_at"),
  ...q.PAGE,
});
const pageQuery = q.queryReader(q.PAGE);
const runPath = q.pathReader({ id: q.uuid });

export function sagaRoutes(app: FastifyInstance, deps: ApiDeps): void {
  startRoute(app, deps);
  listRoute(app, deps);
  getRoute(app, deps);
  partsRoutes(app, deps);
}

function startRoute(app: FastifyInstance, { runs }: ApiDeps): void {
  const key = { type: "object", properties: { "idempotency-key": { type: "string", ...KEY } } };
  const schema = {
    tags: ["sagas"],
    summary: "Start a run",
    body: Start,
    headers: key,
    response: responses({ 202: STARTED }, 400, 404, 409, 413, 415, 422),
  };
  app.post("/api/v1/sagas/start", { schema }, async (request, reply) => {
    const body = readBody(request, reply, Start);
    const answer = await runs.start(startRequest(body, request));
    reply.status(202).header("Location", `/api/v1/sagas/${answer.runId}`);
    return {
      run_id: answer.runId,
      workflow_id: answer.workflowId,
      version: answer.version,
      definition_id: answer.definitionId,
      state: answer.state,
      deduplicated: answer.deduplicated,
    };
  });
}

function startRequest(body: Static<typeof Start>, request: FastifyRequest): StartRequest {
  refuseNames(body.variables ?? {}, "$.variables");
  refuseNames(body.feature_overrides ?? {}, "$.feature_overrides");
  return {
    workflowId: body.workflow_id,
    version: body.version,
    entrypoint: body.entrypoint,
    inputs: body.inputs ?? {},
    variables: body.variables ?? {},
    tenantId: body.tenant_id?.toLowerCase(),
    dryRun: body.dry_run ?? false,
    features: body.feature_overrides ?? {},
    runId: body.run_id?.toLowerCase(),
    idempotencyKey: idempotencyKey(body.idempotency_key, request),
    businessKey: body.business_key,
    delayMs: body.delay_ms,
    timeoutMs: body.timeout_ms,
    actor: "api",
  };
}

function refuseNames(members: object, path: string): void {
  for (const name of Object.keys(members)) {
    if (!FORBIDDEN_NAMES.has(name)) continue;
    const place = jsonPath(path, name);
    throw badRequest(`the name at ${place} is refused`, [{ path: place, message: "is a name that is refused" }]);
  }
}

function idempotencyKey(member: string | undefined, request: FastifyRequest): string | undefined {
  const header = request.headers["idempotency-key"];
  if (header === undefined) return member;
  // Node reads headers as Latin-1: the same key has to be the same bytes in the header and in the body.
  const bytes = Buffer.from(String(header), "latin1");
  if (!isUtf8(bytes)) throw badRequest("the header Idempotency-Key must be UTF-8");
  const key = bytes.toString();
  if (key.length < KEY.minLength || key.length > KEY.maxLength) {
    throw badRequest("the header Idempotency-Key must have 1 to 255 characters");
  }
  if (member === undefined || member === key) return key;
  throw badRequest("the header Idempotency-Key and the member $.idempotency_key differ", [
    { path: "$.idempotency_key", message: "differs from the header Idempotency-Key" },
  ]);
}

function listRoute(app: FastifyInstance, { sql }: ApiDeps): void {
  const response = responses({ 200: { description: "A page of runs.", ...pageSchema("SagaRun") } }, 400);
  const schema = { tags: ["sagas"], summary: "List runs", querystring: listQuery.schema, response };
  app.get("/api/v1/sagas", { schema }, async (request) => {
    const query = listQuery.read(request.query);
    const filter = {
      workflowId: query.workflow_id,
      version: query.version,
      states: query.state,
      tenantId: query.tenant_id,
      triggerId: query.trigger_id,
      parentRunId: query.parent_run_id,
      rootOnly: query.root_only,
      businessKey: query.business_key,
      requiresManualReview: query.requires_manual_review,
      awaitedSignal: query.awaited_signal,
      currentStep: query.current_step,
      startedAfter: query.started_after,
      startedBefore: query.started_before,
      q: query.q || undefined,
    };
    return listRuns(sql, filter, q.pageOf(query), query.sort !== "started_at");
  });
}

function getRoute(app: FastifyInstance, { sql }: ApiDeps): void {
  const response = responses({ 200: { description: "The run.", ...ref("SagaRun") } }, 400, 404);
  const schema = { tags: ["sagas"], summary: "Get a run", params: runPath.schema, response };
  app.get("/api/v1/sagas/:id", { schema }, async (request) => {
    const { id } = runPath.read(request.params);
    const view = await readRun(sql, id);
    if (!view) throw noSuchRun(id);
    return view.run;
  });
}

interface Part {
  readonly name: string;
  readonly summary: string;
  readonly resource: Resource;
  list(sql: Sql, runId: string, page: PageQuery): Promise<Page<JsonObject>>;
}

const PARTS: readonly Part[] = [
  { name: "events", summary: "List a run's audit events", resource: "SagaRunEvent", list: listEvents },
  { name: "signals", summary: "List a run's signals", resource: "SagaSignal", list: listSignals },
  { name: "undo", summary: "List a run's undo entries", resource: "UndoEntry", list: listUndo },
  {
    name: "children",
    summary: "List a run's direct children",
    resource: "SagaRun",
    list: (sql, parentRunId, page) => listRuns(sql, { parentRunId }, page, false),
  },
  {
    name: "user_tasks",
    summary: "List the user tasks of a run, its branches and items",
    resource: "UserTask",
    list: (sql, runId, page) => listUserTasks(sql, { runId }, page),
  },
];

function partsRoutes(app: FastifyInstance, { sql }: ApiDeps): void {
  for (const { name, summary, resource, list } of PARTS) {
    const response = responses({ 200: { description: "A page.", ...pageSchema(resource) } }, 400, 404);
    const schema = { tags: ["sagas"], summary, params: runPath.schema, querystring: pageQuery.schema, response };
    app.get(`/api/v1/sagas/:id/${name}`, { schema }, async (request) => {
      const { id } = runPath.read(request.params);
      const page = q.pageOf(pageQuery.read(request.query));
      if (!(await runExists(sql, id))) throw noSuchRun(id);
      return list(sql, id, page);
    });
  }
}

export function noSuchRun(runId: string) {
  return notFound(`there is no run ${runId}`);
}
