// Runs: starting, listing and reading them and their parts. Commands to a run are in commands.ts, its live stream is in stream.ts.
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Sql } from "postgres";
import type { Static } from "typebox";
import * as Type from "typebox";
import {
  type JsonObject,
  LONGEST_WAIT_MS,
  misfit,
  parseRunId,
  type RunId,
  UUID_PATTERN,
} from "../../machines/index.js";
import { ownerFor, reachOf } from "../access/index.js";
import { badRequest, notFound } from "../errors.js";
import { uuidVersion } from "../ids.js";
import type { StartAnswer, StartRequest } from "../run/ports.js";
import { noPublishedWorkflow } from "../run/starter.js";
import { listEvents, listSignals, listUndo } from "../store/lists/history.js";
import type { Page, PageQuery } from "../store/lists/page.js";
import type { Reach } from "../store/lists/reach.js";
import type { Reader } from "../store/lists/read-pool.js";
import { runExists } from "../store/lists/runs.js";
import { listUserTasks } from "../store/lists/user-tasks.js";
import { countRuns } from "../store/statistics/run-counts.js";
import type { ApiDeps, Shared } from "./deps.js";
import { AnyObject, refuseNames } from "./http/body.js";
import { IdempotencyKey, idempotencyKey } from "./http/idempotency.js";
import { endOfWork } from "./http/load-shedding.js";
import { OneOf, PAGE, PageParameters, pageOf, path, query, RunIdText, Version } from "./http/parameters.js";
import { readerOf } from "./http/reader.js";
import { empty, object, one, page, ref, responses } from "./http/responses.js";
import { CommandHeaders, traceOf } from "./http/trace.js";
import type { Api } from "./http/validation.js";
import { filterOf, MAX_LABEL, RUN_FILTERS } from "./run-filters.js";
import type { Resource } from "./schemas.js";
import { AFTER_SEQ, WAIT, type Waiters } from "./waiting.js";

export const Labels = Type.Unsafe<Readonly<Record<string, string>>>({
  type: "object",
  propertyNames: { pattern: misfit.NEW_ID_PATTERN },
  additionalProperties: { type: "string", minLength: 1, maxLength: MAX_LABEL },
  maxProperties: 16,
  description: "They stay with the run, and are filters of the list.",
});

const Start = Type.Object({
  workflow_id: Type.String({ pattern: misfit.ID_PATTERN }),
  version: Type.Optional(Version),
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
  idempotency_key: Type.Optional(IdempotencyKey),
  business_key: Type.Optional(Type.String({ minLength: 1, maxLength: 256 })),
  labels: Type.Optional(Labels),
  delay_ms: Type.Optional(Type.Integer({ minimum: 0, maximum: LONGEST_WAIT_MS })),
  timeout_ms: Type.Optional(Type.Integer({ minimum: 1, maximum: LONGEST_WAIT_MS })),
});

const START_ANSWER = {
  run_id: { type: "string", format: "uuid" },
  workflow_id: { type: "string" },
  version: { type: "integer" },
  definition_id: { type: "string", format: "uuid" },
  state: { type: "string" },
  deduplicated: {
    type: "boolean",
    description: "A run with this idempotency key or run id existed; this is that run.",
  },
};
const STARTED = object("The run is durable.", START_ANSWER);
const ENDED = object("The run has ended within `wait_ms`.", { ...START_ANSWER, run: ref("SagaRun") });

const listQuery = query({ ...RUN_FILTERS, sort: OneOf("-started_at", "started_at"), ...PAGE });
const countsQuery = query({ ...RUN_FILTERS, count: PAGE.count });
const runPath = path({ id: RunIdText });

export function sagaRoutes(app: Api, deps: ApiDeps & Shared): void {
  startRoute(app, deps);
  listRoute(app, deps);
  countsRoute(app, deps);
  getRoute(app, deps);
  eraseRoute(app, deps);
  for (const part of PARTS) partRoute(app, deps, part);
}

