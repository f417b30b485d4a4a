// The children of a run: branches, items and sub-sagas, as a list of runs and as numbers. Their own routes are those of every run.
import { RUN_STATES } from "../../machines/index.js";
import { countChildren } from "../store/engine/child-counts.js";
import { runExists } from "../store/lists/runs.js";
import type { ApiDeps } from "./deps.js";
import { closeSignal } from "./http/close-signal.js";
import { Id, ListOf, PAGE, pageOf, path, query, RunIdText } from "./http/parameters.js";
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
  const schema = { tags: ["sagas"], summary, params: runPath, querystring: listQuery, response };
  app.get("/api/v1/sagas/:id/children", { schema }, async ({ params: { id }, query }, reply) => {
    const closed = closeSignal(reply);
    if (!(await readPool.look(closed, (sql) => runExists(sql, id)))) throw noSuchRun(id);
    const filter = { parentRunId: id, parentStepId: query.parent_step_id, states: query.state };
    return runs.list(filter, { page: pageOf(query), newestFirst: false }, closed);
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
  const schema = { tags: ["sagas"], summary, params: runPath, response };
  app.get("/api/v1/sagas/:id/children/counts", { schema }, async ({ params: { id } }, reply) => {
    const closed = closeSignal(reply);
    if (!(await readPool.look(closed, (sql) => runExists(sql, id)))) throw noSuchRun(id);
    return readPool.run(closed, (sql) => countChildren(sql, id));
  });
}
