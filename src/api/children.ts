// The children of a run: branches, items and sub-sagas, as a list of runs and as numbers. Their own routes are those of every run.
import { RUN_STATES } from "../../machines/index.js";
import { countChildren } from "../store/engine/child-counts.js";
import { runExists } from "../store/lists/runs.js";
import type { ApiDeps } from "./deps.js";
import { Id, ListOf, PAGE, pageOf, path, query, RunIdText } from "./http/parameters.js";
import { readerOf } from "./http/reader.js";
import { object, page, ref, responses } from "./http/responses.js";
import type { Api } from "./http/validation.js";
import { RunReader } from "./run-reader.js";
import { noSuchRun } from "./sagas.js";

const runPath = path({ id: RunIdText });
const listQuery = query({ parent_step_id: Id, state: ListOf(...RUN_STATES), ...PAGE });

export function childRoutes(app: Api, deps: Pick<ApiDeps, "readPool" | "workers">): void {
  childrenRoute(app, deps);
  countsRoute(app, deps);
}

function childrenRoute(app: Api, { readPool, workers }: Pick<ApiDeps, "readPool" | "workers">): void {
  const runs = new RunReader(readPool, workers);
  const response = responses({ 200: page("A page.", "SagaRun") }, 400, 404);
  const summary = "List a run's direct children: branches, items and sub-sagas";
  const schema = {
    tags: ["sagas"],
    "x-saga-role": "viewer" as const,
    summary,
    params: runPath,
    querystring: listQuery,
    response,
  };
  app.get("/api/v1/sagas/:id/children", { schema }, async (request, reply) => {
    const { id } = request.params;
    const { query } = request;
    const reader = readerOf(request, reply);
    if (!(await readPool.look(reader, (sql, reach) => runExists(sql, reach, id)))) throw noSuchRun(id);
    const filter = { parentRunId: id, parentStepId: query.parent_step_id, states: query.state };
    return runs.list(filter, { page: pageOf(query), newestFirst: false }, reader);
  });
}

const COUNTS = object(
  "The numbers of the direct children, by where they belong and where they stand.",
  {
    items: { type: "array", items: ref("ChildCount") },
    truncated: { type: "boolean", description: "There are more than 1,000 groups." },
  },
  ["truncated"],
);

function countsRoute(app: Api, { readPool }: Pick<ApiDeps, "readPool">): void {
  const response = responses({ 200: COUNTS }, 400, 404);
  const summary = "Count a run's direct children by step, branch, state and current step";
  const schema = { tags: ["sagas"], "x-saga-role": "viewer" as const, summary, params: runPath, response };
  app.get("/api/v1/sagas/:id/children/counts", { schema }, async (request, reply) => {
    const { id } = request.params;
    const reader = readerOf(request, reply);
    if (!(await readPool.look(reader, (sql, reach) => runExists(sql, reach, id)))) throw noSuchRun(id);
    return readPool.run(reader, (sql, reach) => countChildren(sql, reach, id));
  });
}