function startRoute(app: Api, { starter, waiters }: ApiDeps & Shared): void {
  const schema = {
    tags: ["sagas"],
    "x-saga-role": "operator" as const,
    summary: "Start a run; with wait_ms the answer waits for its end",
    body: Start,
    headers: CommandHeaders,
    querystring: query(WAIT),
    response: responses({ 200: ENDED, 202: STARTED }, 400, 404, 409, 413, 415, 422, 429),
  };
  app.post("/api/v1/sagas/start", { schema }, async (request, reply) => {
    const answer = await starter.start(startRequest(request));
    reply.status(202).header("Location", `/api/v1/sagas/${answer.runId}`);
    const { wait_ms: ms = 0 } = request.query;
    const run = ms > 0 ? await endOf(answer, waiters, ms, request, reply) : undefined;
    if (run) reply.status(200);
    return { ...startItem(answer), ...(run && { state: run.state, run }) };
  });
}

function startItem({ runId, workflowId, version, definitionId, state, deduplicated }: StartAnswer) {
  return { run_id: runId, workflow_id: workflowId, version, definition_id: definitionId, state, deduplicated };
}

/** The run as it ended in time. It is durable, so whatever keeps the request from waiting does not fail the start. */
async function endOf(
  { runId, deduplicated }: StartAnswer,
  waiters: Waiters,
  ms: number,
  request: FastifyRequest<{ Body: Static<typeof Start> }>,
  reply: FastifyReply,
) {
  endOfWork(request);
  try {
    // A run that was there before was started by another request, which need not have said the same to the letter.
    const started = deduplicated ? undefined : { labels: request.body.labels };
    const view = await waiters.end(runId, { ms, reply, reader: readerOf(request, reply) }, started);
    return view?.terminal ? view.run : undefined;
  } catch {
    return undefined;
  }
}

function startRequest(request: FastifyRequest<{ Body: Static<typeof Start> }>): StartRequest {
  const { body, principal } = request;
  const { workflows } = principal;
  const runId = parseRunId(body.run_id);
  if (runId !== undefined && principal.kind !== "anyone") refuseDerived(runId);
  refuseNames(body.variables ?? {}, "$.variables");
  refuseNames(body.feature_overrides ?? {}, "$.feature_overrides");
  refuseNames(body.labels ?? {}, "$.labels");
  const tenantId = ownerFor(principal, body.tenant_id?.toLowerCase());
  // Before a run that was started under the same key is looked for.
  if (workflows?.match(body.workflow_id) === false) throw noPublishedWorkflow(body.workflow_id, body.version);
  return {
    workflowId: body.workflow_id,
    version: body.version,
    entrypoint: body.entrypoint,
    inputs: body.inputs ?? {},
    variables: body.variables ?? {},
    tenantId,
    dryRun: body.dry_run ?? false,
    features: body.feature_overrides ?? {},
    runId,
    idempotencyKey: idempotencyKey(request, body.idempotency_key),
    businessKey: body.business_key,
    labels: body.labels,
    delayMs: body.delay_ms,
    timeoutMs: body.timeout_ms,
    ...traceOf(request),
    actor: principal.actor,
  };
}

/** The service derives such ids for runs that are still to be started: who took one would take the place of that run. */
function refuseDerived(runId: RunId): void {
  if (uuidVersion(runId) !== 8) return;
  const message = "must not be a UUID of version 8";
  throw badRequest(`$.run_id ${message}: those are the ids that the service derives`, [{ path: "$.run_id", message }]);
}

function listRoute(app: Api, { runReader }: Shared): void {
  const response = responses({ 200: page("A page of runs.", "SagaRun") }, 400);
  const schema = {
    tags: ["sagas"],
    "x-saga-role": "viewer" as const,
    summary: "List runs",
    querystring: listQuery,
    response,
  };
  app.get("/api/v1/sagas", { schema }, async (request, reply) => {
    const { query } = request;
    const newestFirst = query.sort !== "started_at";
    return runReader.list(filterOf(query), { page: pageOf(query), newestFirst }, readerOf(request, reply));
  });
}

const COUNTS = object(
  "The numbers of the runs that match, by kind.",
  {
    items: { type: "array", items: ref("RunCount") },
    truncated: { type: "boolean", description: "There are more than 10,000 kinds." },
  },
  ["truncated"],
);

