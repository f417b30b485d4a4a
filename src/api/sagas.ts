import type { Sql } from "postgres";
import type { JsonObject, RunId } from "../../machines/index.js";
import { reachOf } from "../access/index.js";
import { notFound } from "../errors.js";
import { listEvents, listSignals, listUndo } from "../store/lists/history.js";
import type { Page, PageQuery } from "../store/lists/page.js";
import type { Reach } from "../store/lists/reach.js";
import type { Reader } from "../store/lists/read-pool.js";
import { runExists } from "../store/lists/runs.js";
import { listUserTasks } from "../store/lists/user-tasks.js";
import { countRuns } from "../store/statistics/run-counts.js";
import type { ApiDeps, Shared } from "./deps.js";
import { OneOf, PAGE, PageParameters, pageOf, path, query, RunIdText } from "./http/parameters.js";
import { readerOf } from "./http/reader.js";
import { empty, object, one, page, ref, responses } from "./http/responses.js";
import type { Api } from "./http/validation.js";
import { filterOf, RUN_FILTERS } from "./run-filters.js";
import type { Resource } from "./schemas.js";
import { AFTER_SEQ, WAIT } from "./waiting.js";

const listQuery = query({ ...RUN_FILTERS, sort: OneOf("-started_at", "started_at"), ...PAGE });
const countsQuery = query({ ...RUN_FILTERS, count: PAGE.count });
const runPath = path({ id: RunIdText });

export function sagaRoutes(app: Api, deps: ApiDeps & Shared): void {
  listRoute(app, deps);
  countsRoute(app, deps);
  getRoute(app, deps);
  eraseRoute(app, deps);
  for (const part of PARTS) partRoute(app, deps, part);
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