function countsRoute(app: Api, { readPool }: Pick<ApiDeps, "readPool">): void {
  const summary = "Count runs by workflow, version, state and reason of a pause";
  const schema = {
    tags: ["sagas"],
    "x-saga-role": "viewer" as const,
    summary,
    querystring: countsQuery,
    response: responses({ 200: COUNTS }, 400),
  };
  app.get("/api/v1/sagas/counts", { schema }, async (request, reply) => {
    const { query } = request;
    return readPool.run(readerOf(request, reply), (sql, reach) =>
      countRuns(sql, reach, filterOf(query), { exact: query.count === "exact" }),
    );
  });
}

function getRoute(app: Api, { waiters }: Shared): void {
  const response = responses({ 200: one("The run.", "SagaRun") }, 400, 404);
  const querystring = query({ ...WAIT, ...AFTER_SEQ });
  const summary = "Get a run; with wait_ms the answer waits for its end, or for an audit row after after_seq";
  const schema = { tags: ["sagas"], "x-saga-role": "viewer" as const, summary, params: runPath, querystring, response };
  app.get("/api/v1/sagas/:id", { schema }, async (request, reply) => {
    const { id } = request.params;
    const { wait_ms: ms = 0, after_seq: afterSeq } = request.query;
    const view = await waiters.run(id, { ms, afterSeq, reply, reader: readerOf(request, reply) });
    if (!view) throw noSuchRun(id);
    return view.run;
  });
}

function eraseRoute(app: Api, { erasure }: ApiDeps): void {
  const schema = {
    tags: ["sagas"],
    "x-saga-role": "admin" as const,
    summary: "Erase a run that has ended, with its children and everything of them",
    params: runPath,
    response: responses({ 204: empty("Nothing of it is left but who erased it, and when.") }, 400, 404, 409),
  };
  app.delete("/api/v1/sagas/:id", { schema }, async (request, reply) => {
    const { principal, params } = request;
    const onGone = () => request.did("run erased", { run_id: params.id });
    const { changed } = await erasure.erase(params.id, { actor: principal.actor, reach: reachOf(principal), onGone });
    if (!changed) throw noSuchRun(params.id);
    return reply.status(204).send();
  });
}

/** A list that belongs to one run. */
interface Part {
  readonly name: string;
  readonly summary: string;
  readonly resource: Resource;
  list(deps: Pick<ApiDeps, "readPool">, runId: RunId, page: PageQuery, reader: Reader): Promise<Page<JsonObject>>;
}

type List = (sql: Sql, reach: Reach, runId: RunId, page: PageQuery) => Promise<Page<JsonObject>>;
const onSession =
  (list: List): Part["list"] =>
  ({ readPool }, runId, page, reader) =>
    readPool.run(reader, (sql, reach) => list(sql, reach, runId, page));

const PARTS: readonly Part[] = [
  { name: "events", summary: "List a run's audit events", resource: "SagaRunEvent", list: onSession(listEvents) },
  { name: "signals", summary: "List a run's signals", resource: "SagaSignal", list: onSession(listSignals) },
  { name: "undo", summary: "List a run's undo entries", resource: "UndoEntry", list: onSession(listUndo) },
  {
    name: "user_tasks",
    summary: "List the user tasks of a run, its branches and items",
    resource: "UserTask",
    list: onSession((sql, reach, runId, page) => listUserTasks(sql, reach, { runId }, page)),
  },
];

function partRoute(app: Api, { readPool }: ApiDeps, { name, summary, resource, list }: Part): void {
  const response = responses({ 200: page("A page.", resource) }, 400, 404);
  const schema = {
    tags: ["sagas"],
    "x-saga-role": "viewer" as const,
    summary,
    params: runPath,
    querystring: PageParameters,
    response,
  };
  app.get(`/api/v1/sagas/:id/${name}`, { schema }, async (request, reply) => {
    const { id } = request.params;
    const reader = readerOf(request, reply);
    if (!(await readPool.look(reader, (sql, reach) => runExists(sql, reach, id)))) throw noSuchRun(id);
    return list({ readPool }, id, pageOf(request.query), reader);
  });
}

export function noSuchRun(runId: RunId) {
  return notFound(`there is no run ${runId}`);
}
